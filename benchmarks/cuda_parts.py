"""Results on a GPU beside the CPU's, in float64 where that makes sense, for cuda_check.py; each call twice, bit by bit.

Sizes are such that tails of vectors, more than one block, second launches and more than one tile are met; layouts such
that starts are not aligned and dimensions do not merge.
"""

import math
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ERRORS = {  # relative, absolute; of one operation, results rounded to the dtype
    "float64": (1e-9, 1e-10), "float32": (5e-5, 5e-6), "float16": (4e-3, 2e-3), "bfloat16": (3e-2, 1e-2),
    "complex64": (5e-5, 1e-5), "complex128": (1e-9, 1e-10),
}  # fmt: skip
FLOATS = ("float32", "float16", "float64", "bfloat16")


def load():
    cygrad = import_module("cygrad")
    import_module("cygrad.nn")
    cygrad.cuda.init()
    return cygrad


# ---- comparing


def tensors_of(cygrad, result):
    if isinstance(result, cygrad.Tensor):
        return [result]
    return [t for part in result for t in tensors_of(cygrad, part)] if isinstance(result, (tuple, list)) else []


def outcome(cygrad, call, values, grad):
    """Results of a call, and with `grad` the gradients of a weighted sum of them, on the CPU."""
    leaves = []
    if grad:
        values = [v.detach().requires_grad_() if v.is_floating_point() else v for v in values]
        leaves = [v for v in values if v.requires_grad]
    results = tensors_of(cygrad, call(*values))
    found = [r.detach().cpu() for r in results]
    if leaves:
        outputs = [r for r in results if r.requires_grad]
        weights = [((cygrad.arange(r.numel()) % 7 - 3).double() / 4).view(r.shape).to(r.dtype).to(r.device)
                   for r in outputs]  # fmt: skip
        found += [g.cpu() for g in cygrad.autograd.grad(outputs, leaves, weights, allow_unused=True) if g is not None]
    return found


def bits(cygrad, x):
    x = cygrad.view_as_real(x) if x.is_complex() else x
    return x.contiguous().reshape(-1).view(cygrad.uint8)


def agree(cygrad, what, call, values, grad=False, layout=None, errors=None, wide=True):
    """Call on the device twice and on the CPU in double precision, with the same numbers."""
    layout = layout or (lambda *v: v)
    widen = {cygrad.float32: cygrad.float64, cygrad.float16: cygrad.float64, cygrad.bfloat16: cygrad.float64,
             cygrad.complex64: cygrad.complex128} if wide else {}  # fmt: skip
    near = layout(*[v.to(widen.get(v.dtype, v.dtype)) for v in values])
    far = layout(*[v.cuda() for v in values])
    wanted = outcome(cygrad, call, near, grad)
    found, again = (outcome(cygrad, call, far, grad) for _ in range(2))
    assert len(found) == len(wanted), f"{what}: {len(found)} results, not {len(wanted)}"
    for place, (a, b, w) in enumerate(zip(found, again, wanted, strict=True)):
        assert cygrad.equal(bits(cygrad, a), bits(cygrad, b)), f"{what}: result {place} differs from call to call"
        rtol, atol = errors or ERRORS.get(str(a.dtype).split(".")[-1], (0, 0))
        if not (a.is_floating_point() or a.is_complex()):
            rtol = atol = 0
        try:
            cygrad.testing.assert_close(a, w.to(a.dtype), rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            raise AssertionError(f"{what}: result {place}: {error}") from None


class Numbers:
    """Values that are the same in every run, and from one part to the next."""

    def __init__(self, cygrad, seed=0):
        self.cygrad, self.generator = cygrad, cygrad.Generator().manual_seed(seed)

    def __call__(self, *shape, dtype="float64", low=-2.0, high=2.0):
        x = self.cygrad.rand(shape, generator=self.generator, dtype=self.cygrad.float64)
        return (x * (high - low) + low).to(getattr(self.cygrad, dtype))

    def whole(self, *shape, low=0, high=10, dtype="int64"):
        return self.cygrad.randint(low, high, shape, generator=self.generator).to(getattr(self.cygrad, dtype))


# ---- the op table, small


def rows(report):
    """Public rows of the op table in float64, dense and strided: what there is, whatever its kernel."""
    cygrad = load()
    sys.path.insert(0, str(ROOT / "tests/ops"))
    from row_samples import PUBLIC, call, columns, results

    def one(row):
        values = [v[1] if isinstance(v, cygrad.Tensor) else v for v in columns(row)]
        strided = [cygrad.stack([v, v], -1)[..., 0] if isinstance(v, cygrad.Tensor) and v.ndim else v for v in values]
        for given in (values, strided):
            try:
                near = results(call(row)(*given))
            except RuntimeError as error:
                report.skip(f"the CPU refuses it: {error}")
            far = [v.cuda() if isinstance(v, cygrad.Tensor) else v for v in given]
            try:
                found = results(call(row)(*far))
            except NotImplementedError as error:
                report.skip(str(error))
            for a, b in zip(near, found, strict=True):
                if isinstance(a, cygrad.Tensor):
                    cygrad.testing.assert_close(b.cpu(), a, rtol=1e-9, atol=1e-9, equal_nan=True)

    for row in PUBLIC[:: 10 if report.tiny else 1]:
        report.item(row.name, one, row)


# ---- elements

UNARY = {  # name: least and largest argument
    "exp": (-4, 4), "expm1": (-2, 2), "log": (0.01, 9), "log1p": (-0.9, 5), "log2": (0.01, 9), "sqrt": (0, 9),
    "rsqrt": (0.01, 9), "sin": (-9, 9), "cos": (-9, 9), "tan": (-1.4, 1.4), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9),
    "atan": (-9, 9), "sinh": (-3, 3), "cosh": (-3, 3), "tanh": (-4, 4), "asinh": (-9, 9), "acosh": (1.1, 9),
    "atanh": (-0.9, 0.9), "erf": (-3, 3), "erfc": (-3, 3), "erfinv": (-0.9, 0.9), "lgamma": (2.1, 9),
    "digamma": (2, 9), "sigmoid": (-6, 6), "abs": (-2, 2), "neg": (-2, 2), "sign": (-2, 2), "floor": (-5, 5),
    "ceil": (-5, 5), "round": (-5, 5), "trunc": (-5, 5), "square": (-2, 2), "reciprocal": (0.1, 3), "isnan": (-1, 1),
}  # fmt: skip


