"""Spectral normalization as it was before parametrizations: a hook that computes the weight before each forward."""

from __future__ import annotations

from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.module import Module, require_module
from cygrad.nn.parameter import Parameter, is_lazy
from cygrad.nn.utils.parametrizations import _rows_dim

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook: ``weight = weight_orig / sigma``, with ``sigma = u @ W @ v`` from power iteration."""

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with its dimension `dim` in front, all others as one."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight, after further steps towards its singular vectors if these are wanted."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with cygrad.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
        # Copies, which the graph keeps: the next call iterates in place, maybe before backward.
        return weight / u.clone().dot(matrix.mv(v.clone()))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with cygrad.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for part in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + part)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Put the hook to a module."""
        require_module("spectral_norm", "module", module)
        if any(isinstance(hook, SpectralNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        if name not in module._parameters:
            raise KeyError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}")
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters: call it once before, with an "
                "example of its input"
            )
        sizes = hook.reshape_weight_to_matrix(weight.detach()).shape
        drawn = [F.normalize(weight.detach().new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in sizes]
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.detach())  # no parameter any more, but there for who looks
        for part, vector in zip("uv", drawn, strict=True):
            module.register_buffer(f"{name}_{part}", vector)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_NotesVersion(hook))
        module._register_load_state_dict_pre_hook(_ReadsOldStates(hook))
        return hook


class _NotesVersion:
    """Writes into a state's metadata that it has both singular vectors."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: dict, prefix: str, local_metadata: dict) -> None:
        local_metadata.setdefault("spectral_norm", {})[f"{self.fn.name}.version"] = self.fn._version


class _ReadsOldStates:
    """States from before version 1 have the weight in place of the right singular vector, which follows from it."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict: dict, prefix: str, local_metadata: dict, strict: bool, missing_keys: list, *rest: Any
    ) -> None:
        fn, key = self.fn, prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{fn.name}.version")
        if version is not None and version >= 1:
            return
        parts = (key + part for part in ("_orig", "_u", "_v"))
        if version is None and key not in state_dict and all(part in state_dict for part in parts):
            return  # of this version, without metadata
        absent = [key + part for part in ("_orig", "", "_u") if key + part not in state_dict]
        if absent:
            missing_keys += absent if strict else []
            return
        with cygrad.no_grad():
            original = state_dict[key + "_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix, u = fn.reshape_weight_to_matrix(original), state_dict[key + "_u"]
            v = ((matrix.t() @ matrix).pinverse() @ (matrix.t() @ u.unsqueeze(1))).squeeze(1)
            state_dict[key + "_v"] = v * (sigma / u.dot(matrix.mv(v)))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, by a hook; see `cygrad.nn.utils.parametrizations.spectral_norm`.

    The arguments are the same. Parameter and buffers are ``NAME_orig``, ``NAME_u`` and ``NAME_v``.
    """
    SpectralNorm.apply(module, name, n_power_iterations, _rows_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again, with its present value; ValueError if there is none of this name."""
    require_module("remove_spectral_norm", "module", module)
    hooks = module._forward_pre_hooks
    key = next((k for k, hook in hooks.items() if isinstance(hook, SpectralNorm) and hook.name == name), None)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook = hooks.pop(key)
    hook.remove(module)
    module._hook_options.pop(key, None)
    for registry in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for other_key, other in list(registry.items()):
            if getattr(getattr(other, "hook", other), "fn", None) is hook:
                del registry[other_key]
    return module
