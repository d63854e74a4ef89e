"""Models as ONNX files, which other programs run: `export`.

A model is run once, with stand-ins for its inputs. A stand-in holds a real tensor, so that shapes are known and the
program goes its way, and every operation on it also adds nodes of ONNX. Loops and branches are therefore what they
were for these inputs. What has no counterpart here is refused by name; nothing is left out.
"""

import sys
import threading
from contextlib import contextmanager
from importlib import import_module

import cygrad
from cygrad.tools import _onnx_layers, _onnx_ops
from cygrad.tools._onnx_trace import COMPOSED, MODULES, NODES, ExportError, Trace, Traced, call, traced_in
from cygrad.tools._svg import clean

__all__ = ["ExportError", "export"]

REGISTERED = (_onnx_layers, _onnx_ops)  # importing them fills the tables of _onnx_trace
_OPSETS = (18, 19, 20, 21, 22)
_IR_VERSION = 9  # old enough for the programs that run such files
_patching = threading.RLock()


def export(
    model,
    args=(),
    f=None,
    *,
    kwargs=None,
    input_names=None,
    output_names=None,
    opset_version=18,
    dynamic_axes=None,
):
    """Write a model as ONNX.

    Parameters
    ----------
    model : Module, or callable
        A module is exported as it is in evaluation mode; its modes are afterwards as before.
    args : Tensor, or tuple
        What it is called with. Tensors become inputs of the exported model; anything else, also inside containers,
        stays as it is here.
    f : str or PathLike, optional
        Where to write; nothing is written if not given.
    kwargs : dict, optional
        Further arguments, by name.
    input_names, output_names : sequence of str, optional
        For inputs and outputs in their order; ``input_0``, ``output_0`` and so on if not given.
    opset_version : int, default 18
        Version of the operations, from 18 to 22.
    dynamic_axes : dict, optional
        Dimensions that may differ when the file is run: ``{"input_0": {0: "batch"}}``, or lists of dimensions. A size
        that the program reads as a number (``x.shape[0]``) stays what it was; views that keep the first size are told
        so.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ExportError
        If something in the model has no counterpart, or depends on values; the message names it.
    ImportError
        If the onnx library is not installed.
    TypeError
        If names are no strings.
    ValueError
        If names or dimensions are not those of the model, or a name is empty, taken, or cannot be written.
    """
    try:
        library = import_module("onnx")
    except ImportError as error:
        raise ImportError(f"cygrad.tools.onnx needs the onnx library: pip install onnx ({error})") from error
    if opset_version not in _OPSETS:
        raise ValueError(f"opset_version is one of {_OPSETS}, not {opset_version!r}")
    args = args if isinstance(args, tuple) else (args,)
    trace = Trace(library, model, bool(dynamic_axes))
    with cygrad.no_grad(), _evaluating(model), _patched(model):
        inputs = _stand_ins(trace, (args, kwargs or {}), _checked_names("input_names", input_names))
        try:
            result = model(*inputs[0], **inputs[1])
        except TypeError as error:
            if "Traced" in str(error):
                raise ExportError(f"{error}: this operation of the model cannot be exported") from error
            raise
    outputs = _results(result)
    names = _output_names(outputs, _checked_names("output_names", output_names))
    made = trace.model(outputs, names, opset_version, dynamic_axes or {}, _IR_VERSION)
    library.checker.check_model(made, full_check=True)
    if f is not None:
        library.save(made, f)
    return made


