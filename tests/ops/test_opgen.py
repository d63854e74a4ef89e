"""The op table: what its reader refuses, and what formulas become as C arithmetic."""

import re
import subprocess
import sys

import pytest

from cygrad.storage.opgen import TableError, show, write_storage
from cygrad.storage.opgen.check import check
from cygrad.storage.opgen.parse import load, parse_row
from cygrad.storage.opgen.scalar import (
    ELEMENT_TYPES,
    NotScalar,
    Reading,
    forward_kernel,
    gradient_plan,
    kernels,
)
from cygrad.storage.opgen.stubs import composed_stubs

F32, F64, I32, U8, B8 = (next(t for t in ELEMENT_TYPES if t.name == n) for n in ("f32", "f64", "i32", "u8", "b8"))
ROWS = load()


def table(**rows):
    """A table of the given rows after the real one."""
    return ROWS | {name: parse_row(name, "test", {"doc": "A test."} | raw) for name, raw in rows.items()}


def text(formula, type=F32, truth=False, rows=ROWS):
    names = {n: (n, "value") for n in ("x", "y", "a", "b", "g")} | {"c": ("(c != 0)", "truth")}
    return Reading(rows, type, names).read(formula, truth)


def row(fwd="x", sig="x -> y", **more):
    """A pointwise row for floats, without a gradient unless one is given."""
    return {"sig": sig, "types": "float", "fwd": fwd} | ({} if "grad" in more else {"nondiff": "a test"}) | more


REFUSED = {
    "no gradient": (row("a * b", "a, b -> y", grad={"a": "g * b"}), "no gradient for 'b'"),
    "both": (row(grad={"x": "g"}, nondiff="a test"), "nondiff and grad exclude each other"),
    "no such input": (row(grad={"x": "g", "z": "g"}), "grad.z belongs to no differentiable input"),
    "unknown name": (row(grad={"x": "g * z"}), "reads 'z'"),
    "unknown name forward": (row("x + z"), "unknown name 'z'"),
    "unknown function": (row("sgin(x)"), "unknown function 'sgin'"),
    "not pointwise": (row(grad={"x": "g * sum(x)"}), "'sum' is not a pointwise operation"),
    "arity": (row("exp(x, x)"), "'exp' takes 1 arguments, got 2"),
    "float on int": (row("exp(x)", types="number"), "'exp' on u8"),
    "division of int": (row("x / 2", types="int", fwd_bool="x"), "only floating types divide"),
    "fraction on int": (row("x * 0.5", types="number"), "0.5 is not an integer"),
    "not closed on bool": (row("a + b", "a, b -> y", types="all"), "'+' is not closed on bool"),
    "bits of float": (row("a & b", "a, b -> y"), "'&' wants two comparisons or two integers"),
    "types": (row(types="real"), "types has the words float, int, number, all, complex, integer, got 'real'"),
    "unused formula": (row(fwd_bool="x"), "fwd_bool is never used"),
    "grammar": (row("x if x else x"), "not part of the grammar"),
    "chained comparison": (row("where(0 < x < 1, x, 0)"), "not part of the grammar"),
    "syntax": (row(grad={"x": "g *"}), "cannot parse 'g *'"),
    "taken name": (row("g", "g -> y"), "the name 'g' is taken"),
    "two outputs": (row(sig="x -> y, z"), "has one output"),
    "argument": (row(sig="x, dim:dim -> y"), "cannot take the dim 'dim'"),
    "alpha": (row(alpha="nowhere"), "alpha names the row 'nowhere'"),
    "promote": (row(promote="z"), "promote names 'z'"),
    "guard": (row(guard="dragon"), "nobool, quotient, range, got 'dragon'"),
    "layout": (row(layout="dense"), "layout is 'contiguous' or absent, got 'dense'"),
    "api": (row(api="function magic"), "got 'magic'"),
    "doc": (row(doc=" "), "doc is one line of text"),
    "infinite": (row("x * 1e999"), "inf is not finite"),
    "zero divisor": (row("x * (1 / 0)"), "division by zero"),
}