def integers(report):
    """Of other dtypes, and what is no function of elements alone; apart, so that both halves run at once."""
    elementwise(report, False)


def elementwise(report, floats=True):
    cygrad = load()
    f, numbers = cygrad.nn.functional, Numbers(cygrad)
    lengths = (1, 31, 257) if report.tiny else (1, 31, 257, 4099, 1_000_003)
    middle, large = ((5, 67), (9, 67)) if report.tiny else ((129, 1025), (513, 4099))
    layouts = {
        "dense": lambda *v: v,
        "from the second element": lambda *v: [x.reshape(-1)[1:] for x in v],
        "transposed": lambda *v: [x.t() for x in v],
        "every second": lambda *v: [x[:, ::2] for x in v],
        "one row for all": lambda *v: [v[0][:1].expand(v[0].shape), *v[1:]],
        "one column for all": lambda *v: [v[0][:, :1].expand(v[0].shape), *v[1:]],
        "one transposed": lambda *v: [v[0].contiguous(), *[x.t().contiguous().t() for x in v[1:]]],
        "backwards": lambda *v: [x[1:, 1:].t() for x in v],
    }

    def one(call, ranges, grad, dtypes=FLOATS, draw=numbers):
        def drawn(shape, dtype):
            return [draw(*shape, dtype=dtype, low=a, high=b) for a, b in ranges]

        for dtype in dtypes:
            for n in lengths if dtype in dtypes[:2] else lengths[:4]:
                agree(cygrad, f"{dtype} ({n},)", call, drawn((n,), dtype))
            values = drawn(middle, dtype)
            for name, layout in layouts.items():
                agree(cygrad, f"{dtype} {middle} {name}", call, values, grad and name == "dense", layout)
        values = drawn(large, dtypes[0])
        for name in ("dense", "one transposed" if len(ranges) > 1 else "transposed"):
            agree(cygrad, f"{dtypes[0]} {large} {name}", call, values, False, layouts[name])

    for name, limits in UNARY.items() if floats else ():
        report.item(name, one, lambda x, name=name: getattr(x, name)(), [limits], name != "isnan")
    some = (-2, 2)
    calls = {
        "add": (lambda x, y: x + y, [some, some]), "sub": (lambda x, y: x - y, [some, some]),
        "mul": (lambda x, y: x * y, [some, some]), "div": (lambda x, y: x / y, [some, (0.5, 2)]),
        "a number": (lambda x: 3 * x - 1, [some]), "pow": (lambda x, y: x**y, [(0.1, 2), some]),
        "cube": (lambda x: x**3, [some]), "maximum": (cygrad.maximum, [some, some]),
        "clamp": (lambda x: x.clamp(-1, 1), [some]), "lerp": (lambda x, y: x.lerp(y, 0.3), [some, some]),
        "atan2": (cygrad.atan2, [some, some]), "hypot": (cygrad.hypot, [some, some]),
        "where": (lambda x, y: cygrad.where(x > y, x, y), [some, some]), "relu": (cygrad.relu, [some]),
        "addcmul": (lambda x, y, z: cygrad.addcmul(x, y, z, value=2), [some] * 3), "gelu": (f.gelu, [some]),
        "silu": (f.silu, [some]), "softplus": (f.softplus, [some]), "leaky_relu": (f.leaky_relu, [some]),
    }  # fmt: skip
    for name, (call, ranges) in calls.items() if floats else ():
        report.item(name, one, call, ranges, True)
    if floats:
        return

    def whole(*shape, dtype, low, high):
        if dtype == "bool":
            return numbers.whole(*shape, high=2, dtype=dtype)
        return numbers.whole(*shape, low=max(low, 0) if dtype == "uint8" else low, high=high, dtype=dtype)

    others = {
        "add of integers": (lambda x, y: x + y, [(-9, 99)] * 2),
        "mul of integers": (lambda x, y: x * y, [(-9, 99)] * 2),
        "floor_divide": (lambda x, y: x // y, [(-99, 99), (1, 9)]),
        "remainder": (lambda x, y: x % y, [(-99, 99), (1, 9)]),
        "bitwise": (lambda x, y: (x & y) ^ (x | y), [(-99, 99)] * 2),
        "shift": (lambda x: (x << 2) >> 1, [(0, 9)]),
        "compare": (lambda x, y: (x < y, x == y, x != y), [(-5, 5)] * 2),
        "casts": (lambda x: (x.float(), x.half(), x.to(cygrad.int16), x.bool(), x.double(), x.bfloat16()), [(-9, 99)]),
    }
    for name, (call, ranges) in others.items():
        report.item(name, one, call, ranges, False, ("int64", "int32", "uint8", "int8", "int16"), whole)
    logic = lambda x, y: (x & y, x | y, x ^ y, ~x, x.int(), x.float())  # noqa: E731
    report.item("bool", one, logic, [(0, 2)] * 2, False, ("bool",), whole)

    def complex_numbers():
        for shape in ((31,), (4099,) if not report.tiny else (67,), middle):
            a, b = (cygrad.complex(numbers(*shape), numbers(*shape)) for _ in range(2))
            for dtype in (cygrad.complex64, cygrad.complex128):
                agree(
                    cygrad,
                    f"{dtype} {shape}",
                    lambda x, y: (x + y, x * y, x / (y + 4), x.exp(), x.abs(), x.conj() * y),
                    [a.to(dtype), b.to(dtype)],
                    True,
                )

    def edges():
        x = cygrad.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-310, 1e300, -1.0, 1.0] * 37)
        for dtype in FLOATS:
            for call in (
                lambda x: x + 1,
                lambda x: x * x,
                lambda x: x.sqrt(),
                lambda x: x.maximum(x.flip(0)),
                lambda x: (x == x, x < 0, x.isinf(), x.sign()),
                lambda x: x.tanh(),
            ):
                agree(
                    cygrad, f"{dtype} nan and infinity", call, [x.to(getattr(cygrad, dtype))], wide=dtype == "float64"
                )

    def in_place():
        x, y = numbers(*middle), numbers(*middle)
        for dtype in FLOATS:
            values = [v.to(getattr(cygrad, dtype)) for v in (x, y)]
            for view in (lambda x: x, lambda x: x.t(), lambda x: x[:, 1::2], lambda x: x[1:]):

                def change(x, y, view=view):
                    x = x.clone()
                    view(x).mul_(2).add_(view(y)).clamp_(-1, 3)
                    return x

                agree(cygrad, f"{dtype} in place", change, values)

    def copies():
        for dtype in (*FLOATS, "int64", "int8", "bool", "complex64"):
            x = numbers(6, 5, *((3, 7) if report.tiny else (37, 65)), dtype="float64").to(getattr(cygrad, dtype))
            for order in ((3, 2, 1, 0), (1, 0, 3, 2), (0, 2, 1, 3), (2, 3, 0, 1)):
                agree(cygrad, f"{dtype} {order}", lambda x, o=order: (x.permute(o).contiguous(), x.permute(o).to(
                    cygrad.complex64 if x.is_complex() else cygrad.float64)), [x], wide=False)  # fmt: skip
            parts = lambda x: (cygrad.cat([x, x], 1), cygrad.stack([x, x[:, :]], -1), x.flip(0, 2), x.roll(3, 3),  # noqa: E731
                               x.repeat(2, 1, 1, 1), x.unfold(3, 3, 2).contiguous())  # fmt: skip
            agree(cygrad, f"{dtype} parts", parts, [x], wide=False)

    for name, call in {"complex": complex_numbers, "edges": edges, "in place": in_place, "copies": copies}.items():
        report.item(name, call)


