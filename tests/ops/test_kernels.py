"""Every pointwise kernel of the op table: each dtype, layout and instruction set, against its formula read by NumPy.

NumPy evaluates a formula one operation at a time. Where these are arithmetic and selections only, every bit must agree;
elementary functions may differ by a few units in the last place.
"""

import math
import re

import numpy as np
import pytest

from cygrad.storage import dispatch
from cygrad.storage.opgen.parse import load
from cygrad.storage.opgen.scalar import kernels

ROWS = load()
KERNELS = {kernel.name: kernel for kernel in kernels(ROWS)}
NUMPY = {"b8": np.bool_, "u8": np.uint8, "i32": np.int32, "i64": np.int64, "u64": np.uint64, "f32": np.float32,
         "f64": np.float64}  # fmt: skip
CODE = {"b8": 0, "u8": 1, "i32": 4, "i64": 5, "u64": 14, "f32": 8, "f64": 9}
CASES = [(kernel, t) for kernel in KERNELS.values() for t in kernel.types]
IDS = [f"{kernel.name}-{t.name}" for kernel, t in CASES]
each_kernel = pytest.mark.parametrize(("kernel", "type"), CASES, ids=IDS)
FREQUENT = [(kernel, t) for kernel, t in CASES if not kernel.row.rare]      # test_special.py tests the others
each_frequent = pytest.mark.parametrize(("kernel", "type"), FREQUENT, ids=[f"{k.name}-{t.name}" for k, t in FREQUENT])
each_isa = pytest.mark.parametrize("isa", dispatch.isas_available())
LENGTHS = (0, 1, 2, 3, 15, 17, 64, 255, 256, 257, 1031)
EXTREME_FLOATS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, -3.5, 89.0, -104.0, 710.0, -746.0]


def sign(x):
    return x if x.dtype == bool else ((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)).astype(x.dtype)


def pymod(a, b):
    """The remainder with the sign of b; a zero keeps the sign of a, as PyTorch's does and NumPy's does not."""
    if not np.issubdtype(a.dtype, np.floating):
        return np.remainder(a, b)
    r = np.fmod(a, b)
    return np.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


def of_float(f):
    """A rounding function, which leaves integers alone."""
    return lambda x: f(x) if np.issubdtype(x.dtype, np.floating) else x


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def erf(x):
    return np.array([math.erf(v) for v in np.ravel(x)]).reshape(np.shape(x))


def precisely(function, name=None):
    """`function` computed with more digits and rounded once; that of `math` on the numbers which formulas contain."""

    def call(*args):
        if isinstance(args[0], int | float):
            return getattr(math, name)(*args)
        if not np.issubdtype(args[0].dtype, np.floating):
            return function(*args)
        wide = np.longdouble if args[0].dtype == np.float64 else np.float64
        return function(*(np.asarray(x, wide) for x in args)).astype(args[0].dtype)

    return call


def where(condition, a, b):
    """NumPy's, in which two numbers of a formula do not outrank the operands."""
    chosen = np.where(condition, a, b)
    return chosen.astype(np.uint8) if isinstance(a, int) and isinstance(b, int) else chosen


def round_to(x, decimals):
    power = x.dtype.type(math.pow(10.0, abs(float(decimals))))
    return np.rint(x / power) * power if decimals < 0 else np.rint(x * power) / power


def shift(f, none_left):
    """NumPy's shift, where the number of bits is one; all others leave `none_left`."""
    def call(a, b):
        good = (b >= 0) & (b < 8 * a.dtype.itemsize)
        return np.where(good, f(a, np.where(good, b, 0)), none_left(a)).astype(a.dtype)

    return call


