"""A device beside the CPU, results and gradients, for the samples of functions and modules that PyTorch's tests know.

``python tests/parity/on_device.py [NAME ...]`` compares all, or those named, and prints what differs; ``--slice 2/6``
each sixth from the third on, so that several processes share the work. It needs a device: a GPU, or a build that
imitates one (``CYGRAD_CUDA=host``, run with ``CYGRAD_CUDA_HOST=1``).
"""

import copy
import sys
import warnings

import torch
from batched import close
from tensors import to_lib, walk
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from translate import by_path, translate

import cygrad

# What draws numbers, or leaves them unset.
NOT_COMPARED = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward", "nn.functional.rrelu", "normal", "pca_lowrank", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "resize_", "resize_as_", "svd_lowrank", "uniform",
}  # fmt: skip
# What is defined up to signs or phases, stays where new tensors go, or takes one driver on devices.
NOT_COMPARED |= {"svd", "linalg.svd", "linalg.eigh", "logspace", "linalg.lstsq"}
ABSENT = ("linalg.eig and ", "linalg.ldl_factor ", "linalg.ldl_solve ")       # what a device does not have, and says so
AT_LEAST = 3500        # calls compared where no names are given: with fewer, something keeps samples from being read


def tensors_in(result):
    if isinstance(result, cygrad.Tensor):
        return [result]
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else []
    return [t for part in parts for t in tensors_in(part)]


def placed(tree, device, leaves):
    """Arguments of torch as cygrad's on a device; what can have a gradient is kept in `leaves`."""

    def one(x):
        if isinstance(x, torch.Tensor):
            there = to_lib(cygrad, x.detach().contiguous()).as_strided(x.shape, x.contiguous().stride()).to(device)
            if x.requires_grad:
                leaves.append(there.requires_grad_())
            return there
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return cygrad.device(device)
        return getattr(cygrad, str(x).removeprefix("torch.")) if isinstance(x, torch.dtype) else x

    return walk(tree, one)


def outcome(call, tree, device):
    """Results and gradients of a weighted sum of them, on the CPU."""
    leaves = []
    args, kwargs = placed(tree, device, leaves)
    ys = tensors_in(call(*args, **kwargs))
    away = [y.device.type for y in ys if y.device.type != device]
    total = 0
    for y in ys:
        if y.requires_grad:
            parts = cygrad.view_as_real(y) if y.is_complex() else y
            weights = cygrad.linspace(0.5, 1.5, parts.numel(), dtype=parts.dtype, device=device).view(parts.shape)
            total = total + (parts * weights).sum()
    grads = []
    if leaves and isinstance(total, cygrad.Tensor):
        grads = cygrad.autograd.grad(total, leaves, allow_unused=True)
    return [y.detach().cpu() for y in ys], [None if g is None else g.cpu() for g in grads], away


def compare(name, call, tree, call_there=None):
    """What a device does otherwise; None where the CPU refuses the sample, too."""
    try:
        expected = outcome(call, tree, "cpu")
    except Exception:  # a sample for what cygrad lacks or refuses
        return None
    try:
        found = outcome(call_there or call, tree, "cuda")
    except NotImplementedError as error:
        return [] if any(name in str(error) for name in ABSENT) else [f"{name}: {error}"]
    except Exception as error:
        return [f"{name}: {type(error).__name__}: {str(error)[:300]}"]
    wrong = [f"{name}: a result on the CPU"] if found[2] else []
    for what, ours, theirs in zip(("result", "gradient"), found[:2], expected[:2], strict=True):
        if len(ours) != len(theirs) or not all(map(close, ours, theirs)):
            wrong.append(f"{name}: another {what} than on the CPU")
    return wrong


def function(info, most=6):
    dtype = next((d for d in (torch.float64, torch.int64, torch.bool) if d in info.dtypes), None)
    if dtype is None or info.name in NOT_COMPARED:
        return 0, []
    try:
        f = translate(info.op)
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=dtype is torch.float64))
    except Exception:  # what cygrad lacks, or PyTorch cannot sample here
        return 0, []
    found = [compare(info.name, f, ((s.input, *s.args), s.kwargs)) for s in samples[:: max(1, len(samples) // most)]]
    return sum(f is not None for f in found), [line for f in found if f for line in f]


def module(info, most=6):
    name = f"nn.{info.module_cls.__name__}"
    found = []
    if name.startswith("nn.Lazy"):           # their weights are drawn in the first call
        return 0, []
    try:
        kind = by_path(cygrad, name)
        samples = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=True)
    except Exception:
        return 0, []
    for sample in samples[:: max(1, len(samples) // most)]:
        if sample.forward_input is None:
            continue
        try:
            args, kwargs = placed((sample.constructor_input.args, sample.constructor_input.kwargs), "cpu", [])
            near = kind(*args, **kwargs).double()
            for m in near.modules():
                if isinstance(getattr(m, "p", None), float) or "dropout" in vars(m):
                    near.eval()
            far = copy.deepcopy(near).cuda()
        except Exception:
            continue
        found.append(compare(name, near, (sample.forward_input.args, sample.forward_input.kwargs), far))
    return sum(f is not None for f in found), [line for f in found if f for line in f]


def main(names):
    compared, wrong, every = 0, [], slice(None)
    if names[:1] == ["--slice"]:
        first, step = map(int, names[1].split("/"))
        every, names = slice(first, None, step), names[2:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in [*op_db, *module_db][every]:
            check = module if hasattr(info, "module_cls") else function
            if not names or (info.module_cls.__name__ if check is module else info.name) in names:
                count, more = check(info)
                compared, wrong = compared + count, wrong + more
    print("\n".join(dict.fromkeys(wrong)))
    print(f"{compared} calls compared, {len(wrong)} differences")
    if not names and every.step is None and compared < AT_LEAST:
        print(f"these are too few: at least {AT_LEAST} were expected")
        return True
    if names and not compared:
        print("nothing was compared: PyTorch's samples have no such name, or cygrad has none of them on the CPU")
        return True
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
