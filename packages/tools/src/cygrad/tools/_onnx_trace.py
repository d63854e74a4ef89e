"""Stand-ins for tensors, and the nodes of ONNX that using them makes."""

import operator
import re
from collections import namedtuple

import numpy as np

import cygrad
from cygrad import Tensor
from cygrad.tools._svg import clean

__all__ = ["COMPOSED", "MODULES", "NODES", "ExportError", "Trace", "Traced", "call", "composed", "nodes", "traced_in"]

_DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


NODES = {}  # name -> function (trace, real result, *args, **kwargs) that adds nodes and returns names
COMPOSED = {}  # name -> function of stand-ins that is made of other operations
MODULES = {}  # class name -> function (module, *args, **kwargs) of modules that are exported as a whole
VIEWS = set()  # names of operations whose result looks at the memory of what they are given


def nodes(*names, view=False):
    """Register a function that adds the nodes of operations."""

    def register(function):
        NODES.update(dict.fromkeys(names, function))
        VIEWS.update(names if view else ())
        return function

    return register


def composed(*names):
    """Register a function that computes operations from others."""

    def register(function):
        COMPOSED.update(dict.fromkeys(names, function))
        return function

    return register


class ExportError(RuntimeError):
    """Something in a model cannot be written as ONNX."""


class Trace:
    """The nodes, weights and inputs of the model that is being written.

    Parameters
    ----------
    library : module
        onnx.
    model : Module or callable
    dynamic : bool
        Whether sizes may differ when the model is run.
    """

    def __init__(self, library, model, dynamic):
        self.library, self.dynamic = library, dynamic
        self.nodes, self.weights, self.inputs = [], {}, []
        self._keep, self._count = [], 0
        named = []
        if hasattr(model, "named_parameters"):
            named = [*model.named_parameters(), *model.named_buffers()]
        self._called = {id(t): name for name, t in named}
        self._names, self._taken = {}, set()
        self._keep += [t for _, t in named]

    def fresh(self, kind):
        """A name that no value has yet."""
        while True:
            self._count += 1
            name = f"{kind.lower()}_{self._count}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def _name_like(self, name):
        """A name that no value has yet, the given one if that may be: files hold UTF-8, and "" means nothing."""
        name = clean(name)
        if not name or name in self._taken or _OURS.fullmatch(name):
            return self.fresh(name or "weight")
        self._taken.add(name)
        return name

    def input(self, name, value):
        """The stand-in of an input."""
        if name in self._taken:
            raise ValueError(f"export: two inputs are called {name!r}")
        self._taken.add(name)
        made = Traced(self, name, value)
        self.inputs.append(made)
        return made

    def name_of(self, value, dtype=None):
        """The name of a value: of a stand-in, or of a tensor or number that becomes a weight.

        With a dtype, the value is converted to it.
        """
        if isinstance(value, Traced):
            if dtype is None or value.dtype == dtype:
                return value.name
            return self.add("Cast", [value], to=self.kind_of(dtype))
        if not isinstance(value, Tensor):
            return self.constant(np.asarray(value, dtype=_numpy_dtype(dtype)))
        if dtype is not None and value.dtype != dtype:
            return self.constant(value.detach().to(dtype).numpy())
        name = self._names.get(id(value))
        if name is None:
            called = self._called.get(id(value))
            name = self._names[id(value)] = self.fresh("constant") if called is None else self._name_like(called)
            self._keep.append(value)
        if name not in self.weights:
            self.kind_of(value.dtype)
            self.weights[name] = np.ascontiguousarray(value.detach().numpy()).reshape(tuple(value.shape))
        return name

    def constant(self, array):
        """The name of a weight that is no tensor of the model."""
        name = self.fresh("constant")
        self.weights[name] = np.asarray(array)
        return name

    def integers(self, *values):
        """The name of a list of sizes or dimensions."""
        return self.constant(np.array(values, dtype=np.int64))

    def add(self, kind, inputs, outputs=1, **attributes):
        """Add a node of names, stand-ins, tensors, and None for what is left out. Return the names of its outputs."""
        names = ["" if i is None else i if isinstance(i, str) else self.name_of(i) for i in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self.fresh(kind) for _ in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(self.library.helper.make_node(kind, names, made, name=self.fresh("node"), **attributes))
        return made[0] if outputs == 1 else made

    def kind_of(self, dtype):
        """ONNX's number of a dtype."""
        name = str(dtype).removeprefix("torch.")
        if name not in _DTYPES:
            raise ExportError(f"tensors of {dtype} cannot be exported; convert them first, for example to float32")
        return getattr(self.library.TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}.get(name, name.upper()))

    def model(self, outputs, names, opset, axes, ir_version):
        """The finished model."""
        helper = self.library.helper
        for k, name in enumerate(names):
            if name in self._taken or name in names[:k]:
                raise ValueError(f"export: an output cannot be called {name!r}, which is another value's name")
        known = {t.name for t in self.inputs} | set(names)
        if not set(axes) <= known:
            raise ValueError(f"export: dynamic_axes names {sorted(set(axes) - known)}, the model has {sorted(known)}")
        for name, value in zip(names, outputs, strict=True):
            self.nodes.append(helper.make_node("Identity", [value.name], [name], name=self.fresh("node")))
        graph = helper.make_graph(
            self.nodes,
            "cygrad",
            [self._info(t.name, t, axes) for t in self.inputs],
            [self._info(name, t, axes) for name, t in zip(names, outputs, strict=True)],
            [self.library.numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, producer_name="cygrad", ir_version=ir_version)

    def _info(self, name, t, axes):
        shape = list(t.shape)
        chosen = axes.get(name, {})
        chosen = chosen if isinstance(chosen, dict) else {d: f"{name}_{d}" for d in chosen}
        for d, label in chosen.items():
            if not -len(shape) <= d < len(shape):
                raise ValueError(f"export: dynamic_axes of {name!r} names dimension {d}, the shape is {tuple(shape)}")
            shape[d] = clean(str(label))
        return self.library.helper.make_tensor_value_info(name, self.kind_of(t.dtype), shape)


_OURS = re.compile(r"(input|output)_\d+")  # what inputs and outputs are called if nobody names them


def _numpy_dtype(dtype):
    return None if dtype is None else str(dtype).removeprefix("torch.")


class Traced:
    """A stand-in: a real tensor, and the name that it has in the exported model."""

    def __init__(self, trace, name, value):
        self.trace, self.name, self.value = trace, name, value
        self.shared = False  # whether another stand-in looks at the same memory

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)
    device = property(lambda self: self.value.device)
    ndim = property(lambda self: self.value.ndim)
    is_complex = property(lambda self: self.value.is_complex)
    is_floating_point = property(lambda self: self.value.is_floating_point)
    requires_grad = False
    T = property(lambda self: self.t())
    mT = property(lambda self: self.transpose(-2, -1))

    def size(self, dim=None):
        return self.value.size() if dim is None else self.value.size(dim)

    def dim(self):
        return self.value.dim()

    def numel(self):
        return self.value.numel()

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return iter([self[k] for k in range(len(self.value))])

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in NODES or name in COMPOSED:
            real = getattr(Tensor, name, None)
            return lambda *args, **kwargs: call(name, real, (self, *args), kwargs)
        if name.endswith("_") and (name[:-1] in NODES or name[:-1] in COMPOSED):
            return lambda *args, **kwargs: self.become(getattr(self, name[:-1])(*args, **kwargs))
        if hasattr(Tensor, name):
            raise ExportError(f"Tensor.{name} cannot be exported")
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    def become(self, other):
        """What an operation in place does; refused where something else would see it."""
        if self.shared:
            raise ExportError("a tensor is written in place of which there are views: that cannot be exported")
        if other.shape != self.shape:
            raise ExportError(f"in place, {tuple(self.shape)} cannot become {tuple(other.shape)}")
        self.name = self.trace.name_of(other, self.dtype)
        self.value = other.value.to(self.dtype)
        return self

    def refuse(self, *args):
        raise ExportError("the value of a tensor is asked for, as by if, float() or item(): that cannot be exported")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = item = tolist = numpy = __array__ = refuse

    def __setitem__(self, index, value):
        raise ExportError("writing to parts of a tensor cannot be exported: build it by cat() or where()")

    def __repr__(self):
        return f"Traced({self.name}, shape={tuple(self.shape)}, dtype={self.dtype})"

    __hash__ = object.__hash__