# ---- along dimensions


def reductions(report):
    cygrad = load()
    numbers = Numbers(cygrad)
    shapes = (
        [(5,), (9, 67), (3, 13, 7)]
        if report.tiny
        else [(5,), (4099,), (1_000_003,), (1025, 1031), (2, 100_003), (100_003, 2), (3, 257, 517)]
    )
    dims = [None, 0, -1, 1]
    calls = {
        "sum": lambda x, d: x.sum(**d),
        "mean": lambda x, d: x.mean(**d),
        "amax": lambda x, d: x.amax(**d),
        "amin": lambda x, d: x.amin(**d),
        "var": lambda x, d: x.var(**d),
        "std": lambda x, d: x.std(**d),
        "norm": lambda x, d: cygrad.linalg.vector_norm(x, **d),
        "norm 1": lambda x, d: cygrad.linalg.vector_norm(x, 1, **d),
        "norm inf": lambda x, d: cygrad.linalg.vector_norm(x, math.inf, **d),
        "nansum": lambda x, d: x.nansum(**d),
        "all": lambda x, d: (x > 0.6).all(**d),
        "any": lambda x, d: (x > 1.4).any(**d),
        "count_nonzero": lambda x, d: cygrad.count_nonzero(x > 1, **d),
        "logsumexp": lambda x, d: x.logsumexp(**(d or {"dim": tuple(range(x.ndim))})),
    }
    once = {
        "argmax": lambda x, d: x.argmax(**d),
        "argmin": lambda x, d: x.argmin(**d),
        "max": lambda x, d: x.max(**d),
        "min": lambda x, d: x.min(**d),
        "median": lambda x, d: x.median(**d),
    }
    no_gradient = ("all", "any", "count_nonzero", *once)

    def one(name, call, dtypes):
        for shape in shapes:
            for dtype in dtypes:
                x = numbers(*shape, dtype=dtype, low=0.5, high=1.5)
                for dim in dims:
                    if (dim == 1 and len(shape) < 2) or (dim == -1 and len(shape) == 2):
                        continue
                    if name in ("var", "std") and dim is not None and shape[dim] < 2:
                        continue
                    d = {} if dim is None else {"dim": dim}
                    grad = name not in no_gradient and x.numel() < 500_000 and dtype != "float16"
                    errors = {"float32": (2e-4, 1e-5), "float16": (5e-3, 1e-3), "bfloat16": (3e-2, 1e-2)}.get(dtype)
                    errors = errors if name not in no_gradient else None
                    agree(cygrad, f"{dtype} {shape} {dim}", lambda x, d=d: call(x, d), [x], grad, errors=errors)
                if len(shape) > 1:
                    turned = lambda x: [x.transpose(0, -1)]  # noqa: E731
                    agree(cygrad, f"{dtype} {shape} turned", lambda x: call(x, {"dim": 0}), [x], layout=turned,
                          errors=errors)  # fmt: skip

    for name, call in calls.items():
        report.item(
            name,
            one,
            name,
            call,
            ("float32", "float64", "bfloat16") if name in ("sum", "mean") else ("float32", "float64"),
        )
    for name, call in once.items():
        report.item(name, one, name, call, ("float64",))

    def several():
        x = numbers(*((3, 4, 5, 6) if report.tiny else (13, 37, 29, 41)))
        for d in ((0, 2), (1, 3), (0, 3), (0, 1, 2), (1, 2), (0, 1, 2, 3)):
            for dtype in ("float32", "float64"):
                agree(
                    cygrad,
                    f"{d}",
                    lambda x, d=d: (x.sum(d), x.amax(d, keepdim=True), x.var(d)),
                    [x.to(getattr(cygrad, dtype))],
                    True,
                    errors=(2e-4, 2e-4) if dtype == "float32" else None,
                )

    def products():
        x = numbers(*((3, 4, 5) if report.tiny else (30, 257, 65)), low=0.9, high=1.1)
        for dim in (0, 1, 2):
            agree(cygrad, f"prod({dim})", lambda x, dim=dim: x.prod(dim), [x], True)

    def integers():
        for dtype in ("int64", "int32", "uint8", "bool"):
            x = numbers.whole(
                *((9, 67) if report.tiny else (257, 4099)), high=2 if dtype == "bool" else 99, dtype=dtype
            )
            for d in ({}, {"dim": 0}, {"dim": 1}):
                agree(cygrad, f"{dtype} {d}", lambda x, d=d: (x.sum(**d), x.amax(**d), x.bool().any(**d)), [x])

    def cancelling():
        """A sum of numbers of both signs and sizes, whose error is that of a tree and not of a loop."""
        x = numbers(100 if report.tiny else 3_000_001, low=-1, high=1)
        found, wanted = x.float().cuda().sum().item(), x.float().double().sum().item()
        assert abs(found - wanted) < 1e-6 * x.abs().sum().item(), f"{found}, where {wanted} is right"

    for name, call in {
        "several dimensions": several,
        "prod": products,
        "integers": integers,
        "cancelling": cancelling,
    }.items():
        report.item(name, call)