@pytest.mark.parametrize(("raw", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_refused(raw, reason):
    with pytest.raises(TableError, match=r"test\.toml \[bad\]: .*" + re.escape(reason)):
        check(table(bad=raw))


def test_a_row_that_calls_itself_is_refused():
    with pytest.raises(TableError, match="calls itself: first -> second -> first"):
        check(table(first=row("second(x)"), second=row("first(x)")))


def test_the_real_table_is_accepted():
    check(ROWS)


def test_literals_are_typed():
    assert text("1 - x") == "(<float>1.0) - x"
    assert text("1 - x", F64) == "(<double>1.0) - x"
    assert text("x * -2", I32) == "<int32_t>(<uint32_t>x * <uint32_t>(<int32_t>(-2)))"


def test_constants_are_folded_in_double():
    assert text("x * (2 / sqrt(pi))") == "x * (<float>1.1283791670955126)"
    assert text("-0.5 * x") == "(<float>(-0.5)) * x"


def test_integers_wrap_without_undefined_behaviour():
    assert text("a + b", I32) == "<int32_t>(<uint32_t>a + <uint32_t>b)"
    assert text("-x", I32) == "<int32_t>(0 - <uint32_t>x)"
    assert text("a - b", U8) == "<uint8_t>(<uint32_t>a - <uint32_t>b)"


def test_comparisons_become_numbers_only_where_one_is_wanted():
    assert text("(a < b) & (a != 0)", truth=True) == "<uint8_t>((a < b) & (a != (<float>0.0)))"
    assert text("x * (a < b)") == "x * <float>(a < b)"
    assert text("where(c, a, b)") == "vm_where_f32((c != 0), a, b)"
    assert text("where(~c, a, b)") == "vm_where_f32((not (c != 0)), a, b)"
    assert text("where(x, a, b)", B8) == "vm_where_b8((x != 0), a, b)"


def test_other_rows_are_called_by_name():
    assert text("g * pow(a, b - 1)") == "g * pow_f32(a, (b - (<float>1.0)))"
    with pytest.raises(NotScalar, match="'pow' takes 2 arguments, got 1"):
        text("pow(a)")


@pytest.mark.parametrize(
    ("formula", "how"), [("g", "pass"), ("0", "constant"), ("-g", "kernel"), ("g * x", "kernel"), ("g * 2", "kernel")]
)
def test_how_a_pointwise_gradient_is_computed(formula, how):
    rows = table(new=row("x", grad={"x": formula}))
    assert gradient_plan(rows, rows["new"], "x")[0] == how


def test_gradients_of_other_rows_are_read_as_tensors():
    assert gradient_plan(ROWS, ROWS["sum"], "x") == ("tensor", None)
    assert gradient_plan(ROWS, ROWS["addmm"], "c") == ("tensor", None)


def test_minus_g_is_the_kernel_of_neg():
    assert gradient_plan(ROWS, ROWS["sub"], "b") == ("kernel", forward_kernel(ROWS["neg"]))


def test_gradient_operands_follow_the_formula():
    _, kernel = gradient_plan(ROWS, ROWS["div"], "b")
    assert (kernel.id, [n for n, _ in kernel.operands], kernel.attrs) == ("K_DIV_G_B", ["g", "a", "b"], ())
    _, kernel = gradient_plan(ROWS, ROWS["addcmul"], "a")
    assert ([n for n, _ in kernel.operands], kernel.attrs) == (["g", "b"], ("value",))


def test_a_mask_stays_a_byte():
    shown = show("where")
    assert "cdef inline double where_f64(uint8_t c, double a, double b)" in shown
    assert "s1 == 1 and s2 == 8" in shown


def test_ids_are_unique_and_in_table_order(tmp_path):
    write_storage(tmp_path)
    ids = re.findall(r"(K_\w+) = (\d+)", (tmp_path / "kernel_ids.pxi").read_text())
    assert [int(i) for _, i in ids] == list(range(len(ids)))
    assert [name for name, _ in ids] == [kernel.id for kernel in kernels(ROWS)]


def test_unchanged_files_are_left_alone(tmp_path):
    first = {path: path.stat().st_mtime_ns for path in write_storage(tmp_path)}
    assert {path: path.stat().st_mtime_ns for path in write_storage(tmp_path)} == first
    (tmp_path / "kernel_ids.pxi").write_text("stale")
    write_storage(tmp_path)
    assert "N_KERNELS" in (tmp_path / "kernel_ids.pxi").read_text()


def test_stubs_of_compositions(tmp_path):
    (tmp_path / "a.py").write_text(
        '@in_place\n@composed("function method")\ndef f(input: Tensor, n: int = 1, *, flag: bool | None = None): pass\n'
        '@composed("function")\ndef g(input: Tensor) -> Tensor: pass\n'
        'composed("method out", name="h")(g)\n'
        'composed("function", name="k")(g)\n'
        'composed("method", name="clip")(Tensor.__dict__["clamp"])\n')
    assert composed_stubs(tmp_path) == [
        "def f(input: Tensor, n: _int=1, *, flag: _bool | None=None) -> Any: ...",
        "def f_(self, n: _int=1, *, flag: _bool | None=None) -> Tensor: ...",
        "def h(input: Tensor) -> Tensor: ...",
        "clip = clamp",
    ]


def test_show_on_the_command_line():
    command = [sys.executable, "-m", "cygrad.storage.opgen"]
    shown = subprocess.run([*command, "show", "sigmoid"], capture_output=True, text=True, check=True).stdout
    assert "# K_SIGMOID: sigmoid(x)" in shown
    assert "# K_SIGMOID_G_X: g * conj((1 - y) * y)" in shown
    assert "f64" in shown
    view = subprocess.run([*command, "show", "narrow"], capture_output=True, text=True, check=True).stdout
    assert "op_narrow" in view
    missing = subprocess.run([*command, "show", "sgimoid"], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr) == (1, "no row 'sgimoid' in the op table\n")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