def _operator(name, turned=False, in_place=False):
    real = operator.getitem if name == "getitem" else getattr(cygrad, name)

    def function(self, *others):
        args = (*others, self) if turned else (self, *others)
        made = call(name, real, args, {})
        return self.become(made) if in_place else made

    return function


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "matmul": "matmul",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "and": "logical_and", "or": "logical_or",
    "neg": "neg", "abs": "abs", "invert": "logical_not", "getitem": "getitem",
}  # fmt: skip
for _name, _row in _OPERATORS.items():
    setattr(Traced, f"__{_name}__", _operator(_row))
    if _name in ("add", "sub", "mul", "truediv", "pow", "matmul", "and", "or"):
        setattr(Traced, f"__r{_name}__", _operator(_row, turned=True))
        setattr(Traced, f"__i{_name}__", _operator(_row, in_place=True))


def traced_in(value):
    """The first stand-in in nested containers, or None."""
    if isinstance(value, Traced):
        return value
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for entry in entries:
        found = traced_in(entry)
        if found is not None:
            return found
    return None


def plain(value):
    """The same with real tensors in place of stand-ins."""
    if isinstance(value, Traced):
        return value.value
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


_Extremum = namedtuple("_Extremum", "values indices")


def call(name, real, args, kwargs):
    """Run an operation on real tensors, and add its nodes."""
    try:
        if name in COMPOSED:
            return COMPOSED[name](*args, **kwargs)
        value = real(*plain(args), **plain(kwargs))
        if not isinstance(value, (Tensor, tuple, list)):  # x.type(), without an argument
            return value
        subject = traced_in((args, kwargs))
        trace = subject.trace
        names = NODES[name](trace, value, *args, **kwargs)
    except TypeError as error:
        raise ExportError(f"{name}() cannot be exported with these arguments: {error}") from error
    if value is plain(subject):  # what returns its input itself
        return subject
    several = isinstance(value, (tuple, list))
    made = (
        [Traced(trace, *pair) for pair in zip(names, value, strict=True)] if several else [Traced(trace, names, value)]
    )
    if name in VIEWS:
        for t in (subject, *made):
            t.shared = True
    if several and hasattr(value, "indices"):
        return _Extremum(*made)
    return tuple(made) if several else made[0]
