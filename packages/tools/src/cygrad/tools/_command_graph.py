"""``cygrad graph``: a picture of what autograd records."""

import copy

import cygrad
from cygrad.tools import graph
from cygrad.tools._cli import CommandError, progress
from cygrad.tools._command_target import found, is_module


def run(options):
    """Return status, answer and text."""
    with cygrad.autograd.trace_lines():
        thing, inputs = found(options)
        look = {"view": options.view, "show_saved": options.saved, "show_storages": options.storages}
        if options.output.lower().endswith(".onnx"):
            return _exported(thing, inputs, options)
        progress(f"running {options.target} …")
        if is_module(thing):
            calls, result = graph.run(copy.deepcopy(thing), inputs)
        else:
            calls, result = None, thing(*map(_leaf, inputs)) if callable(thing) else thing
    progress("drawing …")
    try:
        drawing = graph.Graph(result, **look) if calls is None else graph.of_result(calls, result, **look)
        (drawing.folded() if options.fold else drawing).save(options.output)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CommandError(str(error)) from error
    kinds = {kind: sum(v.kind == kind for v in drawing.vertices) for kind in ("operation", "parameter", "leaf")}
    answer = {"output": options.output, "view": drawing.view, "vertices": len(drawing.vertices)}
    answer |= {
        "edges": len(drawing.edges),
        "saved_bytes": sum(v.details.get("saved_bytes", 0) for v in drawing.vertices),
    }
    text = f"{options.output}: {kinds['operation']} operations, {kinds['parameter']} parameters"
    return 0, answer | kinds, text


def _exported(thing, inputs, options):
    """The same as a model that other programs run."""
    if not callable(thing):
        kind = type(thing).__name__
        raise CommandError(f"{options.target} gave a {kind}: an .onnx file needs a model and its inputs")
    try:
        made = cygrad.onnx.export(thing, inputs, options.output)
    except (ImportError, RuntimeError, ValueError) as error:
        raise CommandError(str(error)) from error
    answer = {"output": options.output, "nodes": len(made.graph.node), "weights": len(made.graph.initializer)}
    return 0, answer, f"{options.output}: {answer['nodes']} nodes, {answer['weights']} weights"


def _leaf(x):
    return x.detach().requires_grad_() if isinstance(x, cygrad.Tensor) and x.is_floating_point() else x