def lines(report):
    """Softmax and normalisation by width of a line, which chooses the kernel, with gradients."""
    cygrad = load()
    f, numbers = cygrad.nn.functional, Numbers(cygrad)
    widths = (1, 33, 130) if report.tiny else (1, 33, 1000, 1024, 8192, 50257, 200_003)

    def one(call, width, weights):
        for dtype in FLOATS:
            values = [numbers(5, width, dtype=dtype)] + [numbers(width, dtype=dtype) for _ in range(weights)]
            errors = {"float32": (1e-4, 5e-5), "float16": (1e-2, 1e-2), "bfloat16": (6e-2, 6e-2)}.get(dtype)
            agree(cygrad, f"{dtype} {width}", lambda *v: call(width, *v), values, True, errors=errors)
            if width <= 8192:
                turned = lambda x, *w: (x.t().contiguous().t(), *w)  # noqa: E731
                agree(
                    cygrad, f"{dtype} {width} turned", lambda *v: call(width, *v), values, True, turned, errors=errors
                )

    calls = {
        "softmax": (lambda n, x: x.softmax(1), 0), "log_softmax": (lambda n, x: x.log_softmax(1), 0),
        "layer_norm": (lambda n, x, w, b: f.layer_norm(x, (n,), w, b), 2),
        "layer_norm without weights": (lambda n, x: f.layer_norm(x, (n,)), 0),
        "rms_norm": (lambda n, x, w: f.rms_norm(x, (n,), w), 1), "logsumexp": (lambda n, x: x.logsumexp(1), 0),
        "normalize": (lambda n, x: f.normalize(x, dim=1), 0),
    }  # fmt: skip
    for name, (call, weights) in calls.items():
        for width in widths:
            if width > 1 or "norm" not in name:  # of one element, what is left are rounding errors
                report.item(f"{name} {width}", one, call, width, weights)

    def middle():
        for shape in ((3, 5, 7),) if report.tiny else ((7, 129, 65), (2, 5000, 3)):
            for dtype in ("float32", "float64"):
                agree(
                    cygrad, f"{shape}", lambda x: (x.softmax(1), x.log_softmax(0)), [numbers(*shape, dtype=dtype)], True
                )

    def losses():
        for n, classes in ((5, 3),) if report.tiny else ((33, 10), (1000, 1000), (65, 50257)):
            target = numbers.whole(n, high=classes)
            for dtype in ("float32", "float64", "bfloat16"):
                errors = {"float32": (1e-4, 1e-5), "bfloat16": (3e-2, 3e-2)}.get(dtype)
                agree(cygrad, f"{n} {classes}", lambda x, t: (f.cross_entropy(x, t), f.cross_entropy(
                    x, t, label_smoothing=0.1, reduction="sum") / len(t)), [numbers(n, classes, dtype=dtype), target],
                    True, errors=errors)  # fmt: skip

    def others():
        x = numbers(4, 6, *((5, 7) if report.tiny else (33, 35)))
        w, b = numbers(6), numbers(6)
        for dtype in ("float32", "float64"):
            values = [v.to(getattr(cygrad, dtype)) for v in (x, w, b)]
            errors = (1e-3, 1e-4) if dtype == "float32" else None
            agree(
                cygrad,
                "batch_norm",
                lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True),
                values,
                True,
                errors=errors,
            )
            agree(cygrad, "group_norm", lambda x, w, b: f.group_norm(x, 3, w, b), values, True, errors=errors)
            agree(
                cygrad,
                "instance_norm",
                lambda x, w, b: f.instance_norm(x, weight=w, bias=b),
                values,
                True,
                errors=errors,
            )

    for name, call in {"middle": middle, "cross_entropy": losses, "others": others}.items():
        report.item(name, call)


