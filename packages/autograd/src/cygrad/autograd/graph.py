"""Nodes of the backward graph, for those who look at them."""

from ._core import Node, RemovableHandle

__all__ = ["Node", "RemovableHandle"]
