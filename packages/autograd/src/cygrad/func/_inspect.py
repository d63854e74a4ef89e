"""What PyTorch's transforms have beside them: a look at a tensor inside, and functions without mutations."""

from functools import wraps

from ..autograd._core import Tensor, batch_out, levels_of


def debug_unwrap(tensor, *, recurse=True):
    """What stands behind a tensor inside of `vmap`: all examples, to be looked at in a debugger. Not for computing.

    Parameters
    ----------
    tensor : Tensor
    recurse : bool
        Whether to leave all levels of vmap, or the innermost one only.

    Returns
    -------
    Tensor
        Without history; dimensions that count examples come first, those of outer vmaps before those of inner ones. A
        tensor that is no example is returned as it is.

    Examples
    --------
    >>> import cygrad as torch
    >>> def f(x):
    ...     print(torch.func.debug_unwrap(x))
    ...     return x + 1
    >>> torch.vmap(f)(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    tensor([2., 3.])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"debug_unwrap(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    levels = levels_of(tensor)
    if not levels:
        return tensor
    tensor = tensor.detach()
    for level in reversed(levels if recurse else levels[-1:]):
        tensor = batch_out(tensor, level, 0)
    return tensor


def functionalize(func, *, remove="mutations"):
    """A function that gives what `func` gives: its mutations can be seen by none but itself.

    In PyTorch this rewrites in-place operations and views while a function is traced for a compiler. There is no tracer
    here, and transforms handle mutations as they are, so that nothing has to be rewritten: `func` is called.

    Parameters
    ----------
    func : callable
    remove : {"mutations", "mutations_and_views"}

    Raises
    ------
    RuntimeError
        `remove` is another word.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations' and remove='mutations_and_views'"
        )

    @wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper
