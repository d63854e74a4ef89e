"""The short-time Fourier transform and its inverse."""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed
from ._args import int_arg, tensor_arg


def settled(name, input, n_fft, hop_length, win_length, window):
    """n_fft, hop and window length with their defaults, after a look at all of them."""
    n_fft = int_arg(n_fft, name, "n_fft")
    hop = n_fft // 4 if hop_length is None else int_arg(hop_length, name, "hop_length")
    width = n_fft if win_length is None else int_arg(win_length, name, "win_length")
    if window is not None:
        tensor_arg(window, name, "window")
    given = None if window is None else tuple(window.shape)
    what = (f"{name}({input.dtype}{list(input.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={width}, "
            f"window={given}): expected ")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{what}0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and given != (width,):
        raise RuntimeError(f"{what}a 1D window tensor of size equal to win_length={width}, but got one of size "
                           f"{given}")
    return n_fft, hop, width, what


def filled(window, n_fft, width, like):
    """The window, ones by default, in the middle of `n_fft` elements."""
    w = like.new_ones(width) if window is None else window
    left = (n_fft - width) // 2
    return w if width == n_fft else _core.cat([w.new_zeros(left), w, w.new_zeros(n_fft - width - left)])


@composed("function method")
def stft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: bool | None = None, return_complex: bool | None = None,
         align_to_window: bool | None = None) -> Tensor:
    """The Fourier transforms of overlapping stretches of a signal.

    Parameters
    ----------
    input : Tensor
        Floating or complex, of shape (L,) or (B, L).
    n_fft : int
        Length of a stretch.
    hop_length : int, optional
        Distance of the beginnings of two stretches. Default: ``n_fft // 4``.
    win_length : int, optional
        Length of the window, at most `n_fft`; zeros are put on both sides. Default: `n_fft`.
    window : Tensor, optional
        Of shape (win_length,). Default: ones.
    center : bool
        The signal is continued by ``n_fft // 2`` elements on each side, so that the middle of stretch t is element
        ``t * hop_length``.
    pad_mode : str
        How it is continued: ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    normalized : bool
        Divide by ``sqrt(n_fft)``.
    onesided : bool, optional
        Only the ``n_fft // 2 + 1`` frequencies that say all. Default: True for a real signal and window.
    return_complex : bool
        Must be given for a real signal: a complex result, or real and imaginary parts in a last dimension of 2.
    align_to_window : bool, optional
        Without `center`: stretches have the length of the window.

    Returns
    -------
    Tensor
        Of shape (frequencies, T) or (B, frequencies, T), with (2,) behind if not `return_complex`.

    Raises
    ------
    RuntimeError
        A length does not fit the signal or the window, or a one-sided result is wanted of complex numbers.
    """
    complex_in = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_in:
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
        return_complex = True
    if align_to_window is not None and center:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    n_fft, hop, width, what = settled("stft", input, n_fft, hop_length, win_length, window)
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"{what}a tensor of floating point or complex values, but got {input.dtype}")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"{what}a 1D or 2D tensor, but got {input.dim()}D")
    x = input if input.dim() == 2 else input.unsqueeze(0)
    if center:
        x = continued(x, n_fft // 2, pad_mode)
    length = x.shape[1]
    if not 0 < n_fft <= length:
        raise RuntimeError(f"{what}0 < n_fft <= {length}, the length of the signal, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{what}hop_length > 0, but got hop_length={hop}")
    onesided = not complex_in if onesided is None else onesided
    if onesided and complex_in:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if align_to_window:
        size, taper = width, window                       # the zeros beside the window are put on afterwards
    else:
        size, taper = n_fft, None if window is None and width == n_fft else filled(window, n_fft, width, x.real)
    frames = x.unfold(1, size, hop)
    if taper is not None:
        frames = frames * taper
    if size < n_fft:
        left = (n_fft - size) // 2
        frames = _core.cat([frames.new_zeros((*frames.shape[:2], left)), frames,
                            frames.new_zeros((*frames.shape[:2], n_fft - size - left))], 2)
    from .fft import fft, rfft

    norm = "ortho" if normalized else None
    y = (rfft(frames, norm=norm) if onesided else fft(frames, norm=norm)).transpose(1, 2)
    if input.dim() == 1:
        y = y.squeeze(0)
    return y if return_complex else _core.view_as_real(y)


def continued(x, amount, mode):
    """A signal of shape (B, L) with `amount` more elements on each side."""
    length, back = x.shape[1], _core.flip
    if mode == "constant":
        left = right = x.new_zeros((x.shape[0], amount))
    elif mode == "replicate":
        if not length:
            raise RuntimeError(f"Expected a signal that is not empty, but got {tuple(x.shape)}")
        left, right = x[:, :1].expand(-1, amount), x[:, -1:].expand(-1, amount)
    elif mode == "circular":
        if amount > length:
            raise RuntimeError(f"Padding value causes wrapping around more than once: padding ({amount}, {amount}) of "
                               f"a signal of {length} elements")
        left, right = x[:, length - amount :], x[:, :amount]
    elif mode == "reflect":
        if amount >= length:
            raise RuntimeError("Padding size should be less than the corresponding input dimension, but got: padding "
                               f"({amount}, {amount}) at dimension 1 of input {list(x.shape)}")
        left, right = back(x[:, 1 : amount + 1], [1]), back(x[:, length - 1 - amount : length - 1], [1])
    else:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    return _core.cat([left, x, right], 1)


@composed("function method")
def istft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
          length: int | None = None, return_complex: bool = False) -> Tensor:
    """The signal whose short-time Fourier transform comes nearest to `input` (least squares).

    Parameters
    ----------
    input : Tensor
        Complex, of shape (frequencies, T) or (B, frequencies, T), as from `stft`.
    n_fft, hop_length, win_length, window, center, normalized, onesided
        As for `stft`.
    length : int, optional
        Cut the signal, or fill it up with zeros, to this length.
    return_complex : bool
        The signal is complex: `onesided` must be False.

    Returns
    -------
    Tensor
        Of shape (L,) or (B, L).

    Raises
    ------
    RuntimeError
        A length does not fit, or the windows do not cover the signal: their squares add up to less than 1e-11.

    References
    ----------
    D. W. Griffin and J. S. Lim, Signal estimation from modified short-time Fourier transform, IEEE Trans. ASSP 32,
    1984.
    """
    if not input.is_complex():
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with "
                           "return_complex=True.")
    if input.dim() not in (2, 3):
        raise RuntimeError(f"istft(): expected a tensor with 2 or 3 dimensions, but got {input.dim()}")
    if not input.numel():
        raise RuntimeError(f"istft(): input tensor cannot be empty, got {tuple(input.shape)}")
    n_fft, hop, width, what = settled("istft", input, n_fft, hop_length, win_length, window)
    onesided = input.shape[-2] != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if input.shape[-2] != wanted:
        raise RuntimeError(f"{what}the frequency dimension to be {wanted} with onesided={onesided}, but got "
                           f"{input.shape[-2]}")
    if not 0 < hop <= width:
        raise RuntimeError(f"{what}0 < hop_length <= win_length, but got hop_length={hop} and win_length={width}")
    complex_window = window is not None and window.is_complex()
    if not return_complex and complex_window:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if onesided and return_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    from .fft import ifft, irfft

    x = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(1, 2)          # (B, T, frequencies)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = ifft(x, norm=norm)
    else:
        frames = irfft(x if onesided else x[..., : n_fft // 2 + 1], n=n_fft, norm=norm)
    taper = filled(window, n_fft, width, input.real)
    count = x.shape[1]
    total = n_fft + hop * (count - 1)
    y = added(frames * taper, hop, total)
    envelope = added((taper * taper).expand(1, count, n_fft), hop, total)
    start = n_fft // 2 if center else 0
    if length is not None:
        end = start + int_arg(length, "istft", "length")
    else:
        end = total - n_fft // 2 if center else total
    y, envelope = y[:, start:end], envelope[:, start:end]
    if envelope.numel() and not float(envelope.detach().abs().min()) > 1e-11:
        raise RuntimeError(f"{what}windows that cover the signal (window overlap add min: 1), but the sum of their "
                           f"squares comes down to {float(envelope.detach().abs().min())}")
    y = y / envelope
    if length is not None and y.shape[1] < length:
        y = _core.cat([y, y.new_zeros((y.shape[0], length - y.shape[1]))], 1)
    return y if input.dim() == 3 else y.squeeze(0)


def added(frames, hop, total):
    """The sum of stretches of shape (B, T, n), each `hop` further on: (B, total)."""
    batch, count, n = frames.shape
    kind = {"dtype": dtypes["int64"], "device": frames.device}
    places = (_core.arange(count, **kind) * hop).unsqueeze(1) + _core.arange(n, **kind)
    return frames.new_zeros((batch, total)).index_add(1, places.reshape(-1), frames.reshape(batch, -1))
