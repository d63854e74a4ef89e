"""Random numbers whose distribution is given by tensors."""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed


def linked(drawn, *sources):
    """`drawn`, which is recorded as depending on the sources: their gradient is 0, as in PyTorch."""
    for source in sources:
        if isinstance(source, Tensor) and source.requires_grad:
            nowhere = _core.zeros(drawn.shape, dtype=dtypes["bool"], device=drawn.device)
            drawn = _core.where(nowhere, source.to(drawn.dtype), drawn)
    return drawn


@composed("function method")
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: object = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probability that each element of `input` is, else 0.

    Parameters
    ----------
    input : Tensor
        Probabilities, of a floating dtype.
    p : float, optional
        One probability for all, in place of the elements.
    generator : Generator, optional
    out : Tensor, optional

    Raises
    ------
    RuntimeError
        A probability is outside of [0, 1].
    """
    if p is None and not input.dtype.is_floating_point:
        raise NotImplementedError(f"bernoulli is not implemented for probabilities of {input.dtype}")
    drawn = _core.room_to_draw(input if out is None else input.to(out.dtype), "bernoulli", p is None, True)
    drawn.bernoulli_(input.detach() if p is None else p, generator=generator)
    return linked(drawn, input) if out is None else _core.deliver(drawn, out)


@composed("function")
def normal(
    mean: Tensor | float,
    std: Tensor | float = 1.0,
    size: object = None,
    *,
    out: Tensor | None = None,
    **options: object,
) -> Tensor:
    """Normal numbers; mean and standard deviation are numbers (and `size` is given), or tensors that are broadcast.

    Parameters
    ----------
    mean, std : Tensor or float
    size : sequence of int, optional
        The shape, if neither is a tensor.
    out : Tensor, optional
    **options
        ``generator``; with `size` also ``dtype``, ``device`` and ``requires_grad``.

    Raises
    ------
    RuntimeError
        A standard deviation is negative.
    """
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise TypeError("normal(): argument 'size' is wanted where mean and std are numbers")
        return _core.normal_of_size(mean, std, size, out=out, **options)
    generator = options.pop("generator", None)
    if size is not None or options:
        raise TypeError(f"normal(): no size and none of {sorted(options)} go together with tensors")
    kind = mean if isinstance(mean, Tensor) else std
    if isinstance(std, Tensor):
        shape = (mean + std).shape
    else:
        shape = mean.shape if out is None else out.shape       # in PyTorch this form alone keeps the shape of `out`
    if not kind.dtype.is_floating_point and not kind.dtype.is_complex:
        raise NotImplementedError(f"normal is not implemented for {kind.dtype}")
    if isinstance(std, Tensor):
        if std.dtype.is_complex:
            raise RuntimeError(f"normal expects standard deviation to be non-complex, got {std.dtype}")
        if not _core.everywhere(std.detach() >= 0):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    spot = mean.detach() + std.detach() if isinstance(std, Tensor) and isinstance(mean, Tensor) else kind.detach()
    drawn = _core.room_to_draw(spot.expand(shape).to(kind.dtype), "normal", rows=True)
    if isinstance(std, Tensor):
        drawn = drawn.normal_(generator=generator) * std.detach()
    else:
        drawn.normal_(0.0, std, generator=generator)
    drawn = (drawn + (mean.detach() if isinstance(mean, Tensor) else mean)).to(kind.dtype)
    return linked(drawn, mean, std) if out is None else _core.deliver(drawn, out)


def check_weights(weights, count, replacement):
    """Raises what PyTorch raises for weights of no distribution."""
    if not weights.dtype.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}")
    if not 1 <= weights.ndim <= 2:
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got shape {list(weights.shape)}")
    n = weights.shape[-1]
    if count <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {count}")
    if not replacement and count > n:
        raise RuntimeError(
            f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {count} of {n} categories"
        )
    if n >= 2**24:
        raise RuntimeError(f"number of categories cannot exceed 2^24, got {n}")
    if weights.numel() == 0:
        if weights.ndim == 2 and n:
            return
        raise RuntimeError(f"cannot sample from no categories: shape {list(weights.shape)}")
    if not _core.everywhere(weights.min() >= 0) or not _core.everywhere(weights.max() < float("inf")):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if _core.anywhere(weights.double().sum(-1) == 0):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


@composed("function method out_same")
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: object = None) -> Tensor:
    """Places in the last dimension, drawn with probabilities in proportion to the elements.

    Parameters
    ----------
    input : Tensor
        Weights of a floating dtype, at least 0, in one or two dimensions; no row may be all 0.
    num_samples : int
    replacement : bool
        Whether a place may be drawn several times.
    generator : Generator, optional

    Returns
    -------
    Tensor
        int64, of shape ``(num_samples,)`` or ``(rows, num_samples)``.

    Raises
    ------
    RuntimeError
        The weights are none, or there are fewer places than samples and no replacement.

    Notes
    -----
    Without replacement a place comes the earlier the smaller an exponential number over its weight is
    (Efraimidis and Spirakis, 2006).
    """
    weights, count = input.detach(), num_samples.__index__()
    check_weights(weights, count, replacement)
    if replacement and count > 1:
        wide = _core.spread_to_draw(weights, "multinomial").double().contiguous()
        return _core.drawn_places(wide, count, weights.dtype != dtypes["float64"], generator)
    keys = _core.room_to_draw(weights, "multinomial", True).exponential_(generator=generator)
    keys = weights / keys
    return keys.argmax(-1, keepdim=True) if count == 1 else keys.topk(count)[1]


@composed("function")
def poisson(input: Tensor, generator: object = None) -> Tensor:
    """Poisson numbers of the rates in `input`, a tensor of a floating dtype and at least 0.

    Raises
    ------
    RuntimeError
        A rate is negative.
    """
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"poisson is not implemented for {input.dtype}")
    rates = input.detach()
    if not _core.everywhere(rates >= 0):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    rates = _core.spread_to_draw(rates, "poisson")
    return linked(_core.drawn_by(rates.double().contiguous(), None, generator, "poisson").to(input.dtype), input)


@composed("function")
def binomial(count: Tensor, prob: Tensor, generator: object = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`; NaN where one of them is NaN.

    Raises
    ------
    ValueError
        `count` or `prob` is not of a floating dtype.
    """
    for name, t in (("count", count), ("prob", prob)):
        if not t.dtype.is_floating_point:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {t.dtype}")
    shape = (count.detach() + prob.detach()).shape
    wide = (t.detach().double().expand(shape) for t in (count, prob))
    trials, chances = (_core.spread_to_draw(t, "binomial").contiguous() for t in wide)
    return linked(_core.drawn_by(trials, chances, generator, "binomial").to(count.dtype), count, prob)