def order(report):
    """Scans, sorting, searching."""
    cygrad = load()
    numbers = Numbers(cygrad)
    shapes = (
        [(31,), (257,), (9, 67)]
        if report.tiny
        else [(1,), (31,), (4099,), (1_000_003,), (65, 4099), (5000, 3), (3, 257, 33)]
    )

    def scans(call, grad, low, high):
        for shape in shapes:
            for dtype in ("float32", "float64", "float16"):
                if dtype == "float16" and max(shape) > 5000:
                    continue  # halves overflow or stand still
                x = numbers(*shape, dtype=dtype, low=low, high=high)
                for dim in range(len(shape)):
                    errors = {"float32": (1e-3, 1e-3), "float16": (2e-2, 2e-2)}.get(dtype)
                    agree(cygrad, f"{dtype} {shape} {dim}", lambda x, d=dim: call(x, d), [x],
                          grad and dtype == "float64" and x.numel() < 20_000, errors=errors)  # fmt: skip

    report.item("cumsum", scans, lambda x, d: x.cumsum(d), True, -1, 1)
    report.item("cumprod", scans, lambda x, d: x.cumprod(d), True, 0.999, 1.001)
    report.item("logcumsumexp", scans, lambda x, d: x.logcumsumexp(d), True, -2, 2)
    report.item("cummax", scans, lambda x, d: x.cummax(d), False, -2, 2)
    report.item("cummin", scans, lambda x, d: x.cummin(d)[0], False, -2, 2)

    def sorts(dtype, down):
        for shape in shapes:
            if dtype.startswith(("float", "bfloat")):
                x = numbers(*shape, dtype=dtype)
                x.view(-1)[::97] = math.nan
                x.view(-1)[1::89] = -0.0
            else:
                x = numbers.whole(*shape, high=2 if dtype == "bool" else 200, dtype=dtype)
            for dim in range(len(shape)):
                agree(
                    cygrad,
                    f"{dtype} {shape} {dim}",
                    lambda x, d=dim: x.sort(d, descending=down, stable=True),
                    [x],
                    wide=False,
                )

    for dtype in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"):
        report.item(f"sort {dtype}", sorts, dtype, False)
    report.item("sort down", sorts, "float32", True)

    def picks():
        for shape in shapes:
            x = numbers(*shape)
            k = min(5, shape[-1])
            agree(
                cygrad,
                f"{shape}",
                lambda x, k=k: (x.topk(k), x.topk(k, largest=False), x.kthvalue(k), x.argsort(-1)),
                [x],
            )
            agree(cygrad, f"{shape} gradients", lambda x, k=k: (x.topk(k)[0], x.sort(-1)[0]), [x], x.numel() < 300_000)

    def uniques():
        for n in (50,) if report.tiny else (1, 4099, 1_000_003):
            x = numbers.whole(n, high=max(2, n // 3))
            agree(cygrad, f"{n}", lambda x: cygrad.unique(x, return_inverse=True, return_counts=True), [x])
            agree(cygrad, f"{n} in a row", lambda x: cygrad.unique_consecutive(x // 2, return_counts=True), [x])
        agree(cygrad, "rows", lambda x: cygrad.unique(x, dim=0), [numbers.whole(99, 2, high=5)])

    def searches():
        for n in (50,) if report.tiny else (1000, 300_007):
            edges, x = numbers(n).sort()[0], numbers(n // 2)
            agree(
                cygrad, f"{n}", lambda e, x: (cygrad.searchsorted(e, x), cygrad.bucketize(x, e, right=True)), [edges, x]
            )
            agree(cygrad, f"{n}", lambda i: cygrad.bincount(i, minlength=5), [numbers.whole(n, high=77)])
            agree(cygrad, f"{n}", lambda x: cygrad.histc(x, 20, -2.0, 2.0), [x])

    for name, call in {"picks": picks, "unique": uniques, "search": searches}.items():
        report.item(name, call)


def indices(report):
    cygrad = load()
    f, numbers = cygrad.nn.functional, Numbers(cygrad)
    n, m = (23, 9) if report.tiny else (4099, 129)
    many = 60 if report.tiny else 200_003
    index, rows_of = numbers.whole(many, high=n), numbers.whole(n, m, high=n)
    mask = numbers(n, m) > 0.3

    def one(call, shapes, indices, grad, dtypes=("float64", "float32", "float16")):
        for dtype in dtypes:
            values = [numbers(*shape, dtype=dtype) for shape in shapes]
            sums = {"float32": (1e-3, 1e-3), "float16": (2e-1, 2e-1)}.get(dtype)  # of many, in any fixed order
            agree(cygrad, dtype, call, [*values, *indices], grad and dtype != "float16", errors=sums)

    x, y = (n, m), (many, 7)
    table = (n, 7)
    calls = {
        "gather": (lambda x, i: x.gather(0, i), [x], [rows_of]),
        "scatter": (lambda x, i: cygrad.zeros_like(x).scatter(1, i.sort(1)[1], x), [x], [rows_of]),
        "scatter_add": (lambda x, i: cygrad.zeros_like(x).scatter_add(0, i, x), [x], [rows_of]),
        "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i, x * 2, "amax"), [x], [rows_of]),
        "index_select": (lambda x, i: x.index_select(0, i), [table], [index]),
        "index_add": (lambda x, y, i: x.index_add(0, i, y), [table, y], [index]),
        "index_copy": (lambda x, i: x.index_copy(0, i[: len(x)].sort()[1], x * 2), [table], [index]),
        "index_fill": (lambda x, i: x.index_fill(0, i[:9], 3.0), [table], [index]),
        "x[i]": (lambda x, i: x[i], [table], [index]),
        "x[i, j]": (lambda x, i: x[i, i % 7], [table], [index]),
        "x[:, i]": (lambda x, i: x[:, i % 7], [table], [index[:50]]),
        "index_put, summed": (lambda x, y, i: x.index_put((i,), y, accumulate=True), [table, y], [index]),
        "x[mask]": (lambda x, k: x[k], [x], [mask]),
        "masked_fill": (lambda x, k: x.masked_fill(k, 2.0), [x], [mask]),
        "masked_scatter": (lambda x, k: x.masked_scatter(k, x * 2), [x], [mask]),
        "nonzero": (lambda x, k: k.nonzero(), [x], [mask]),
        "take": (lambda x, i: x.take(i), [x], [index]),
        "embedding": (lambda x, i: f.embedding(i, x), [table], [index]),
        "embedding with padding": (lambda x, i: f.embedding(i, x, padding_idx=3), [table], [index]),
        "one_hot": (lambda x, i: f.one_hot(i[:99], n), [x], [index]),
        "repeat_interleave": (lambda x, i: x.repeat_interleave(i[: len(x)] % 3, 0), [table], [index]),
        "take_along_dim": (lambda x, i: cygrad.take_along_dim(x, i % x.shape[1], 1), [x], [rows_of]),
        "tril, triu, diag": (lambda x: (x.tril(), x.triu(2), x.diagonal(), x[0].diag()), [x], []),
    }
    for name, (call, shapes, given) in calls.items():
        report.item(name, one, call, shapes, given, name not in ("nonzero", "one_hot"))

    def refused():
        x = cygrad.ones(5, device="cuda")
        for call in (lambda i: x[i], lambda i: x.index_select(0, i), lambda i: x.gather(0, i), lambda i: x.take(i)):
            try:
                call(cygrad.tensor([0, 7], device="cuda"))
            except (IndexError, RuntimeError):
                continue
            raise AssertionError("an index out of range was taken")
        assert x.tolist() == [1] * 5

    report.item("out of range", refused)


# ---- products, convolutions


VIEWS = {"n": lambda x: x, "t": lambda x: x.t(), "s": lambda x: x[:, ::2]}  # of an operand


def products(report):
    cygrad = load()
    f, numbers = cygrad.nn.functional, Numbers(cygrad)
    sizes = (
        [(1, 1, 1), (7, 9, 5), (3, 0, 4)]
        if report.tiny
        else [
            (1, 1, 1),
            (31, 33, 17),
            (257, 129, 65),
            (1000, 50, 1031),
            (1, 4096, 1000),
            (1000, 4096, 1),
            (512, 512, 512),
            (3, 0, 4),
        ]
    )
    kinds = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
    errors = {"float32": (1e-4, 1e-3), "float16": (1e-2, 1e-1), "bfloat16": (5e-2, 5e-1), "complex64": (1e-4, 1e-3)}

    def drawn(*shape, dtype):
        if dtype.startswith("complex"):
            return cygrad.complex(numbers(*shape), numbers(*shape)).to(getattr(cygrad, dtype))
        return numbers(*shape, dtype=dtype)

    def one(dtype):
        for a, k, b in sizes:
            if dtype.startswith("complex") and a * k * b > 3_000_000:
                continue  # the CPU's side takes too long
            for left in ("n", "t", "s"):
                for right in ("n", "t", "s"):
                    x = drawn(*((k, a) if left == "t" else (a, 2 * k) if left == "s" else (a, k)), dtype=dtype)
                    y = drawn(*((b, k) if right == "t" else (k, 2 * b) if right == "s" else (k, b)), dtype=dtype)
                    layout = lambda x, y, views=(left, right): (VIEWS[views[0]](x), VIEWS[views[1]](y))  # noqa: E731
                    grad = dtype in ("float64", "float32") and left == right == "n"
                    agree(
                        cygrad,
                        f"{(a, k, b)} {left}{right}",
                        lambda x, y: x @ y,
                        [x, y],
                        grad,
                        layout,
                        errors.get(dtype),
                    )

    def batches(dtype):
        n, k = (3, 4) if report.tiny else (65, 33)
        error = errors.get(dtype)
        pairs = [
            ((5, n, k), (5, k, n)),
            ((2, 3, n, k), (3, k, n)),
            ((5, n, k), (k, n)),
            ((n, k), (5, k, n)),
            ((1, n, k), (5, k, n)),
            ((n, k), (k,)),
            ((k,), (k, n)),
            ((5, n, k), (k,)),
            ((k,), (k,)),
            ((0, n, k), (k, n)),
        ]
        for a, b in pairs:
            agree(
                cygrad,
                f"{a} {b}",
                lambda x, y: x @ y,
                [drawn(*a, dtype=dtype), drawn(*b, dtype=dtype)],
                dtype == "float64",
                errors=error,
            )
        turned = lambda x, y: (x.transpose(0, 1), y.permute(1, 2, 0))  # noqa: E731
        agree(
            cygrad,
            "turned",
            cygrad.bmm,
            [drawn(n, 5, k, dtype=dtype), drawn(n, 5, k, dtype=dtype)],
            layout=turned,
            errors=error,
        )
        x, y, z = drawn(n, k, dtype=dtype), drawn(k, n, dtype=dtype), drawn(n, dtype=dtype)
        agree(
            cygrad,
            "addmm",
            lambda x, y, z: cygrad.addmm(z, x, y, beta=0.5, alpha=2),
            [x, y, z],
            dtype == "float64",
            errors=error,
        )
        agree(cygrad, "linear", lambda x, y, z: f.linear(x, y.t(), z), [x, y, z], dtype == "float64", errors=error)
        agree(cygrad, "einsum", lambda x, y: cygrad.einsum("ik,kj->ji", x, y), [x, y], errors=error)

    def integers():
        n = 9 if report.tiny else 129
        for dtype in ("int64", "int32", "uint8"):
            agree(
                cygrad,
                dtype,
                lambda x, y: x @ y,
                [numbers.whole(n, n + 4, dtype=dtype), numbers.whole(n + 4, 7, dtype=dtype)],
            )

    def attention():
        for shape in ((2, 2, 9, 4),) if report.tiny else ((2, 3, 129, 64), (1, 2, 1025, 32), (4, 1, 33, 80)):
            mask = numbers(shape[2], shape[2]) > -1.5
            mask[:, 0] = True
            for dtype in FLOATS:
                q, k, v = (numbers(*shape, dtype=dtype) for _ in range(3))
                error = {"float32": (1e-3, 1e-4), "float16": (3e-2, 3e-2), "bfloat16": (1e-1, 1e-1)}.get(dtype)
                for name, call in {
                    "plain": f.scaled_dot_product_attention,
                    "causal": lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
                    "mask": lambda q, k, v, mask=mask: f.scaled_dot_product_attention(
                        q, k, v, attn_mask=mask.to(q.device)
                    ),
                }.items():
                    agree(cygrad, f"{dtype} {shape} {name}", call, [q, k, v], True, errors=error)

    def systems():
        n = 5 if report.tiny else 65
        a = numbers(3, n, n)
        a = a @ a.mT + n * cygrad.eye(n, dtype=cygrad.float64)
        b = numbers(3, n, 4)
        close = (1e-6, 1e-6)
        agree(cygrad, "cholesky", cygrad.linalg.cholesky, [a], True, errors=close)
        agree(cygrad, "solve", cygrad.linalg.solve, [a, b], True, errors=close)
        agree(
            cygrad, "inv, det", lambda a: (cygrad.linalg.inv(a), cygrad.linalg.slogdet(a)[1]), [a], True, errors=close
        )
        agree(cygrad, "svdvals", cygrad.linalg.svdvals, [b], errors=close)
        agree(cygrad, "eigvalsh", cygrad.linalg.eigvalsh, [a], errors=close)
        agree(
            cygrad,
            "fft",
            lambda b: (
                cygrad.view_as_real(cygrad.fft.fft(b, dim=1)),
                cygrad.fft.irfft(cygrad.fft.rfft(b, dim=1), n=n, dim=1),
            ),
            [b],
            True,
            errors=close,
        )

    for dtype in kinds:
        report.item(f"layouts {dtype}", one, dtype)
        report.item(f"batches {dtype}", batches, dtype)
    for name, call in {"integers": integers, "attention": attention, "linear algebra": systems}.items():
        report.item(name, call)


GEOMETRIES = [  # of the image, of the weight, other arguments
    ((4, 8, 30), (6, 4, 3), {"padding": 1, "groups": 2}),
    ((4, 8, 15, 14), (16, 8, 3, 3), {"padding": 1}),
    ((4, 8, 15, 14), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    ((4, 8, 15, 14), (6, 8, 3, 2), {"stride": (2, 1), "dilation": (1, 2)}),
    ((2, 3, 8, 9, 7), (4, 3, 2, 3, 2), {"stride": (1, 2, 1), "padding": 1}),
    ((4, 16, 33, 35), (32, 16, 1, 1), {}),
    ((2, 3, 65, 67), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
]


def convolutions(report):
    """By cuDNN, where it is, and by patches; pooling and resizing."""
    cygrad = load()
    cudnn, f, numbers = cygrad.backends.cudnn, cygrad.nn.functional, Numbers(cygrad)
    report.figure(
        "cuDNN",
        f"cuDNN {cudnn.version()}" if cudnn.is_available() else "cuDNN is not found: products with patches alone",
    )
    errors = {"float64": (1e-8, 1e-9), "float32": (1e-3, 1e-4), "float16": (5e-2, 5e-2), "bfloat16": (2e-1, 2e-1)}

    def one(image, weight, options, dtype):
        convolve = getattr(f, f"conv{len(image) - 2}d")
        values = [numbers(*size, dtype=dtype, low=-1, high=1) for size in (image, weight, weight[:1])]
        for enabled in (True, False) if cudnn.is_available() else (False,):
            with cudnn.flags(enabled=enabled, allow_tf32=False):
                name = "cuDNN" if enabled else "patches"
                agree(cygrad, name, lambda *v: convolve(*v, **options), values, True, errors=errors[dtype])
                agree(cygrad, f"{name}, strided", lambda *v: convolve(*v, **options), values, True,
                      lambda x, *w: (x.transpose(0, -1).contiguous().transpose(0, -1), *w), errors[dtype])  # fmt: skip

    for place, (image, weight, options) in enumerate(GEOMETRIES[:3] if report.tiny else GEOMETRIES):
        for dtype in FLOATS:
            report.item(f"{place} {dtype}", one, image, weight, options, dtype)
    shape = (2, 3, 9, 10) if report.tiny else (3, 17, 65, 67)
    calls = {
        "max_pool2d": lambda x: f.max_pool2d(x, 3, 2, 1),
        "avg_pool2d": lambda x: f.avg_pool2d(x, 3, 2, 1),
        "adaptive_avg_pool2d": lambda x: f.adaptive_avg_pool2d(x, (4, 3)),
        "adaptive_max_pool2d": lambda x: f.adaptive_max_pool2d(x, (4, 3)),
        "pad": lambda x: f.pad(x, (1, 2, 3, 0), "reflect"),
        "unfold": lambda x: f.unfold(x, 3, padding=1),
        "nearest": lambda x: f.interpolate(x, scale_factor=2),
        "bilinear": lambda x: f.interpolate(x, size=(13, 17), mode="bilinear"),
        "pixel_shuffle": lambda x: f.pixel_unshuffle(x[..., :8, :8], 2),
    }

    def of_images(call):
        for dtype in ("float32", "float64"):
            close = (1e-3, 5e-5) if dtype == "float32" else None  # weights of bilinear are differences of places
            agree(cygrad, dtype, call, [numbers(*shape, dtype=dtype)], True, errors=close)

    for name, call in calls.items():
        report.item(name, of_images, call)

    def transposed():
        x, w = numbers(2, 4, 9, 8), numbers(4, 3, 3, 3)
        agree(cygrad, "conv_transpose2d", lambda x, w: f.conv_transpose2d(x, w, stride=2, padding=1), [x, w], True)
        agree(
            cygrad,
            "float32",
            lambda x, w: f.conv_transpose2d(x, w, stride=2, padding=1),
            [x.float(), w.float()],
            True,
            errors=(1e-3, 1e-4),
        )

    report.item("transposed", transposed)
