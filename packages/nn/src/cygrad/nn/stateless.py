"""Modules as functions of their parameters and buffers, for the transforms of ``cygrad.func``."""

from contextlib import contextmanager

from cygrad import Tensor, stack

from .modules import Module
from .modules.batchnorm import _BatchNorm

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Call a module with other parameters and buffers than its own, which it keeps.

    Parameters
    ----------
    module : Module
    parameter_and_buffer_dicts : dict of str to Tensor, or sequence of dicts
        What takes the place of the parameters and buffers of these names. What the module assigns to one of them during
        the call, the dict holds afterwards.
    args : tuple, optional
        Positional arguments; anything but a tuple is the only one.
    kwargs : dict, optional
        Keyword arguments.
    tie_weights : bool
        Whether a parameter that the module has under several names is replaced under all of them.
    strict : bool
        Whether the dicts must name all parameters and buffers, and nothing else.

    Returns
    -------
    object
        What the call returned.

    Raises
    ------
    ValueError
        Several dicts have one name, or tied names different values.
    RuntimeError
        `strict` finds a name that is missing or unknown.
    TypeError
        A value is no tensor.

    Examples
    --------
    >>> import cygrad as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> new = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    >>> torch.func.functional_call(model, new, torch.tensor([1.0, 2.0]))
    tensor([3.])
    """
    if not isinstance(module, Module):
        raise TypeError(f"functional_call(): argument 'module' must be Module, not {type(module).__name__}")
    values = _merged(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    own = _own_tensors(module)
    for value in values.values():
        if not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    if strict:
        _check_names(module, values, own)
    with _replaced(module, values, _tied(values, own) if tie_weights else {}, own):
        return module(*args, **({} if kwargs is None else kwargs))


def _merged(dicts):
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (list, tuple)) or not all(isinstance(d, dict) for d in dicts):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    names = [name for d in dicts for name in d]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: value for d in dicts for name, value in d.items()}


def _own_tensors(module):
    """Parameters and buffers by name, shared ones under each of theirs: name -> (dict that holds it, key there)."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for held in (part._parameters, part._buffers):
            for key, value in held.items():
                if value is not None:
                    found[f"{prefix}.{key}" if prefix else key] = (held, key)
    return found


def _check_names(module, values, own):
    problems = []
    ids = {id(own[name][0][own[name][1]]) for name in values if name in own}
    missing = [name for name, (held, key) in own.items() if name not in values and id(held[key]) not in ids]
    unexpected = [name for name in values if name not in own]
    for kind, names in (("Unexpected", unexpected), ("Missing", missing)):
        if names:
            problems.append(f"{kind} key(s): " + ", ".join(map(repr, names)) + ".")
    if problems:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems))


def _tied(values, own):
    """Values for further names of the tensors that `values` replaces."""
    groups = {}
    for name, (held, key) in own.items():
        groups.setdefault(id(held[key]), []).append(name)
    extra = {}
    for names in groups.values():
        given = [name for name in names if name in values]
        if len({id(values[name]) for name in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(given)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if given:
            extra |= {name: values[given[0]] for name in names if name not in values}
    return extra


@contextmanager
def _replaced(module, values, tied, own):
    """The module has these tensors inside. Names that it does not have are left out: nothing would read them."""
    wanted = {name: value for name, value in {**values, **tied}.items() if name in own}
    before = [(held, key, held[key]) for held, key in (own[name] for name in wanted)]
    try:
        for name, value in wanted.items():
            held, key = own[name]
            held[key] = value
        yield
    finally:
        for name in values:
            if name in own:
                held, key = own[name]
                values[name] = held[key]
        for held, key, value in before:
            held[key] = value


def stack_module_state(models):
    """Parameters and buffers of several models of one class, stacked along a new first dimension: for ``vmap``.

    Parameters
    ----------
    models : sequence of Module
        Of one class, all training or none, with parameters of the same shapes.

    Returns
    -------
    (dict, dict)
        Stacked parameters, leaves that require gradients where the models' do, and stacked buffers, by name.
    """
    if not len(models):
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    for model in models:
        if not isinstance(model, Module):
            raise TypeError(f"stack_module_state: modules are wanted, got {type(model).__name__}")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return tuple(
        {
            name: _stacked([getattr(m, f"get_{kind}")(name) for m in models], name)
            for name, _ in getattr(models[0], f"named_{kind}s")()
        }
        for kind in ("parameter", "buffer")
    )


def _stacked(tensors, name):
    if len({t.requires_grad for t in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return stack(tensors).detach().requires_grad_(tensors[0].requires_grad)


def replace_all_batch_norm_modules_(root):
    """Batch normalisations of a module keep no statistics any more, only use those of the batch, and so fit `vmap`.

    Parameters
    ----------
    root : Module
        It is changed: ``running_mean``, ``running_var`` and ``num_batches_tracked`` become None.

    Returns
    -------
    Module
        `root` itself.

    Raises
    ------
    TypeError
        `root` is no module.
    """
    if not isinstance(root, Module):
        raise TypeError(f"replace_all_batch_norm_modules_(): argument 'root' must be Module, not {type(root).__name__}")
    for part in root.modules():
        if isinstance(part, _BatchNorm) and part.track_running_stats:
            part.running_mean = part.running_var = part.num_batches_tracked = None
            part.track_running_stats = False
    return root