REFERENCE = {
    "round_to": round_to, "copysign": np.copysign, "signbit": np.signbit,
    "shift_left": shift(np.left_shift, lambda a: a ^ a),
    "shift_right": shift(np.right_shift, lambda a: np.where(a < 0, ~(a ^ a), a ^ a)),
    "pi": math.pi, "conj": lambda x: x, "real": lambda x: x, "sgn": sign, "where": where, "abs": np.abs, "sign": sign,
    "floordiv": np.floor_divide, "pymod": pymod, "cmod": np.fmod,
    "div_floor": np.floor_divide, "div_trunc": lambda a, b: np.trunc(a / b),
    "power": precisely(np.power), "pow": precisely(np.power),
    "sigmoid": precisely(sigmoid), "erf": precisely(erf),
    **{name: precisely(getattr(np, name), name) for name in ("exp", "log")},
    "sqrt": lambda x: math.sqrt(x) if isinstance(x, int | float) else np.sqrt(x),
    **{name: precisely(getattr(np, name)) for name in ("expm1", "log1p", "sin", "cos", "tan", "tanh")},
    **{name: of_float(getattr(np, name)) for name in ("floor", "ceil", "rint", "trunc")},
    **{name: getattr(np, name) for name in ("isnan", "isinf", "isfinite")},
}  # fmt: skip
EXACT = {"conj", "real", "sgn", "round_to", "copysign", "signbit", "where", "abs", "floor", "ceil", "rint", "trunc",
         "sign", "sqrt",
         "isnan", "isinf", "isfinite", "pymod", "cmod", "floordiv", "div_floor", "div_trunc"}  # fmt: skip


def reference(kernel, type, inputs, scalars):
    """The formula over arrays, every operation rounded to the kernel's own precision."""
    names = dict(zip([n for n, _ in kernel.operands] + list(kernel.attrs), [*inputs, *scalars], strict=True))
    with np.errstate(all="ignore"):
        return np.asarray(eval(dict(kernel.formulas)[type], {"__builtins__": {}} | REFERENCE, names))


def calls(kernel, type):
    formula = dict(kernel.formulas)[type]
    return {name for name in REFERENCE if f"{name}(" in formula}


def is_exact(kernel, type):
    return type.kind != "float" or calls(kernel, type) <= EXACT


def samples(rng, kernel, type, n, extremes=0.2):
    """Operands that meet every branch: ordinary floats and a share of extremes; integers over their whole range."""
    found = []
    for name, kind in kernel.operands:
        if kind == "truth" or type.kind == "bool":
            found.append(rng.random(n) < 0.5)
        elif type.kind == "int":
            info = np.iinfo(NUMPY[type.name])
            x = rng.integers(info.min, info.max, n, dtype=NUMPY[type.name], endpoint=True)
            small = rng.integers(max(info.min, -4), 5, n).astype(x.dtype)
            x = np.where(rng.random(n) < 0.5, x, small)
            x[rng.random(n) < 0.05] = info.min
            if kernel.name == "pow" and name == "b":  # negative exponents are refused before the kernel
                x = np.abs(small)
            found.append(x.astype(NUMPY[type.name]))
        else:
            dtype = NUMPY[type.name]
            x = (rng.standard_normal(n) * 2.0 ** rng.integers(-3, 5, n)).astype(dtype)
            x[rng.random(n) < 0.1] = 1
            special = rng.random(n) < extremes
            info = np.finfo(dtype)
            values = np.array([*EXTREME_FLOATS, info.max, info.tiny, info.smallest_subnormal], dtype)
            x[special] = rng.choice(values, n)[special]
            found.append(x)
    return found


def scalars_of(kernel, type):
    values = [-2.5, 1.5, 3.0, 0.5][: len(kernel.attrs)]
    if type.kind == "float":
        return values
    return [math.trunc(v) % 256 if type.name[0] == "u" else math.trunc(v) for v in values]


def run(kernel, type, inputs, isa=None, out=None):
    dtype = np.bool_ if kernel.truth else NUMPY[type.name]
    out = np.empty(len(inputs[0]), dtype) if out is None else out
    dispatch.run_loop(kernel.name, CODE[type.name], out, tuple(inputs), tuple(scalars_of(kernel, type)), isa)
    return out


def same_bits(a, b):
    """Equal values with equal signs of zero; every NaN is like every other."""
    if not np.issubdtype(a.dtype, np.floating):
        return np.array_equal(a, b)
    signs = [np.signbit(x) | np.isnan(x) for x in (a, b)]
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(*signs)