@contextmanager
def _evaluating(model):
    """A module is in evaluation mode meanwhile."""
    modes = [(m, m.training) for m in model.modules()] if hasattr(model, "modules") else []
    if modes:
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def _patched(model):
    """Functions of cygrad, and calls of modules, take stand-ins meanwhile; other threads see no difference.

    Functions are also replaced where a model holds them: in its modules' attributes, and under names that were imported
    where their classes are written.
    """
    with _patching:
        functional = import_module("cygrad.nn.functional")
        replaced, saved = {}, []
        for space in (cygrad, functional, cygrad.special):
            for name in (*NODES, *COMPOSED):
                original = getattr(space, name, None)
                if original is not None and not isinstance(original, cygrad.dtype):  # cygrad.float is one
                    replaced.setdefault(id(original), (original, _taking(name, original)))
                    _set(vars(space), name, replaced[id(original)][1], saved)
        for space in _places(model):
            for name, value in list(space.items()):
                if id(value) in replaced:
                    _set(space, name, replaced[id(value)][1], saved)
        module_class = import_module("cygrad.nn").Module
        call_module = module_class.__call__
        module_class.__call__ = _taking_modules(call_module)
        try:
            yield
        finally:
            module_class.__call__ = call_module
            for space, name, there, original in reversed(saved):
                if there:
                    space[name] = original
                else:
                    del space[name]


def _set(space, name, value, saved):
    saved.append((space, name, name in space, space.get(name)))
    space[name] = value


def _places(model):
    """Dictionaries in which a model may hold functions of cygrad."""
    modules = list(model.modules()) if hasattr(model, "modules") else []
    files = {type(m).__module__ for m in modules} | {getattr(model, "__module__", "")}
    yield from (vars(m) for m in modules)
    yield from (vars(sys.modules[name]) for name in sorted(files) if name in sys.modules)


def _taking(name, original):
    def function(*args, **kwargs):
        if traced_in((args, kwargs)) is None:
            return original(*args, **kwargs)
        return call(name, original, args, kwargs)

    return function


def _taking_modules(original):
    def function(self, *args, **kwargs):
        handler = MODULES.get(type(self).__name__) if type(self).__module__.startswith("cygrad.nn.") else None
        if handler is not None and traced_in((args, kwargs)) is not None:
            return handler(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return function


def _stand_ins(trace, value, names):
    """Arguments with stand-ins for tensors, in order."""
    count = 0

    def replaced(value):
        nonlocal count
        if isinstance(value, cygrad.Tensor):
            name = names[count] if count < len(names) else f"input_{count}"
            count += 1
            return trace.input(name, value.detach())
        if isinstance(value, dict):
            return {key: replaced(entry) for key, entry in value.items()}
        return type(value)(map(replaced, value)) if type(value) in (list, tuple) else value

    value = replaced(value)
    if len(names) > count:
        raise ValueError(f"export: {len(names)} input_names were given, the model was called with {count} tensors")
    if not count:
        raise ValueError("export: the model was called without a tensor, so that there is nothing to compute")
    return value


def _results(value):
    """The stand-ins in what a model returned, in order; a plain tensor does not depend on the inputs."""
    if isinstance(value, Traced):
        return [value]
    if isinstance(value, dict):
        return [t for entry in value.values() for t in _results(entry)]
    if isinstance(value, (list, tuple)):
        return [t for entry in value for t in _results(entry)]
    if isinstance(value, cygrad.Tensor):
        raise ExportError("the model returned a tensor that does not depend on its inputs, as far as can be exported")
    if value is None:
        return []
    raise ExportError(f"the model returned a {type(value).__name__}: what is exported are tensors in containers")


def _checked_names(argument, names):
    """The names as a list: strings that a file can hold."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
        raise TypeError(f"export: {argument} is a sequence of str, got {names!r}")
    for name in names or ():
        if not name or clean(name) != name:
            raise ValueError(f"export: {argument} has {name!r}, which cannot be a name in an ONNX file")
    return list(names or ())


def _output_names(outputs, names):
    if not outputs:
        raise ExportError("the model returned no tensor")
    if len(names) > len(outputs):
        raise ValueError(f"export: {len(names)} output_names were given, the model returned {len(outputs)} tensors")
    names += [f"output_{k}" for k in range(len(names), len(outputs))]
    return names
