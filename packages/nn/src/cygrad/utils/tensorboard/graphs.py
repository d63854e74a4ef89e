"""The graph of a model as TensorBoard shows it: the operations that autograd recorded in one call."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from cygrad import Tensor, enable_grad

__all__ = ["graph_of"]


def graph_of(model: Any, inputs: Any) -> GraphDef:
    """Call a model, and draw what leads to its results.

    Parameters
    ----------
    model : Module
    inputs : Tensor, or tuple of arguments

    Raises
    ------
    RuntimeError
        If no result depends on a parameter or input that requires a gradient: then nothing is recorded.
    """
    with enable_grad():
        results = model(*(inputs if isinstance(inputs, (tuple, list)) else (inputs,)))
    roots = [t.grad_fn for t in _tensors(results) if t.grad_fn is not None]
    if not roots:
        raise RuntimeError("add_graph(): no result of the model has a grad_fn, so there is no graph to draw")
    names = {id(p): name for name, p in model.named_parameters()} if hasattr(model, "named_parameters") else {}
    order, todo = {}, list(roots)
    while todo:
        node = todo.pop()
        if node not in order:
            order[node] = _name(node, len(order), names)
            todo += [next_node for next_node, _ in node.next_functions if next_node is not None]
    nodes = [_drawn(node, name, order) for node, name in order.items()]
    for i, root in enumerate(roots):
        nodes.append(NodeDef(name=f"output/{i}", op="output", input=[order[root]]))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for part in value for t in _tensors(part)] if isinstance(value, (list, tuple)) else []


def _name(node: Any, number: int, names: dict[int, str]) -> str:
    variable = getattr(node, "variable", None)
    if variable is not None:
        return "parameters/" + names.get(id(variable), f"leaf_{number}").replace(".", "/")
    return f"operations/{node.name().partition('Backward')[0]}_{number}"


def _drawn(node: Any, name: str, order: dict[Any, str]) -> NodeDef:
    inputs = [order[next_node] for next_node, _ in node.next_functions if next_node is not None]
    variable = getattr(node, "variable", None)
    drawn = NodeDef(name=name, op="Parameter" if variable is not None else node.name(), input=inputs)
    if variable is not None:
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in variable.shape])
        drawn.attr["_output_shapes"].CopyFrom(AttrValue(list=AttrValue.ListValue(shape=[shape])))
    return drawn