CANCELLING = ("1 + erf(", "1 - sigmoid(", "1 - tanh(", "- where(log(", "1 + x * sigmoid(", "sigmoid(x) - t",
              "(1 - t) *")


def close(kernel, type, inputs, got, want):
    """Near in units of the last place; infinities and NaN in the same places.

    One elementary function is near the rounded result, a product of some as well. Where a formula cancels, as in
    ``1 + erf(x)``, it keeps what the last bit of 1 leaves, times the other operands.
    """
    formula = dict(kernel.formulas)[type]
    units = 3 if re.fullmatch(r"\w+\([\w, ]+\)", formula) else 16
    with np.errstate(all="ignore"):
        slack = units * np.spacing(np.abs(want))
        if any(part in formula for part in CANCELLING):
            slack += 2 * np.finfo(want.dtype).eps * np.prod([np.maximum(1, np.abs(x)) for x in inputs], axis=0)
        near = np.abs(got - want) <= slack
    return np.all(near | (got == want) | (np.isnan(got) & np.isnan(want)))


def strided(x, step):
    """The same values `step` elements apart, backwards in memory if `step` is negative; never aligned to a vector."""
    room = np.zeros(len(x) * abs(step) + 3, x.dtype)
    view = room[1 : 1 + len(x) * abs(step)][:: abs(step)]
    view = view[::-1] if step < 0 else view
    view[...] = x
    return view


@each_isa
@each_frequent
def test_formula(kernel, type, isa):
    rng = np.random.default_rng(len(kernel.name))
    ordinary, mixed = samples(rng, kernel, type, 1000, extremes=0), samples(rng, kernel, type, 3000)
    check_formula(kernel, type, isa, ordinary)
    check_formula(kernel, type, isa, mixed)


def check_formula(kernel, type, isa, inputs):
    got = run(kernel, type, inputs, isa)
    scalars = [got.dtype.type(v) for v in scalars_of(kernel, type)]
    want = np.broadcast_to(reference(kernel, type, inputs, scalars), got.shape).astype(got.dtype)
    if is_exact(kernel, type):
        assert same_bits(got, want)
    else:
        assert close(kernel, type, inputs, got, want)


@each_isa
@each_kernel
def test_layouts_and_lengths_give_the_same_bits(kernel, type, isa):
    rng = np.random.default_rng(7)
    for n, extremes in [*((n, 0.2) for n in LENGTHS), (1031, 0)]:
        inputs = samples(rng, kernel, type, n, extremes)
        want = run(kernel, type, inputs, isa)
        for step in (2, 3, -1, -2):
            apart = [strided(x, step if i % 2 == 0 else 2) for i, x in enumerate(inputs)]
            out = strided(np.zeros_like(want), step)
            assert same_bits(run(kernel, type, apart, isa, out), want)
            assert same_bits(run(kernel, type, apart, isa), want)
            assert same_bits(run(kernel, type, inputs, isa, out), want)
        elements = [run(kernel, type, [x[i : i + 1] for x in inputs], isa)[0] for i in range(min(n, 40))]
        assert same_bits(np.array(elements, want.dtype), want[:40])


@each_isa
@each_kernel
def test_scalar_operands_give_the_same_bits(kernel, type, isa):
    rng = np.random.default_rng(11)
    count = len(kernel.operands)
    for n in (1, 2, 37, 600):
        inputs = samples(rng, kernel, type, n)
        for mask in range(1, 2**count):
            chosen = [bool(mask >> i & 1) for i in range(count)]
            spread = [np.broadcast_to(x[:1], n) if c else x for x, c in zip(inputs, chosen, strict=True)]
            dense = [np.ascontiguousarray(x) for x in spread]
            assert same_bits(run(kernel, type, spread, isa), run(kernel, type, dense, isa))


@each_kernel
def test_in_place(kernel, type):
    rng = np.random.default_rng(13)
    inputs = samples(rng, kernel, type, 777)
    want = run(kernel, type, inputs)
    for i, x in enumerate(inputs):
        if x.dtype == want.dtype:
            for view in (x.copy(), strided(x, 2)):
                operands = [view if k == i else y for k, y in enumerate(inputs)]
                assert same_bits(run(kernel, type, operands, out=view), want)


