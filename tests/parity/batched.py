"""vmap beside the loop over its examples, results and gradients, for the samples that PyTorch's tests know.

``python tests/parity/batched.py [NAME ...]`` compares all operations, or those named, and prints what differs.
"""

import sys
import warnings

import torch
from tensors import to_lib, to_torch, walk
from torch.testing._internal.common_methods_invocations import op_db
from translate import translate

import cygrad

# What vmap refuses (values that decide, buffers written by examples), what draws or leaves numbers unset, and results
# whose shapes depend on values.
NOT_COMPARED = {
    "allclose", "argwhere", "as_strided", "as_strided_copy", "as_strided_scatter", "bernoulli", "bincount", "cauchy",
    "combinations", "empty", "empty_like", "empty_permuted", "empty_strided", "equal", "exponential", "geometric",
    "index_put", "item", "linspace", "log_normal", "logspace", "masked_select", "multinomial", "narrow", "new_empty",
    "new_empty_strided", "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.batch_norm",
    "nn.functional.ctc_loss", "nn.functional.embedding", "nn.functional.instance_norm", "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention", "nonzero", "nonzero_static", "normal",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "resize_", "resize_as_", "split",
    "pca_lowrank", "svd_lowrank", "tensor_split", "uniform", "unique", "unique_consecutive",
}  # fmt: skip


def another(x):
    """A second example beside x, of the same kind."""
    if x.dtype is torch.bool:
        return ~x
    if not (x.is_floating_point() or x.is_complex()):
        return x.flip(0) if x.ndim else x
    square = x.ndim >= 2 and x.shape[-1] == x.shape[-2]
    return x.flip(0) if x.ndim and x.shape[0] > 1 and not square else x * 1.25


def choices(count):
    """Which of the tensors are mapped."""
    found = [(True,) * count]
    if count > 1:
        found += [tuple(i == 0 for i in range(count)), tuple(i != 0 for i in range(count))]
    return found


def tensors_of(result):
    parts = result if isinstance(result, (tuple, list)) else [result]
    return tuple(x for x in parts if isinstance(x, cygrad.Tensor))


class Call:
    """A function of the tensors of one sample."""

    def __init__(self, f, tree):
        self.f, self.tree, self.given = f, tree, []
        walk(tree, lambda x: self.given.append(x) if isinstance(x, torch.Tensor) else x)

    def __call__(self, *tensors):
        it = iter(tensors)

        def ours(x):
            if isinstance(x, torch.Tensor):
                return next(it)
            return getattr(cygrad, str(x).removeprefix("torch.")) if isinstance(x, torch.dtype) else x

        args, kwargs = walk(self.tree, ours)
        return tensors_of(self.f(*args, **kwargs))


def inputs_of(call, mapped):
    """For each tensor its examples stacked, or itself; leaves where they can be."""
    made = []
    for x, yes in zip(call.given, mapped, strict=True):
        t = to_lib(cygrad, torch.stack([x, another(x)]) if yes else x.clone())
        made.append(t.requires_grad_() if t.is_floating_point() or t.is_complex() else t)
    return made


def by_loop(call, mapped, leaves):
    pairs = list(zip(leaves, mapped, strict=True))
    rows = [call(*[x[k].clone() if yes else x.clone() for x, yes in pairs]) for k in range(2)]
    return [cygrad.stack(list(column)) for column in zip(*rows, strict=True)]


def by_vmap(call, mapped, leaves):
    dims = tuple(0 if yes else None for yes in mapped)
    return cygrad.vmap(lambda *xs: call(*[x.clone() for x in xs]), in_dims=dims)(*leaves)


def with_gradients(way, call, mapped):
    """Results, and gradients of a weighted sum of them."""
    leaves = inputs_of(call, mapped)
    ys = way(call, mapped, leaves)
    total = None
    for y in ys:
        if y.requires_grad:
            parts = cygrad.view_as_real(y) if y.is_complex() else y
            weights = cygrad.linspace(0.5, 1.5, parts.numel(), dtype=parts.dtype).view(parts.shape)
            total = (parts * weights).sum() + (0 if total is None else total)
    wanted = [x for x in leaves if x.requires_grad]
    if total is None or not wanted:
        return [y.detach() for y in ys], []
    return [y.detach() for y in ys], cygrad.autograd.grad(total, wanted, allow_unused=True)


def close(a, b):
    if a is None or b is None:
        return all(x is None or not bool((x != 0).any()) for x in (a, b))
    if a.dtype is not b.dtype or a.shape != b.shape:
        return False
    return torch.allclose(to_torch(a), to_torch(b), rtol=1e-6, atol=1e-7, equal_nan=True)


def differences(info, most=4):
    """(how many choices of mapped inputs were compared, what vmap gets wrong) for samples of one operation."""
    dtype = next((d for d in (torch.float64, torch.int64) if d in info.dtypes), None)
    if dtype is None or info.name in NOT_COMPARED:
        return 0, []
    try:
        f = translate(info.op)
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception:  # what cygrad lacks, or PyTorch cannot sample here
        return 0, []
    compared, wrong = 0, []
    for sample in samples[:: max(1, len(samples) // most)][:most]:
        call = Call(f, ((sample.input, *sample.args), sample.kwargs))
        if not call.given or any(x.layout is not torch.strided for x in call.given):
            continue
        for mapped in choices(len(call.given)):
            try:
                expected = with_gradients(by_loop, call, mapped)
            except Exception:  # the second example is no valid argument, or what is asked for is not supported
                continue
            compared += 1
            try:
                found = with_gradients(by_vmap, call, mapped)
            except Exception as error:
                wrong.append(f"{info.name} {mapped}: {type(error).__name__}: {str(error)[:200]}")
                continue
            for what, ours, theirs in zip(("result", "gradient"), found, expected, strict=True):
                if len(ours) != len(theirs) or not all(map(close, ours, theirs)):
                    wrong.append(f"{info.name} {mapped}: another {what} than by loop")
    return compared, wrong


def main(names):
    compared, wrong = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in op_db:
            if not names or info.name in names:
                count, more = differences(info)
                compared, wrong = compared + count, wrong + more
    print("\n".join(wrong))
    print(f"{compared} calls compared, {len(wrong)} differences")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(set(sys.argv[1:])))
