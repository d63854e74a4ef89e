"""Reads the op table: TOML rows into `Row` objects. Every other reader of the table starts here.

A row (see CONTRIBUTING.md for a walk through one)::

    [name]                       # the public name
    sig     = "x, dim:dims=None, keepdim:bool=False, *, dtype:dtype=None -> y"
    types   = "float"            # dtypes it has kernels for: float | int (bool and integers) | integer (no bool) |
                                 # number (no bool) | all,
                                 # and "complex" beside one of them
    out     = "bool"             # dtype of the result when it is not that of the inputs; "real": that of the parts of a
                                 # complex number
    promote = "x"                # the result has x's dtype (default: PyTorch's promotion over all tensors); "alike":
                                 # all tensors have one dtype, integers do not become floats; "number": as beside an
                                 # int, so bool becomes int64
    layout  = "contiguous"       # pointwise, into: the result is row-major (default: in the inputs' common layout)
    fwd     = "1 / (1 + exp(-x))"  # pointwise: one formula an element; fwd_bool, fwd_int, fwd_complex: others
    kernel  = "sum"              # or: the hand-written storage function op_sum
    into    = "index_copy"       # or: the hand-written storage function index_copy_into, which writes into its first
                                 # input; the operation itself writes into a copy
    meta    = "transpose"        # or: the view rule view_transpose; shares storage
    tensor  = "sqrt(var(x))"     # or: made of other rows; records their nodes
    hand    = "why"              # or: recorded by autograd's own code (formulas.pxi: bw_NAME), for the reason given
    grad.x  = "g * y * (1 - y)"  # one formula an input; names: inputs, arguments, outputs, g (the first one's gradient)
                             # and node, for functions that look at the graph
    let.s   = "sum(g * y, dim)"  # what several gradients read: computed once, under a name of its own, or several
    let."a, b" = "pair(g, x, node)"  # of a function that returns a tuple
    jvp.x   = "sum(t, dim)"      # not pointwise: what the tangent t of x adds to the result's, where that is cheaper
                             # than what autograd finds from the gradients: for all inputs or none; it reads what
                             # grad.x reads
nondiff = "boolean"          # why there is no gradient, where there is none
    guard   = "divisor range"    # checked before the loop. divisor: no integer as second input is 0; exponent: no
                                 # integer number there is negative; nobool: no input is bool; quotient: second and
                                 # third input are not both integers; floating: integers are refused,
                                 # not converted; bounds: no number bounds a bool tensor; range: numbers fit the
                                 # dtype of the result; halves: a number beside halves keeps the digits of a
                                 # float32
    refusal = "TypeError: ..."   # pointwise: raised for a dtype without kernel (default: NotImplementedError)
    alpha   = "add_scaled"       # the row that a factor on the second input selects
    factors = { value = "a" }    # which input an argument of type factor multiplies
    node    = "Mul"              # name of the graph node without "Backward0" (default: the name in CamelCase)
    overload = "dim"             # node names end in 1, not 0, where this argument is given, or this input is a tensor
    returns = "values indices"   # several results: fields of the named tuple return_types.NAME (default: a plain tuple)
    py      = { b = "other" }    # public names of inputs; default: first tensor "input", second "other"
    batch   = "loop"             # rows with a kernel, on batched tensors of vmap: front (default: the batch dimensions
                                 # stand in front and arguments count past them), along (front, but indices that vary go
                                 # to along_NAME), hand (batch_NAME is written by hand), loop (once for each example),
                                 # dynamic (refused: the shape of the result depends on values);
                                 # to be given where an argument is `ints`
    alias   = "absolute special.x"   # further names: in all forms that the name itself has, or as function of a module
    linked  = true               # its gradient, where it is recorded, is a function of the first input too, with the
                                 # derivative 0, though it only asks where that lies: as PyTorch's is
    fused   = false              # gradients have no kernels of their own: the tensor reading computes them
    autocast = "low"             # inside autocast the inputs are cast: to the dtype it was given (low), to float32, or,
                                 # where they come together, to the wider of these two that they have (widest)
    api     = "function method inplace out"   # where it appears (default: pointwise all four, else function method);
                                 # out_same: `out` has the result's dtype; out_typed: its dtype is the argument dtype;
                                 # the row linalg_det with api = "linalg" is cygrad.linalg.det, so also special and fft
    doc     = "..."              # first line of the docstring
    test    = { low = -6, high = 6, ref = "np.exp" }   # sample range, reference

Rows of special.toml are rare ones, kept cheap to build: their kernels are compiled once, not for each instruction set,
may call the functions of kernels/special.h, and have no fused gradients; their public forms are made at import.

Inputs without a type are tensors; `tn` is a tensor or a number, `n` a number or a 0-d tensor; `bool` on an input before
the first argument with a default is a tensor of bool. Arguments: int, float, number, flag, dim, dims, axis (one
dimension, None for all), axes (as dims, but () for none), ints, dtype, str, scalar (a number of any kind), factor (as
float, but a number that is no double multiplies its input before the operation), and castto, a dtype to which the
inputs are cast before the operation.
"""
import ast
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "optable"
RARE = "special"
NAMESPACES = ("linalg", "special", "fft")
TENSOR_TYPES = ("t", "tn", "n", "mask", "tensors", "index")
ARG_TYPES = ("int", "float", "number", "flag", "dim", "dims", "axis", "axes", "ints", "dtype", "castto", "str",
             "scalar", "factor")