@each_kernel
def test_instruction_sets_agree(kernel, type):
    rng = np.random.default_rng(17)
    inputs = samples(rng, kernel, type, 3000)
    results = [run(kernel, type, inputs, isa) for isa in dispatch.isas_available()]
    for other in results[1:]:
        if is_exact(kernel, type):
            assert same_bits(results[0], other)
        else:
            assert close(kernel, type, inputs, other, results[0])


@pytest.mark.parametrize("isa", dispatch.isas_available())
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("type", ["u8", "i32", "i64"])
def test_integer_division_never_traps(name, type, isa):
    info = np.iinfo(NUMPY[type])
    a = np.array([info.min, info.min, info.max, 7, 0], NUMPY[type])
    b = np.array([info.max if info.min == 0 else -1, 0, 0, 0, 0], NUMPY[type])
    out = np.full(5, 3, NUMPY[type])
    dispatch.run_loop(name, CODE[type], out, (a, b), (), isa)
    wrapped = info.min if name == "floor_divide" else 0
    assert out.tolist() == [wrapped, 0, 0, 0, 0]


def test_every_declared_kernel_is_there():
    assert set(dispatch.KERNELS) == set(KERNELS)
    for kernel, t in CASES:
        run(kernel, t, samples(np.random.default_rng(0), kernel, t, 4))


def test_a_dtype_without_kernel_is_refused():
    x = np.ones(2, bool)
    with pytest.raises(TypeError, match="neg has no kernel for dtype code 0"):
        dispatch.run_loop("neg", 0, x, (x,))


def test_operands_of_another_count_or_length_are_refused():
    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="add takes the operands"):
        dispatch.run_loop("add", 8, x, (x,))
    with pytest.raises(ValueError, match="operand 2 is not 1-d or not as long"):
        dispatch.run_loop("add", 8, x, (x, x[:2]))


# ---- adapted types: through a kernel of another type, block by block

def to_bfloat16(x):
    """Bits of bfloat16 of a float32 array, by halving the distance of neighbours; NaN stays one."""
    u = x.view(np.uint32).astype(np.uint64)
    rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


ADAPTED = {  # code: (elements in memory, code of the type they compute in, its elements, narrow, widen)
    2: (np.int8, "i32"), 3: (np.int16, "i32"), 12: (np.uint16, "i32"), 13: (np.uint32, "i64"), 6: (np.float16, "f32"),
    7: (np.uint16, "f32"),
}  # fmt: skip


def narrowed(code, x):
    with np.errstate(all="ignore"):
        return to_bfloat16(x) if code == 7 else x.astype(ADAPTED[code][0])


def widened(code, x):
    if code == 7:
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(NUMPY[ADAPTED[code][1]])


@pytest.mark.parametrize("code", ADAPTED)
@pytest.mark.parametrize("name", ["add", "mul", "floor_divide", "where", "clamp_both", "lt", "logical_not", "exp",
                                  "addcmul", "neg", "gelu", "lerp_g_w"])  # fmt: skip
def test_adapted_types_compute_in_another(name, code):
    kernel = KERNELS[name]
    type = next((t for t in kernel.types if t.name == ADAPTED[code][1]), None)
    if type is None:
        with pytest.raises(TypeError, match="no kernel"):
            dispatch.loop_address(name, code)
        return
    rng = np.random.default_rng(code)
    truth = [kind == "truth" for _, kind in kernel.operands]
    for n in (1, 2, 511, 512, 513, 1100):
        inputs = [x if t else narrowed(code, x) for x, t in zip(samples(rng, kernel, type, n), truth, strict=True)]
        want = run(kernel, type, [x if t else widened(code, x) for x, t in zip(inputs, truth, strict=True)])
        want = want if kernel.truth else narrowed(code, want)
        for step in (1, 3, -2):
            out = strided(np.zeros_like(want), step)
            ins = [strided(x, step) for x in inputs]
            dispatch.run_loop(name, code, out, tuple(ins), tuple(scalars_of(kernel, type)))
            if code == 7 and not kernel.truth:
                assert same_bits(widened(7, out), widened(7, want))
            else:
                assert same_bits(out, want)
