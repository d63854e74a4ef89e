"""The helps to find mistakes are among the tools too."""

import pytest

from cygrad import tools
from cygrad.autograd import find_nan, graph, strict


@pytest.mark.parametrize(("name", "thing"), [("find_nan", find_nan), ("strict", strict),
                                             ("saved_tensors", graph.saved_tensors)])
def test_tools_name_them(name, thing):
    assert getattr(tools, name) is thing
    assert name in dir(tools)