OUT_FORMS = ("out", "out_same", "out_typed")
KEYS = {"sig", "types", "out", "promote", "fwd", "fwd_bool", "fwd_int", "fwd_complex", "kernel", "into", "meta",
        "tensor", "grad", "let", "jvp", "nondiff", "node", "py", "api", "doc", "test", "alpha", "hand", "guard",
        "refusal", "layout", "overload", "returns", "alias", "fused", "linked", "batch", "factors", "autocast"}


class TableError(ValueError):
    """A row that cannot be read; the message names file, row and reason."""


@dataclass(frozen=True)
class Param:
    name: str
    type: str                 # one of TENSOR_TYPES or ARG_TYPES
    default: str | None = None   # Python source of the default
    kwonly: bool = False

    @property
    def is_tensor(self):
        return self.type in TENSOR_TYPES


@dataclass
class Row:
    name: str
    file: str
    params: list
    outputs: list
    types: str
    out: str | None
    promote: str | None
    fwd: dict                 # "" -> formula, "bool"/"int" -> formula of these dtypes; empty when not pointwise
    kernel: str | None
    into: str | None
    meta: str | None
    tensor: str | None
    hand: str | None
    grad: dict                # input name -> formula
    let: dict                 # name, or names with commas -> formula that gradients share
    jvp: dict                 # input name -> formula
    nondiff: str | None
    node: str
    py: dict
    api: tuple
    doc: str
    alpha: str | None
    guard: str | None
    refusal: str | None
    layout: str | None
    overload: str | None
    returns: str | None
    batch: str | None
    autocast: str | None
    alias: tuple
    fused: bool
    linked: bool
    factors: dict             # argument of type factor -> the input that it multiplies
    test: dict = field(default_factory=dict)

    @property
    def inputs(self):
        return [p for p in self.params if p.is_tensor]

    @property
    def args(self):
        return [p for p in self.params if not p.is_tensor]

    @property
    def kind(self):
        if self.fwd:
            return "pointwise"
        return next((kind for kind in ("kernel", "into", "hand") if getattr(self, kind)),
                    "view" if self.meta else "tensor")

    @property
    def shared(self):
        """The formula behind each name that `let` gives."""
        return {name.strip(): formula for names, formula in self.let.items() for name in names.split(",")}

    @property
    def out_form(self):
        """The word of `api` that says what `out` may be, or None."""
        return next((word for word in OUT_FORMS if word in self.api), None)

    @property
    def rare(self):
        return self.file == RARE

    def param(self, name):
        return next((p for p in self.params if p.name == name), None)

    def public_name(self, p):
        """The keyword that users write for `p`."""
        if p.name in self.py:
            return self.py[p.name]
        if p.is_tensor and self.inputs:
            if p.name == self.inputs[0].name:
                return "input" if p.type != "tensors" else "tensors"
            if len(self.inputs) == 2 and p.name == self.inputs[1].name and p.name == "b":
                return "other"
        return p.name

    def fail(self, reason):
        raise TableError(f"{self.file}.toml [{self.name}]: {reason}")


