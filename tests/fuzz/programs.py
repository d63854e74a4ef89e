"""Random programs, drawn one line at a time from what torch's variables look like at that point.

A program is a list of lines that stand by themselves. ``Drawing.line()`` gives the next one; most of them are right,
some are not, since errors have to agree as well.
"""

import random
from itertools import accumulate

from steps import COMPLEX_REFUSED, FLOATS, GROUPS, Skip


class Drawing:
    """Draws lines for one program. side: torch's side of the pair, whose variables are looked at."""

    def __init__(self, seed, side):
        self.rng = random.Random(seed)
        self.side = side
        self.count = 0
        self.handles = 0
        self.mode = ""
        names = [*GROUPS]
        # Every program has its own favourites, so that rare neighbours meet.
        weights = [GROUPS[g][0] * self.rng.choice((0.3, 1, 1, 3)) for g in names]
        self.groups = names
        self.bounds = list(accumulate(weights))
        self.odds = self.rng.choice((0.0, 0.02, 0.1))  # of a wrong argument
        self.modes = self.rng.choice((0.0, 0.0, 0.05, 0.15))

    # ---- choices

    def chance(self, p):
        return self.rng.random() < p

    def one(self, of):
        return self.rng.choice(of)

    def int(self, low, high):
        return self.rng.randint(low, high)

    def tensors(self, test=None):
        tensor = self.side.tensor
        found = [(n, t) for n, t in self.side.variables() if isinstance(t, tensor)]
        return found if test is None else [(n, t) for n, t in found if test(t)]

    def pick(self, test=None):
        """A variable, a late one rather than an early one."""
        try:
            found = self.tensors(test)
        except RuntimeError:  # is_leaf of a view that cannot be taken again
            raise Skip from None
        if not found:
            raise Skip
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def differentiable(self, test=None):
        """A variable that needs a gradient, mostly."""
        if self.chance(0.04):
            return self.pick(test)
        return self.pick(lambda t: t.requires_grad and (test is None or test(t)))

    def new(self):
        self.count += 1
        return f"v{self.count}"

    def number(self):
        return self.one(("2", "0.5", "-1", "3", "0", "1", "-1.5"))

    def dim(self, t):
        """A dimension of t, counted from either end."""
        if self.chance(self.odds):
            return self.int(-4, 4)
        if t.ndim == 0:
            return self.int(-1, 0)
        return self.int(-t.ndim, t.ndim - 1)

    def axis(self, t):
        """The same, of at least one element."""
        places = [d for d in range(t.ndim) if t.shape[d]]
        if not places:
            raise Skip
        return self.one(places) - (t.ndim if self.chance(0.3) else 0)

    def mate(self, t):
        """A variable that broadcasts with t, without making it larger."""
        shape = tuple(t.shape)

        def fits(u):
            s = tuple(u.shape)
            return len(s) <= len(shape) and all(a in (b, 1) for a, b in zip(s[::-1], shape[::-1], strict=False))

        return self.pick(None if self.chance(self.odds) else fits)[0]

    def leaf(self, shape, grad=None, dtype=None):
        dtype = dtype or self.one(FLOATS)
        grad = self.chance(0.7) if grad is None else grad
        words = [str(self.int(0, 12)), *map(str, shape)]
        words += [f"dtype={dtype}"] if dtype != "torch.float64" else []
        words += ["grad=True"] if grad else []
        return f"data({', '.join(words)})"

    def like(self, t):
        """A new constant of t's shape and dtype."""
        dtype = str(t.dtype)
        return self.leaf(tuple(t.shape), False, dtype)

    def shape(self):
        if self.chance(0.05):
            return self.one(((0,), (2, 0), (0, 3)))
        return tuple(self.one((1, 2, 2, 3, 3, 4)) for _ in range(self.one((0, 1, 1, 2, 2, 2, 3))))

    # ---- lines

    def line(self):
        """The next line of the program."""
        if self.chance(self.modes):
            self.mode = self.one(MODES) if not self.mode else ""
        if len(self.tensors()) < 2:
            return f"{self.new()} = {self.leaf(self.shape())}"
        for _ in range(50):
            group = GROUPS[self.rng.choices(self.groups, cum_weights=self.bounds)[0]][1]
            made, handles = self.count, self.handles
            try:
                line = self.one(group)(self)
            except Skip:
                self.count, self.handles = made, handles
                continue
            return f"{self.mode}{line}"
        return f"{self.new()} = {self.leaf(self.shape())}"

    def allowed(self, text, *tensors):
        """text, unless it asks for an order of complex numbers."""
        if COMPLEX_REFUSED.search(text) and any(t.is_complex() for t in tensors):
            raise Skip
        return text


MODES = (
    "with torch.no_grad(): ",
    "with torch.no_grad(): ",
    "with torch.enable_grad(): ",
    "with torch.inference_mode(): ",
)
