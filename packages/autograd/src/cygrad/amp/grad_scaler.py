"""`GradScaler`: losses are scaled up, lest gradients of float16 vanish, and steps that overflow are skipped."""

import warnings
from enum import Enum

from cygrad.storage import cuda as _devices
from cygrad.storage.core import dtypes

from ..autograd._core import Tensor, full, stack
from ..autograd.grad_mode import no_grad

__all__ = ["GradScaler", "OptState"]

NOT_SCALED = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class OptState(Enum):
    """How far an optimizer is in the present iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses for training in float16, whose small gradients would be zero; bfloat16 does not need it.

    ::

        scaler.scale(loss).backward()
        scaler.step(optimizer)       # divides the gradients by the scale; skips the step if one is not finite
        scaler.update()

    Parameters
    ----------
    device : str
        "cpu" or "cuda", which disables the scaler with a warning where there is no device.
    init_scale : float
        Scale at the start.
    growth_factor, backoff_factor : float
        The scale is multiplied by the first after `growth_interval` steps in a row, and by the second after a step
        that was skipped.
    growth_interval : int
    enabled : bool
        False makes all methods do nothing but ``optimizer.step()``.

    Raises
    ------
    AssertionError
        A factor would not grow, or not shrink.
    """

    def __init__(self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        self._device = device
        if enabled and device == "cuda" and _devices.why_not() is not None:
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        self._enabled = enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale = None               # a tensor from the first scale() on
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0         # steps since the scale was changed
        self._optimizers = {}            # id -> (stage, whether a gradient was not finite), of this iteration

    def is_enabled(self):
        """Whether it does anything."""
        return self._enabled

    def scale(self, outputs):
        """Return a tensor, or each of a list, tuple or other iterable, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = full((), float(self._init_scale), dtype=dtypes["float32"], device=outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _check_scaled(self, name):
        if self._scale is None:
            raise AssertionError(f"Attempted {name} but _scale is None.  {NOT_SCALED}")

    def _stage(self, optimizer):
        return self._optimizers.get(id(optimizer), (OptState.READY, None))[0]

    def unscale_(self, optimizer):
        """Divide the gradients of an optimizer's parameters by the scale, to clip or look at them before `step`.

        Raises
        ------
        RuntimeError
            It was called before in this iteration, or after `step`.
        ValueError
            A gradient is of float16: parameters are to be float32.
        """
        if not self._enabled:
            return
        self._check_scaled("unscale_")
        stage = self._stage(optimizer)
        if stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        if any(g.dtype is dtypes["float16"] for g in gradients):
            raise ValueError("Attempting to unscale FP16 gradients.")
        if not gradients:
            raise AssertionError("No inf checks were recorded for this optimizer: its parameters have no gradients.")
        finite = {}                      # by device, so that each is asked once
        with no_grad():
            factor = self._scale.double().reciprocal().float()
            factors = {device: factor.to(device) for device in {g.device for g in gradients}}
            for gradient in gradients:
                gradient.mul_(factors[gradient.device].to(gradient.dtype))
                finite.setdefault(gradient.device, []).append(gradient.isfinite().all())
        found = not all(stack(flags).all().item() for flags in finite.values())
        self._optimizers[id(optimizer)] = OptState.UNSCALED, found

    def step(self, optimizer, *args, **kwargs):
        """`unscale_`, unless that was done, and ``optimizer.step``, unless a gradient is infinite or NaN.

        Returns
        -------
        What ``optimizer.step`` returns; None if it was skipped.

        Raises
        ------
        RuntimeError
            It was called before in this iteration, or with a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scaled("step")
        if self._stage(optimizer) is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if self._stage(optimizer) is OptState.READY:
            self.unscale_(optimizer)
        found = self._optimizers[id(optimizer)][1]
        result = None if found else optimizer.step(*args, **kwargs)
        self._optimizers[id(optimizer)] = OptState.STEPPED, found
        return result

    def update(self, new_scale=None):
        """Choose the scale of the next iteration; call it last.

        Parameters
        ----------
        new_scale : float or Tensor, optional
            The scale itself.
        """
        if not self._enabled:
            return
        self._check_scaled("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
                raise AssertionError("new_scale should be a float or a tensor of one element that requires no gradient")
            self._scale.fill_(float(new_scale))
        else:
            if not self._optimizers:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(found for _, found in self._optimizers.values()))
        self._optimizers = {}

    def _adapt(self, overflowed):
        if overflowed:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            larger = self._scale * self._growth_factor
            if larger.isfinite():
                self._scale.copy_(larger)
            self._growth_tracker = 0

    def get_scale(self):
        """The scale as a float; 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        """See `GradScaler`."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """See `GradScaler`."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """See `GradScaler`."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """See `GradScaler`."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """See `GradScaler`."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """See `GradScaler`."""
        self._growth_interval = new_interval

    def state_dict(self):
        """The scale and its settings, in PyTorch's form; empty if disabled. To be taken after `update`."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict):
        """Take over what `state_dict` returned.

        Raises
        ------
        RuntimeError
            It is empty, since it comes from a disabled scaler.
        """
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled "
                               "instance of GradScaler.")
        scale, growth, backoff, interval, tracker = (state_dict[key] for key in (
            "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"))
        self._init_scale = scale
        if self._scale is not None:
            self._scale.fill_(scale)
        self._growth_factor, self._backoff_factor = growth, backoff
        self._growth_interval, self._growth_tracker = interval, tracker

    def __getstate__(self):
        if self._enabled and self._optimizers:
            raise AssertionError("A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                                 "the end after scaler.update().")
        state = self.__dict__.copy()
        if self._enabled:
            state |= {"_init_scale": self.get_scale(), "_scale": None}
        return state
