"""A program for the type checker (`nox -s types`): names that a user writes have the types that they should have."""

from typing import Any, assert_type

import cygrad as torch
from cygrad.autograd.graph import Node
from cygrad.storage import Size, dtype


def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((x - target) ** 2).mean()


weight = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
assert_type(weight, torch.Tensor)
assert_type(weight.shape, Size)
assert_type(weight.size(0), int)
assert_type(weight.dtype, dtype)
assert_type(torch.float32, dtype)
assert_type(weight @ weight.t() + 1.0, torch.Tensor)
assert_type(weight[0, :2] > 0, torch.Tensor)
assert_type(weight.sum(dim=(0, 1), keepdim=True), torch.Tensor)
assert_type(weight.max(0).indices, torch.Tensor)
assert_type(torch.allclose(weight, weight), bool)
assert_type(weight.grad, torch.Tensor | None)
assert_type(weight.grad_fn, Node | None)
assert_type(weight.view(torch.int64), torch.Tensor)
assert_type(weight.view(4, 3).clip(0).to(memory_format=torch.preserve_format), torch.Tensor)
assert_type(weight.max(other=weight), torch.Tensor)
assert_type(weight.layout, torch.layout)
assert_type(torch.empty(1, 2, 3, 4, memory_format=torch.channels_last), torch.Tensor)
assert_type(torch.linalg.svd(weight), tuple[torch.Tensor, torch.Tensor, torch.Tensor])
assert_type(torch.add(weight, 2j, alpha=1j), torch.Tensor)
assert_type(weight.addmv(weight, weight, beta=2j), torch.Tensor)
assert_type(weight.inverse(), torch.Tensor)
assert_type(weight.qr(), tuple[torch.Tensor, torch.Tensor])
loss(weight, torch.zeros_like(weight)).backward(retain_graph=True)

with torch.no_grad():
    weight.sub_(0.1).clamp_(min=0)

assert_type(torch.nn.DataParallel(torch.nn.Linear(3, 2)).output_device, int)
assert_type(torch.nn.parallel.parallel_apply([], []), list[Any])

torch.zeros("3")  # type: ignore[arg-type]
torch.add(weight, "1")  # type: ignore[arg-type]
