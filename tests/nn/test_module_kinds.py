"""The modules of `test_module_parity` in bfloat16, with strided inputs, without items, of length 1, derived twice."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

oracle = pytest.importorskip("torch")
_parity = runpy.run_path(str(Path(__file__).with_name("test_module_parity.py")))
MODULES, made = _parity["MODULES"], _parity["made"]


def strided(lib, tensor):
    """The same values with the first and last dimension exchanged in memory."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


def outcome(lib, case, shapes, dtype, layout=None):
    """Result, gradients of input and parameters, and buffers, as float64 arrays; or the kind of error."""
    name, args, _ = MODULES[case]
    drawn = np.random.default_rng(case)
    lib.manual_seed(case)
    module = getattr(lib.nn, name)(*args).to(dtype)
    tensors = []
    for kind, shape in shapes:
        values = made(kind, shape, drawn) if kind != "labels" else np.zeros(shape, dtype=int)
        number = values.dtype.kind == "f"
        tensor = lib.tensor(values.tolist(), dtype=lib.float64 if number else lib.int64).reshape(shape)
        tensor = tensor.to(dtype) if number else tensor
        tensors.append(tensor if layout is None else layout(lib, tensor))
    if tensors[0].is_floating_point():
        tensors[0].requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            inputs = tensors if not getattr(module, "inplace", False) else [tensors[0].clone(), *tensors[1:]]
            result = module(*inputs)
            weights = lib.linspace(-1, 2, max(result.numel(), 1), dtype=lib.float64)[: result.numel()]
            weights = weights.reshape(result.shape)
            if result.requires_grad:
                (result.double() * weights).sum().backward()
        except Exception as error:
            return type(error).__name__
    grads = [p.grad for p in (tensors[0], *module.parameters())]
    return [None if t is None else t.detach().double().numpy() for t in (result, *grads, *module.buffers())]


def compare(ours, theirs, rtol, atol):
    if isinstance(theirs, str):
        return  # some of PyTorch's kernels refuse what has an obvious result
    assert not isinstance(ours, str), ours
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.shape == b.shape
            scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol * scale)


def ids(i):
    return f"{MODULES[i][0]}{i}"


ALL = pytest.mark.parametrize("case", range(len(MODULES)), ids=ids)


@ALL
def test_bfloat16(torch, case):
    """No worse than PyTorch's, judged by double precision."""
    shapes = MODULES[case][2]
    theirs, ours = outcome(oracle, case, shapes, oracle.bfloat16), outcome(torch, case, shapes, torch.bfloat16)
    if isinstance(theirs, str):
        pytest.skip("PyTorch has no kernel")
    assert not isinstance(ours, str), ours
    for a, b, exact in zip(ours, theirs, outcome(oracle, case, shapes, oracle.float64), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_less(np.abs(a - exact).max(initial=0), 2 * np.abs(b - exact).max(initial=0) + 0.05)


@ALL
def test_strided(torch, case):
    shapes = MODULES[case][2]
    compare(*(outcome(lib, case, shapes, lib.float64, strided) for lib in (torch, oracle)), 1e-6, 1e-9)


# A mean of nothing that PyTorch's kernels never write.
UNWRITTEN = {"MultiMarginLoss", "MultiLabelMarginLoss"}
# The gradient of PyTorch's forgets that a small norm is cut off, which makes it another function's.
ANOTHER = {"CosineSimilarity"}


@ALL
def test_without_items(torch, case):
    """An empty batch goes through, wherever it goes through PyTorch."""
    if MODULES[case][0] in UNWRITTEN:
        pytest.skip("undefined in PyTorch")
    shapes = [(kind, (0, *shape[1:])) for kind, shape in MODULES[case][2]]
    compare(*(outcome(lib, case, shapes, lib.float64) for lib in (torch, oracle)), 1e-6, 1e-9)


@ALL
def test_of_length_one(torch, case):
    if MODULES[case][0] in ANOTHER:
        pytest.skip("another gradient in PyTorch")
    shapes = [(kind, (*shape[:-1], 1) if len(shape) > 2 else shape) for kind, shape in MODULES[case][2]]
    shapes = [(kind, (1, *shape[1:])) for kind, shape in shapes]
    compare(*(outcome(lib, case, shapes, lib.float64) for lib in (torch, oracle)), 1e-6, 1e-9)


def second(lib, case):
    """Gradients of gradients in float64, for the first input and the parameters; or the kind of error."""
    name, args, shapes = MODULES[case]
    drawn = np.random.default_rng(case)
    lib.manual_seed(case)
    module = getattr(lib.nn, name)(*args).double()
    values = [made(kind, shape, drawn) for kind, shape in shapes]
    tensors = [lib.tensor(x.tolist(), dtype=lib.float64 if x.dtype.kind == "f" else lib.int64) for x in values]
    leaves = [x.requires_grad_() for x in tensors[:1] if x.is_floating_point()] + list(module.parameters())

    def against(x):
        return (x * lib.linspace(-1, 2, max(x.numel(), 1), dtype=lib.float64)[: x.numel()].reshape(x.shape)).sum()

    try:
        inputs = tensors if not getattr(module, "inplace", False) else [tensors[0].clone(), *tensors[1:]]
        first = lib.autograd.grad(against(module(*inputs)), leaves, create_graph=True)
        recorded = [g for g in first if g.requires_grad]
        found = lib.autograd.grad(sum(map(against, recorded)), leaves, allow_unused=True) if recorded else []
    except Exception as error:
        return type(error).__name__
    # Where the first gradients do not depend on a leaf, the second one is absent, or made of zeros.
    zeros = [np.zeros(tuple(x.shape)) for x in leaves]
    return [z if g is None else z + (g + 0).numpy() for g, z in zip(found or [None] * len(leaves), zeros, strict=True)]


@ALL
def test_second_gradients(torch, case):
    ours, theirs = second(torch, case), second(oracle, case)
    if isinstance(theirs, str):
        pytest.skip("PyTorch has no second gradient")
    compare(ours, theirs, 1e-6, 1e-9)
