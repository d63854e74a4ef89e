"""Everything public that can be called, with what its parameters are: from signatures, and from type stubs."""

import ast
import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path

from cygrad.autograd import _core

MODULES = (
    "cygrad", "cygrad.linalg", "cygrad.fft", "cygrad.special", "cygrad.signal.windows", "cygrad.random",
    "cygrad.autograd", "cygrad.autograd.forward_ad", "cygrad.autograd.functional", "cygrad.autograd.graph",
    "cygrad.func", "cygrad.nn", "cygrad.nn.functional", "cygrad.nn.init", "cygrad.nn.utils", "cygrad.optim",
    "cygrad.array_api", "cygrad.array_api.linalg", "cygrad.array_api.fft", "cygrad.tools.gradcheck",
    "cygrad.tools.graph", "cygrad.tools.storage_picture", "cygrad.amp", "cygrad.amp.autocast_mode",
    "cygrad.nn.training", "cygrad.nn.grad", "cygrad.nn.parameter", "cygrad.nn.utils.parametrizations",
    "cygrad.nn.utils.parametrize", "cygrad.nn.utils.rnn", "cygrad.optim.swa_utils", "cygrad.tensortypes",
    "cygrad.tools.onnx",
)
# Objects whose methods are called: class -> ways to make one; tensors are drawn like arguments.
OBJECTS = {
    "cygrad.Tensor": None,
    "cygrad.Generator": ("torch.Generator()",),
    "cygrad.UntypedStorage": ("a.untyped_storage()", "torch.UntypedStorage(5)", "torch.UntypedStorage()"),
    "cygrad.TypedStorage": ("a.storage()", "i.storage()"),
    "cygrad.amp.GradScaler": ("torch.amp.GradScaler('cpu')",),
    "cygrad.Size": ("torch.Size([2, 3])", "torch.Size()"),
    "cygrad.device": ("torch.device('cpu')",),
    "cygrad.dtype": ("torch.float32",),
    "cygrad.finfo": ("torch.finfo(torch.float32)",),
}
SPECIAL_METHODS = {
    "__getitem__", "__setitem__", "__delitem__", "__contains__", "__setstate__", "__reduce_ex__", "__dlpack__",
    "__array__", "__format__", "__len__", "__iter__", "__bool__", "__int__", "__float__",
    "__complex__", "__index__", "__pow__", "__rpow__", "__ipow__", "__torch_function__",
}
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "and", "or", "xor", "lshift", "rshift")
# They ask for a terminal, wait for other processes, end the process, or make what has no values to look at.
LEFT_OUT = {"cygrad.Tensor.share_memory_", *(f"cygrad.nn.{place}Uninitialized{kind}" for place in ("", "parameter.")
                                             for kind in ("Buffer", "Parameter"))}


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str
    kind: str           # "positional", "keyword" or "many"
    needed: bool


@dataclass(frozen=True)
class Target:
    path: str                       # as a user writes it, with cygrad for the library
    receivers: tuple | None = ()    # for a method: how to make its object; None: any tensor
    signatures: tuple = ()          # each a tuple of parameters; none if unknown

    @property
    def name(self):
        return self.path.rpartition(".")[2]


def from_signature(f):
    """The signature of an object, as the only one; none where it has no readable one."""
    try:
        found = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = {inspect.Parameter.KEYWORD_ONLY: "keyword", inspect.Parameter.VAR_POSITIONAL: "many",
             inspect.Parameter.VAR_KEYWORD: None}
    made = []
    for p in found:
        kind = kinds.get(p.kind, "positional")
        annotation = "" if p.annotation is p.empty else inspect.formatannotation(p.annotation)
        if kind:
            made.append(Parameter(p.name, annotation, kind, p.default is p.empty and kind != "many"))
    return (tuple(made),)


def from_stub(node):
    def one(arg, kind, needed):
        return Parameter(arg.arg, ast.unparse(arg.annotation) if arg.annotation else "", kind, needed)

    args = node.args
    plain = [*args.posonlyargs, *args.args]
    needed = len(plain) - len(args.defaults)
    made = [one(a, "positional", n < needed) for n, a in enumerate(plain)]
    made += [one(args.vararg, "many", False)] if args.vararg else []
    made += [one(a, "keyword", d is None) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return tuple(made)


def overloads(body):
    """Name -> signatures of the functions and of their other names."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = (*found.get(node.name, ()), from_stub(node))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in found:
            found[node.targets[0].id] = found[node.value.id]
    return found


def stubs():
    """Signatures of the compiled module's functions, and of the methods of its Tensor."""
    path = Path(_core.__file__).with_name("_core.pyi")
    if not path.exists():
        return {}, {}
    tree = ast.parse(path.read_text())
    tensor = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    return overloads(tree.body), overloads(tensor.body)


def imported(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def wanted(name):
    if not name.startswith("_"):
        return True
    plain = name.strip("_")
    return name in SPECIAL_METHODS or (
        name == f"__{plain}__" and any(plain in (o, "r" + o, "i" + o) for o in OPERATORS))


def functions(stub):
    for module_name in MODULES:
        module = imported(module_name)
        names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
        for name in sorted(names):
            f = getattr(module, name, None)
            path = f"{module_name}.{name}"
            if f is None or inspect.ismodule(f) or not callable(f) or path in OBJECTS or path in LEFT_OUT:
                continue
            if not str(getattr(f, "__module__", None) or "cygrad").startswith("cygrad"):
                continue                                                # what a module imports for itself
            yield Target(path, (), from_signature(f) or stub.get(name, ()))


def methods(stub):
    for path, receivers in OBJECTS.items():
        owner, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(owner), name)
        if path not in ("cygrad.dtype",):
            yield Target(path, (), from_signature(kind))
        for name in sorted(dir(kind)):
            f = inspect.getattr_static(kind, name)
            whole = f"{path}.{name}"
            if not wanted(name) or whole in LEFT_OUT or isinstance(f, property) or inspect.isgetsetdescriptor(f):
                continue
            if hasattr(object, name) and getattr(kind, name) is getattr(object, name):
                continue
            known = stub.get(name, ()) if path == "cygrad.Tensor" else ()
            known = known or from_signature(getattr(kind, name))
            known = tuple(ps[1:] if ps and ps[0].name == "self" else ps for ps in known)
            yield Target(whole, receivers, known)


def targets():
    stub_functions, stub_methods = stubs()
    return {t.path: t for t in (*functions(stub_functions), *methods(stub_methods))}
