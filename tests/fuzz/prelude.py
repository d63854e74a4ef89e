"""What programs call: leaves, hooks and custom Functions. Executed once for each library, with it as ``torch``.

Everything that is called back (hooks, forward and backward of Functions) writes what it sees to ``log``, which is
compared.
"""

import copy  # noqa: F401  (programs use it)
import pickle  # noqa: F401

import torch

log = []


def seen(t):
    """A value in a form that compares: numbers, shape and whether it is part of a graph."""
    if isinstance(t, torch.Tensor):
        return (tuple(t.shape), str(t.dtype), t.requires_grad, t.detach().tolist())
    return t


def note(word, *values):
    log.append((word, *map(seen, values)))


def data(k, *shape, dtype=torch.float64, grad=False):
    """A leaf whose halves of small integers stay exact through sums and products."""

    def nested(at, left):
        if left:
            return [nested(at * left[0] + i, left[1:]) for i in range(left[0])]
        number = ((k + 5 * at) % 13 - 6) / 2
        return complex(number, (k + at) % 3 - 1) if dtype.is_complex else number

    if 0 in shape:
        return torch.empty(shape, dtype=dtype).requires_grad_(grad)
    return torch.tensor(nested(0, shape), dtype=dtype, requires_grad=grad)


def grads(*args, **kwargs):
    """autograd.grad. Copies, since whether a gradient is a view of something is not said anywhere."""
    return tuple(g if g is None else g.clone() for g in torch.autograd.grad(*args, **kwargs))


# ---- hooks ----------------------------------------------------------------------------------------------------------


def look(name):
    def hook(g):
        note(name, g, torch.is_grad_enabled())

    return hook


def scale(name, factor=2):
    def hook(g):
        note(name, g)
        return g * factor

    return hook


def wrong(name):
    def hook(g):
        note(name, g)
        return torch.zeros(7, dtype=g.dtype)

    return hook


def fail(name):
    def hook(*args):
        note(name)
        raise ValueError(name)

    return hook


def after(name):
    """For register_post_accumulate_grad_hook."""

    def hook(leaf):
        note(name, leaf.grad)

    return hook


def take(name):
    """The same, as an optimizer in a hook: uses the gradient and drops it."""

    def hook(leaf):
        note(name, leaf.grad)
        with torch.no_grad():
            leaf.sub_(leaf.grad.detach() * 0.5)
        leaf.grad = None

    return hook


def around(name):
    """For Node.register_hook."""

    def hook(grad_inputs, grad_outputs):
        note(name, *grad_outputs)

    return hook


def before(name, factor=2):
    """For Node.register_prehook."""

    def hook(grad_outputs):
        note(name, *grad_outputs)
        return tuple(None if g is None else g * factor for g in grad_outputs)

    return hook


# ---- Functions ------------------------------------------------------------------------------------------------------


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        note("Square", x, ctx.needs_input_grad, torch.is_grad_enabled())
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        note("Square back", g, torch.is_grad_enabled())
        return 2 * x * g


class Doubling(torch.autograd.Function):
    """Saves what it returns."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2 + 1
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        note("Doubling back", y)
        return g * 2 + 0 * y


class Product(torch.autograd.Function):
    """Computes only the gradients that are needed."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        note("Product back", g, ctx.needs_input_grad)
        gx = (g * y).sum_to_size(x.shape) if ctx.needs_input_grad[0] else None
        gy = (g * x).sum_to_size(y.shape) if ctx.needs_input_grad[1] else None
        return gx, gy


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        note("Dirty", x, ctx.needs_input_grad)
        x.mul_(factor)
        ctx.mark_dirty(x)
        ctx.factor = factor
        return x

    @staticmethod
    def backward(ctx, g):
        note("Dirty back", g)
        return g * ctx.factor, None


class DirtySum(torch.autograd.Function):
    """Changes its first argument, and returns something else too."""

    @staticmethod
    def forward(ctx, x, y):
        x.add_(y)
        ctx.mark_dirty(x)
        return x, y * 3

    @staticmethod
    def backward(ctx, g, h):
        note("DirtySum back", g, h)
        return g, g.sum_to_size(h.shape) + 3 * h


class Forgotten(torch.autograd.Function):
    """Marks what it does not return."""

    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Parts(torch.autograd.Function):
    """One output without gradient, one that is no tensor."""

    @staticmethod
    def forward(ctx, x):
        whole = x.detach().real.floor() if x.is_complex() else x.floor()
        ctx.mark_non_differentiable(whole)
        return x * 4, whole, "word"

    @staticmethod
    def backward(ctx, g, none, word):
        note("Parts back", g, none, word)
        return g * 4


class Same(torch.autograd.Function):
    """Returns its input."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        note("Same back", g)
        return g * 5


class SameConstant(torch.autograd.Function):
    """Returns its input as something without gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class Flat(torch.autograd.Function):
    """Returns a view of its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        note("Flat back", g)
        return g.reshape(ctx.shape)


class Halves(torch.autograd.Function):
    """Returns two views of its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x[:1], x[1:]

    @staticmethod
    def backward(ctx, g, h):
        note("Halves back", g, h)
        return torch.cat([g, h]).reshape(ctx.shape)


class Sparse(torch.autograd.Function):
    """Sees None where nothing arrived."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        note("Sparse back", g, h)
        if g is None and h is None:
            return None
        return 2 * g if h is None else 3 * h if g is None else 2 * g + 3 * h


class Pair(torch.autograd.Function):
    """Sees zeros where nothing arrived."""

    @staticmethod
    def forward(ctx, x, y):
        return x + 1, x * 2, y.clone()

    @staticmethod
    def backward(ctx, g, h, k):
        note("Pair back", g, h, k)
        return g + 2 * h, k


class Setup(torch.autograd.Function):
    """In two steps."""

    @staticmethod
    def forward(x, power):
        return x**power

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, power = inputs
        note("Setup", x, power, output, ctx.needs_input_grad)
        ctx.save_for_backward(x, output)
        ctx.power = power

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1), None


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        note("Once back", g, torch.is_grad_enabled())
        return 2 * x * g


class Nothing(torch.autograd.Function):
    """Has no gradient to give."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        note("Nothing back", g)
        return None, g.sum_to_size(ctx.needs_input_grad[1:] and g.shape)


class TooMany(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g, g


class WrongShape(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return torch.ones(5, 7, dtype=g.dtype)


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        note("Failing back", g)
        raise ValueError("no gradient today")


class Inner(torch.autograd.Function):
    """Computes its gradient by a backward pass of its own."""

    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            inside = x.detach().requires_grad_()
            y = inside * inside * inside
        ctx.inside, ctx.y = inside, y
        return y.detach()

    @staticmethod
    def backward(ctx, g):
        (grad,) = torch.autograd.grad(ctx.y, ctx.inside, g.detach(), retain_graph=True)
        note("Inner back", g)
        return grad


class Twice(torch.autograd.Function):
    """Its gradient is a Function again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return Product.apply(Square.apply(x), g) * 3