def camel(name):
    return "".join(w.capitalize() for w in name.split("_"))


def names_in(formula):
    """Names that a formula reads, functions it calls excluded, in order of first use."""
    tree = ast.parse(formula, mode="eval")
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called]
    found.sort(key=lambda n: (n.lineno, n.col_offset))
    return list(dict.fromkeys(n.id for n in found))


def calls_in(formula):
    return {n.func.id for n in ast.walk(ast.parse(formula, mode="eval")) if isinstance(n, ast.Call)}


def parse_sig(text, fail):
    left, _, right = text.partition("->")
    if not right.strip():
        fail("sig has no '-> outputs'")
    params, kwonly = [], False
    for part in (s.strip() for s in re.split(r",(?![^(\[]*[)\]])", left) if s.strip()):
        if part == "*":
            kwonly = True
            continue
        m = re.fullmatch(r"(\w+)(?::(\w+))?(?:\s*=\s*(.+))?", part)
        if not m:
            fail(f"cannot read parameter {part!r}")
        name, kind, default = m.groups()
        kind = {None: "t", "bool": "mask"}.get(kind, kind)
        if kind not in TENSOR_TYPES + ARG_TYPES:
            fail(f"unknown parameter type {kind!r}")
        params.append(Param(name, kind, default, kwonly))
    outputs = [o.strip() for o in right.split(",")]
    return params, outputs


def parse_row(name, file, raw):
    def fail(reason):
        raise TableError(f"{file}.toml [{name}]: {reason}")

    unknown = set(raw) - KEYS
    if unknown:
        fail(f"unknown keys {sorted(unknown)}")
    if "sig" not in raw or "doc" not in raw:
        fail("sig and doc are required")
    bodies = [k for k in ("fwd", "kernel", "into", "meta", "tensor", "hand") if k in raw]
    if len(bodies) != 1:
        fail(f"exactly one of fwd, kernel, into, meta, tensor, hand is wanted, got {bodies}")
    params, outputs = parse_sig(raw["sig"], fail)
    fwd = {k[4:]: raw[k] for k in ("fwd", "fwd_bool", "fwd_int", "fwd_complex") if k in raw}
    default_api = "function method inplace out" if fwd else "function method"
    optional = ("out", "promote", "kernel", "into", "meta", "tensor", "hand", "nondiff", "alpha", "guard", "refusal",
                "layout", "overload", "returns", "batch", "autocast")
    return Row(name=name, file=file, params=params, outputs=outputs, types=raw.get("types", "all"), fwd=fwd,
               grad=raw.get("grad", {}), let=raw.get("let", {}), jvp=raw.get("jvp", {}),
               node=raw.get("node", camel(name)),
               py=raw.get("py", {}),
               api=tuple(raw.get("api", default_api).split()), doc=raw["doc"], test=raw.get("test", {}),
               alias=tuple(raw.get("alias", "").split()), fused=raw.get("fused", file != RARE),
               linked=raw.get("linked", False),
               factors=raw.get("factors", {}),
               **{key: raw.get(key) for key in optional})


def load(folder=TABLE):
    """All rows in table order, as a dict by name."""
    rows = {}
    for path in sorted(Path(folder).glob("*.toml")):
        with open(path, "rb") as f:
            data = tomllib.load(f)
        for name, raw in data.items():
            if name in rows:
                raise TableError(f"{path.name} [{name}]: already in {rows[name].file}.toml")
            rows[name] = parse_row(name, path.stem, raw)
    if not rows:
        raise TableError(f"there is no op table in {folder}")
    return rows
