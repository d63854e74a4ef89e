"""All checks of one row: torch's own samples and drawn layouts, in every form of the call, with gradients."""

import itertools
import random
import re
import warnings
from dataclasses import dataclass, field

import compare
import forward
import numpy as np
import snippets
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from tensors import (
    DTYPES,
    LAYOUTS,
    Lacking,
    Recipe,
    dtype_name,
    laid_out,
    leaves,
    make,
    recipe,
    recipes,
    shrunk,
    to_torch,
    walk,
    with_special,
)
from torch.testing._internal.opinfo.core import OpInfo
from translate import by_path, spelled, translate

import cygrad

LIBS = (torch, cygrad)
WITH_GRADIENT = {"float32": 1, "float64": 2, "complex64": 1, "complex128": 2}      # dtype -> order
SHORT = 2000        # a program of more characters gives way to a shorter one for the same difference
MAX_SAMPLES, MAX_GRADIENTS, MAX_FORMS, MAX_NUMEL = 60, 20, 8, 100_000

# Rows of which PyTorch 2.13 writes outside a transposed `out`.
CORRUPTING = {"lu_unpack", "linalg.lu"}
# Rows of which PyTorch 2.13 reads outside an expanded input: median(tensor([5., 1.]).expand(3, 2), 0) holds garbage.
# So is the gradient of batch_norm, of an expanded weight, which is read as if it were row-major.
# And expanded offsets of bags do not end at the last index any more, of which its sums and maxima think differently.
READING_ASTRAY = {"median", "nanmedian", "nn.functional.batch_norm", "nn.functional.embedding_bag"}
# Rows whose vectors are defined up to a phase; what the phases must not change is compared through the gradients.
UP_TO_PHASE = {"svd", "linalg.svd", "linalg.eigh"}
# Rows whose elements are random, or whatever was in memory: dtype, shape and strides are compared, no values.
UNDEFINED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
# Rows whose results are places, which may be others of equal elements; where `dim` stands among the arguments.
TIES = {"sort": 1, "argsort": 1, "topk": 2, "kthvalue": 2, "median": 1, "nanmedian": 1, "mode": 1}
ELEMENTWISE = ("elementwise, one input", "elementwise, two and more inputs")
# Rows of which PyTorch 2.13 itself writes outside the memory of an `out` that is not row-major, and ends in free().
OUT_OF_BOUNDS = {"tril", "triu"}
# Rows of which PyTorch 2.13 writes other numbers to a transposed `out`, or refuses it.
MISLAID = {"nn.functional.gelu", "nn.functional.avg_pool3d", "nn.functional.linear"}
# Rows in which PyTorch's gradient is NaN: it does not find the largest modulus again, which it rounded in another way.
ASTRAY = {("renorm", "complex64")}
# Errors of PyTorch 2.13 that are no answer: views that it takes, and that refuse other layouts.
NO_ANSWER = dict.fromkeys(
    ("kron", *(f"nn.functional.max_unpool{n}d{grad}" for n in "123" for grad in ("", ".grad"))),
    "view size is not compatible",
)
# Errors of ours where PyTorch 2.13 has no answer: results without elements are empty in one of its ways to compute them
# and an error in the other, and repeating nothing gives whatever was in memory.
NOT_ASKED = {
    "nn.functional.conv_transpose1d": "the result would have size 0",
    "nn.functional.conv_transpose2d": "the result would have size 0",
    "nn.functional.conv_transpose3d": "the result would have size 0",
    "nn.functional.pad.circular": "leaves nothing of dimension",
}
# Windows that lie in the padding have no largest element: -1 here, in PyTorch 2.13 a place outside of them.
IN_PADDING = "result value: -1 instead of"
# A complex 0 to the power of a 0 in a tensor is 1 here, as in NumPy; PyTorch 2.13 gives NaN, but 1 for 0 as a number.
POWERS, ZERO_TO_ZERO = ("pow", "float_power", "__rpow__"), "result value: (1+0j) instead of (nan+nanj)"
# Gradients of means of nothing, and of norms of nothing, are 0 here, in PyTorch 2.13 mostly NaN.
NAN_OF_NOTHING = re.compile(r"gradient of value: -?0\.0 instead of nan")
# Sections in which rounding is relative to the largest element and grows with the size of the problem.
ROUNDED = {"linear algebra": 20, "reductions and scans": 4, "softmax and activations": 4}


@dataclass
class Form:
    """One way to call the operation."""

    name: str
    theirs: object
    ours: object = None
    lacking: str = ""
    clone_first: bool = False


@dataclass
class Tally:
    """Outcome of a row's checks for one dtype."""

    cases: int = 0
    differs: int = 0
    reasons: dict = field(default_factory=dict)     # kind of difference -> [count, message, snippet]

    def add(self, form, message, snippet):
        self.differs += 1
        kind = f"{form}: {message.split(':')[0]}"
        entry = self.reasons.setdefault(kind, [0, f"{form}: {message}", None])
        entry[0] += 1
        if entry[2] is None or len(entry[2]) > SHORT:
            entry[2] = min(entry[2] or snippet(), snippet(), key=len)


def form(name, theirs, **more):
    try:
        return Form(name, theirs, translate(theirs), **more)
    except Lacking as lack:
        return Form(name, theirs, lacking=str(lack), **more)


def forms(info):
    """Every form that torch has, function first."""
    made = [form("function", info.op)]
    if info.method_variant is not None and not spelled(info.op).startswith("(lambda"):
        made.append(form("method", info.method_variant))
    made += [form(f"alias {a.name}", a.op) for a in info.aliases]
    if info.inplace_variant is not None:
        made.append(form("in place", info.inplace_variant, clone_first=True))
    if info.operator_variant is not None:
        made.append(form("operator", info.operator_variant))
    if info.inplace_operator_variant is not None:
        made.append(form("operator in place", info.inplace_operator_variant, clone_first=True))
    return made


class Checker:
    """The checks of one row and dtype, counted in a tally."""

    def __init__(self, row, section, info, dtype, seed):
        self.row, self.section, self.info, self.dtype, self.seed = row, section, info, dtype, seed
        self.tally = Tally()
        self.content = row not in UNDEFINED and not section.startswith("random")
        self.scale = ROUNDED.get(section, 4 if row.startswith("nn.functional.conv") else 1)
        self.order = WITH_GRADIENT.get(dtype, 0) if info.supports_autograd and self.content else 0
        if (row, dtype) in ASTRAY:
            self.order = 0
        self.strides = True         # whether layouts count, and kinds of errors
        self.wrapped = info.gradcheck_wrapper is not OpInfo.gradcheck_wrapper

    def samples(self):
        """Torch's samples as recipes: (arguments, keywords), the sample itself."""
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        np.random.seed(self.seed % 2**32)       # noqa: NPY002 - torch's samples use it
        grad = self.order > 0
        every = list(itertools.islice(self.info.sample_inputs("cpu", getattr(torch, self.dtype), grad), 1000))
        chosen = []
        for sample in spread(every, MAX_SAMPLES):
            tree = ((sample.input, *sample.args), sample.kwargs)
            if sum(t.numel() for t in leaves(tree, torch.Tensor)) <= MAX_NUMEL:
                chosen.append((recipes(tree, {}), sample))
        return chosen

    def run(self, examples):
        all_forms = forms(self.info)
        if all_forms[0].lacking:
            return None
        samples = self.samples()
        for tree, sample in samples:
            self.call(all_forms[0], tree, sample)
        for tree, sample in spread(samples, MAX_GRADIENTS) if self.order else []:
            self.gradients(all_forms[0], tree, sample)
        for tree, sample in spread(samples, MAX_FORMS):
            for other in all_forms[1:]:
                self.call(other, tree, sample)
                if other.clone_first and self.order:
                    self.gradients(other, tree, sample)
            if self.info.supports_out:
                self.out(all_forms[0], tree)
        self.errors(all_forms[0])
        if samples:
            self.drawn(all_forms, samples, examples)
        return self.tally

    # ---- one call

    def call(self, f, tree, sample=None):
        """Compare results, memory and what became of the inputs."""
        if f.clone_first and (sample is None or sample.broadcasts_input):
            return
        self.tally.cases += 1
        tree = detached(tree)
        difference = f"lacks it: {f.lacking}" if f.lacking else self.difference(f, tree)
        if difference:
            self.tally.add(f.name, difference, lambda: snippets.call(f.theirs, tree))

    def difference(self, f, tree, exact=True):
        theirs, their_inputs = attempt(torch, f.theirs, tree)
        if any(getattr(x, "dtype", None) is torch.complex32 for x in compare.flat(theirs)):
            return None                                 # a dtype out of scope
        try:
            ours, our_inputs = attempt(cygrad, f.ours, tree)
        except Lacking as lack:
            return None if str(lack).startswith("sparse") else f"lacks {lack}: not there yet"   # sparse is out of scope
        if isinstance(theirs, Exception) or isinstance(ours, Exception):
            if self.no_answer(theirs, ours) or (isinstance(theirs, Exception) and not self.strides):
                return None                 # what is wrong with tensors cut to nothing is told in any order
            return compare.errors(theirs, ours)
        ties = self.ties(tree, their_inputs)
        difference = self.results(theirs, ours, ties)
        if difference and self.row.startswith("nn.functional.max_pool") and difference.startswith(IN_PADDING):
            return None
        if difference and self.row in POWERS and difference.startswith(ZERO_TO_ZERO):
            return None
        if difference and difference.startswith("result value: ") and self.content:
            return self.by_double(f, tree, theirs, ours, difference)
        return difference or self.memory(theirs, ours, their_inputs, our_inputs, ties, exact)

    def no_answer(self, theirs, ours):
        """Whether the error of one library says that there is nothing to compare with."""
        return any(
            isinstance(answer, Exception) and self.row in table and table[self.row] in str(answer)
            for table, answer in ((NO_ANSWER, theirs), (NOT_ASKED, ours))
        )

    def by_double(self, f, tree, theirs, ours, difference):
        """None where PyTorch's double precision agrees with ours: the digits that it loses in less are no measure."""
        whole = self.section in ELEMENTWISE             # elsewhere whole numbers are places, as often as not
        doubled = compare.flat(attempt(torch, f.theirs, walk(tree, lambda x: in_double(x, whole)))[0])
        theirs, ours = compare.flat(theirs), compare.flat(ours)
        if len(doubled) != len(theirs):
            return difference
        for t, o, d in zip(theirs, ours, doubled, strict=True):
            if not isinstance(t, torch.Tensor):
                continue
            if not isinstance(d, torch.Tensor) or d.shape != t.shape:
                return difference
            if compare.tensors(d.detach().to(t.dtype), o, strides=False, scale=self.scale):
                return difference
        return None

    def ties(self, tree, inputs):
        """Where equal elements may come in any order: the tensor that results are places in, and the dimension."""
        args, kwargs = tree
        if self.row not in TIES or kwargs.get("stable"):
            return None
        place = TIES[self.row]
        return inputs[0], kwargs.get("dim", args[place] if len(args) > place else -1)

    def results(self, theirs, ours, ties=None):
        difference = compare.structure(theirs, ours)
        if difference:
            return difference
        for i, (t, o) in enumerate(zip(compare.flat(theirs), compare.flat(ours), strict=True)):
            if isinstance(t, torch.Tensor):
                if not isinstance(o, cygrad.Tensor):
                    return f"type: a {type(o).__name__} instead of a tensor"
                turned = self.row in UP_TO_PHASE
                difference = compare.tensors(t, o, strides=self.strides, content=self.content and not turned,
                                             scale=self.scale, ties=ties)
                if not difference and turned:
                    count, dim = theirs[-2].shape[-1], -2 if (self.row, i) == ("linalg.svd", 2) else -1
                    t, o = (x.narrow(dim, 0, count) if i != len(theirs) - 2 else x for x in (t, o))
                    difference = compare.tensors(t.abs(), o.abs(), strides=False, scale=self.scale)
            elif self.content:
                difference = compare.numbers_(t, o)
            if difference:
                return difference
        return None

    def memory(self, theirs, ours, their_inputs, our_inputs, ties, exact):
        difference = compare.aliasing(compare.flat(theirs), compare.flat(ours), their_inputs, our_inputs, exact)
        if difference or not self.content or self.row in UP_TO_PHASE:
            return difference
        for i, (t, o) in enumerate(zip(their_inputs, our_inputs, strict=True)):
            difference = compare.tensors(t, o, scale=self.scale, ties=ties, what=f"input {i} afterwards")
            if difference:
                return difference
        return None

    # ---- out=

    def out(self, f, tree):
        """Results written to a tensor of the right shape, to a transposed one and to one that has to grow."""
        tree = detached(tree)
        args, kwargs = tree
        if "out" in kwargs:
            return
        theirs, _ = attempt(torch, f.theirs, tree)
        parts = compare.flat(theirs)
        if not all(isinstance(p, torch.Tensor) for p in parts):
            return
        for layout in ("contiguous", "transposed", "empty", "other dtype"):
            if layout == "transposed" and self.row in OUT_OF_BOUNDS | CORRUPTING | MISLAID:
                continue
            outs = tuple(out_recipe(p, layout) for p in parts)
            call = (args, kwargs | {"out": outs if isinstance(theirs, tuple | list) else outs[0]})
            self.tally.cases += 1
            difference = self.difference(f, call, exact=False)
            if difference:
                self.tally.add("out=", f"{difference} (out: {layout})", lambda call=call: snippets.call(f.theirs, call))

    # ---- gradients

    def gradients(self, f, tree, sample):
        """Compare first and second gradients for random gradients of the results."""
        inputs = [r for r in leaves(tree, Recipe) if r.requires_grad]
        if not inputs or f.lacking or (f.clone_first and sample.broadcasts_input):
            return
        self.tally.cases += 1
        try:
            found = self.both_derivatives(f, tree, sample, self.order)
            if isinstance(found[0], NotImplementedError) and self.order > 1:    # PyTorch has no second derivative here
                found = self.both_derivatives(f, tree, sample, 1)
        except Lacking as lack:
            self.tally.add(f.name, f"lacks {lack}: not there yet", lambda: snippets.call(f.theirs, tree))
            return
        coarse = self.dtype == "float64" and any(r.flat.dtype == torch.float32 for r in inputs)    # weights, say
        difference = self.gradient_difference(*found, 200 if coarse else 1)
        if difference and difference.startswith("first gradient of value: ") and self.dtype in ("float32", "complex64"):
            difference = self.gradient_by_double(f, tree, sample, found[1], difference)
        if difference and self.row in TIES and "gradient of value: " in difference and self.other_places(f, tree):
            return
        if not difference and not isinstance(found[1], Exception) and self.dtype in ("float64", "complex128"):
            difference = self.forward_difference(f, tree, sample)
        if difference and NAN_OF_NOTHING.search(difference) and any(0 in r.size for r in inputs):
            return
        if difference:
            self.tally.add(f.name, difference, lambda: snippets.gradients(f, tree, self.order))

    def gradient_by_double(self, f, tree, sample, ours, difference):
        """None where the gradients of PyTorch's double precision agree with ours, as by_double for results."""
        process = sample.output_process_fn_grad if sample is not None else lambda x: x
        function = Wrapped(f.theirs, self.info.gradcheck_wrapper, f.clone_first)
        try:
            doubled = derivatives(torch, function, process, walk(tree, in_double), 1, single_like)["first"]
        except Exception:
            return difference
        for d, o in zip(doubled, ours["first"], strict=True):
            if compare_gradients(d if d is None or o is None else d.to(to_torch(o).dtype), o, 5 * self.scale):
                return difference
        return None

    def other_places(self, f, tree):
        """Whether the results are other places of equal elements than PyTorch's, to which then other gradients go."""
        (theirs, inputs), (ours, _) = (
            attempt(lib, g, detached(tree)) for lib, g in zip(LIBS, (f.theirs, f.ours), strict=True))
        theirs, ours = compare.flat(theirs), compare.flat(ours)
        return (self.results(theirs, ours, self.ties(tree, inputs)) is None
                and any(t.dtype == torch.int64 and not torch.equal(t, to_torch(o))
                        for t, o in zip(theirs, ours, strict=True)))

    def both_derivatives(self, f, tree, sample, order):
        process = sample.output_process_fn_grad if sample is not None else lambda x: x
        found = []
        for lib, function in zip(LIBS, (f.theirs, f.ours), strict=True):
            wrapper, after = self.info.gradcheck_wrapper, process
            if lib is cygrad:
                wrapper, after = translate(wrapper), translate(after)
            try:
                found.append(derivatives(lib, Wrapped(function, wrapper, f.clone_first), after, tree, order))
            except Lacking:
                raise
            except Exception as error:
                found.append(error)
        return found

    def forward_difference(self, f, tree, sample):
        process = translate(sample.output_process_fn_grad) if sample is not None else lambda x: x
        function = Wrapped(f.ours, translate(self.info.gradcheck_wrapper), f.clone_first)
        try:
            return forward.difference(function, process, tree, random_like, self.order)
        except Exception as error:
            return f"forward mode raises {type(error).__name__}: {error}"

    def gradient_difference(self, theirs, ours, scale):
        if isinstance(theirs, Exception) or isinstance(ours, Exception):
            if self.no_answer(theirs, ours) or (isinstance(theirs, Exception) and not self.strides):
                return None
            difference = compare.errors(theirs, ours)
            return difference and f"gradient {difference}"
        if theirs["requires"] != ours["requires"]:
            return f"gradient: requires_grad of the results {ours['requires']} instead of {theirs['requires']}"
        for order in ("first", "second"):
            for i, (t, o) in enumerate(zip(theirs[order], ours[order], strict=True)):
                difference = compare_gradients(t, o, scale * self.scale * (5 if order == "first" else 20))
                if difference:
                    return f"{order} gradient {difference} (input {i})"
        return None

    # ---- bad input

    def errors(self, f):
        """What torch itself lists as wrong calls."""
        if self.info.error_inputs_func is None or self.dtype != "float32":
            return
        try:
            every = list(itertools.islice(self.info.error_inputs("cpu"), 200))
        except Exception:
            return
        for error in every:
            sample = error.sample_input
            if any(t.device.type != "cpu" for t in leaves(((sample.input, *sample.args), sample.kwargs), torch.Tensor)):
                continue
            self.call(f, recipes(((sample.input, *sample.args), sample.kwargs), {}), sample)

    # ---- layouts

    def drawn(self, all_forms, samples, examples):
        """Samples in layouts and with values that hypothesis draws."""
        elementwise = self.section in ELEMENTWISE
        expanded = self.section != "linear algebra" and self.row not in READING_ASTRAY
        # Of nothing, PyTorch's attention gives queries back, its margins and bags give what was in memory, and pdist
        # crashes. With one class, its CTC loss looks labels up, and writes gradients, outside of the scores.
        unsure = ("scaled_dot_product_attention", "multi_margin_loss", "multilabel_margin_loss", "embedding_bag",
                  "ctc_loss", "pdist")
        odd = self.section == "nn.functional" and not self.row.endswith(unsure)
        cuts = st.sampled_from([None, (0, 0), (0, 1), (-1, 0), (-1, 1)])
        layouts = LAYOUTS if expanded else tuple(x for x in LAYOUTS if x != "expanded")

        @hypothesis_seed(self.seed)
        @settings(max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck))
        @given(st.data())
        def one(data):
            tree, sample = samples[data.draw(st.integers(0, len(samples) - 1))]
            shape = data.draw(st.sampled_from([None, None, None, None, (), (0,), (2, 0)])) if elementwise else None
            picks = data.draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=4))

            cut = data.draw(cuts) if odd else None

            def arranged(x):
                if not isinstance(x, Recipe):
                    return x
                if shape is not None:
                    return shrunk(x, shape)
                if cut is not None:
                    x = narrowed(x, tree, *cut)
                x = laid_out(x, data.draw(st.sampled_from(layouts)))
                return with_special(x, picks) if elementwise else x

            arranged_tree = walk(tree, arranged)
            chosen = data.draw(st.sampled_from([all_forms[0], all_forms[0], *all_forms]))
            self.strides = cut is None          # sizes of 1 leave open which layout an input has
            if not chosen.lacking:
                self.call(chosen, arranged_tree, sample)
                if self.order and not picks and data.draw(st.integers(0, 3)) == 0:
                    self.gradients(chosen, arranged_tree, sample)

        one()


def narrowed(r, tree, dim, length):
    """The recipe with no or one element along a dimension, if that is as long as the first tensor's: its batch, say."""
    first = leaves(tree, Recipe)[0]
    if len(first.size) < (1 if dim == 0 else 3) or not r.size:
        return r
    if r.size[dim] != first.size[dim] or first.size[dim] <= length:
        return r
    made = recipe(r.values().narrow(dim, 0, length), {})
    made.requires_grad = r.requires_grad
    return made


def spread(items, count):
    """At most ``count`` of the items, evenly over the whole list."""
    return items if len(items) <= count else [items[i * len(items) // count] for i in range(count)]


def detached(tree):
    return walk(tree, lambda x: Recipe(x.flat, x.size, x.stride, x.offset, False) if isinstance(x, Recipe) else x)


def out_recipe(result, layout):
    result = result.detach()
    if layout == "empty":
        out = result.new_zeros(0)
    elif layout == "transposed":
        out = torch.zeros(tuple(result.shape)[::-1], dtype=result.dtype)
        out = out.permute(tuple(range(result.dim()))[::-1])
    elif layout == "other dtype":
        out = torch.zeros(result.shape, dtype=torch.int64 if result.dtype != torch.int64 else torch.float32)
    else:
        out = torch.zeros(result.shape, dtype=result.dtype)
    return recipes(out, {})


def in_double(x, whole=False):
    """A recipe of numbers, or a dtype that results are to have, in double precision; whole ones if asked for."""
    if isinstance(x, torch.dtype):
        return torch.complex128 if x.is_complex else torch.float64 if x.is_floating_point else x
    if not isinstance(x, Recipe) or x.dtype is torch.bool:
        return x
    if not (whole or x.dtype.is_floating_point or x.dtype.is_complex):
        return x
    wide = torch.complex128 if x.dtype.is_complex else torch.float64
    return Recipe(x.flat.to(wide), x.size, x.stride, x.offset, x.requires_grad)


def attempt(lib, f, tree):
    """The result or the exception, and the tensors that went in."""
    inputs = []
    try:
        args, kwargs = make(lib, tree)
        inputs = leaves((args, kwargs), lib.Tensor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f(*args, **kwargs), inputs
    except Lacking:
        raise
    except Exception as error:
        return error, inputs


@dataclass
class Wrapped:
    """The function as its gradient is meant: of symmetric matrices only, say; in place on a copy of the leaf."""

    function: object
    wrapper: object
    clone_first: bool

    def __call__(self, *args, **kwargs):
        if self.clone_first:
            args = (args[0].clone(), *args[1:])
        return self.wrapper(self.function, *args, **kwargs)


def random_like(lib, tensor, number):
    values = torch.randn(tuple(tensor.shape), dtype=getattr(torch, dtype_name(tensor.dtype)),
                         generator=torch.Generator().manual_seed(number))
    return make(lib, recipes(values, {})).requires_grad_()


def single_like(lib, tensor, number):
    """The numbers that random_like draws for a tensor of half the precision."""
    single = torch.complex64 if tensor.is_complex() else torch.float32
    return random_like(lib, tensor.to(single), number).to(tensor.dtype)


def differentiable(lib, x):
    return isinstance(x, lib.Tensor) and x.requires_grad


def derivatives(lib, f, process, tree, order, like=random_like):
    """Gradients of the first and second order with respect to every leaf, and to the gradients given."""
    args, kwargs = make(lib, tree)
    inputs = [x for x in leaves((args, kwargs), lib.Tensor) if x.requires_grad]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = compare.flat(process(f(*args, **kwargs)))
        outputs = [x for x in results if differentiable(lib, x)]
        found = {"requires": [differentiable(lib, x) for x in results], "first": [], "second": []}
        if not outputs:
            return found
        given_ = [like(lib, x, i) for i, x in enumerate(outputs)]
        more = {"create_graph": order > 1, "allow_unused": True}
        found["first"] = list(lib.autograd.grad(outputs, inputs, given_, **more))
        again = [x for x in found["first"] if x is not None and x.requires_grad]
        if order > 1 and again:
            weights = [random_like(lib, x, 100 + i).detach() for i, x in enumerate(again)]
            found["second"] = list(lib.autograd.grad(again, inputs + given_, weights, allow_unused=True))
        elif order > 1:
            found["second"] = [None] * (len(inputs) + len(given_))
    return found


def compare_gradients(theirs, ours, scale):
    """None and zeros are the same gradient."""
    if theirs is None or ours is None:
        other = ours if theirs is None else theirs
        if other is None:
            return None
        other = to_torch(other) if theirs is None else other.detach()
        small = 1e-3 if other.element_size() < 8 else 1e-9
        if not other.numel() or other.abs().max() <= small:
            return None
        return f"value: None instead of {other}" if ours is None else f"value: {other} instead of None"
    largest = theirs.detach().abs()
    largest = largest[largest.isfinite()]
    scale *= max(1.0, largest.max().item()) if largest.numel() else 1.0
    return compare.tensors(theirs, ours, strides=False, scale=scale, what="of")


def lacking(info):
    try:
        translate(info.op)
    except Lacking as lack:
        return str(lack)
    path = getattr(info.op, "__name__", "")
    if path == "<lambda>":
        # A lambda of the samples calls a method: whether we have it shows by calling it.
        lacks = []
        for owner, name in ((cygrad, info.name), (cygrad.Tensor, info.name), (cygrad.Tensor, info.name + "_")):
            try:
                by_path(owner, name)
                return ""
            except Lacking as lack:
                lacks.append(str(lack))
        return lacks[0]
    return ""


def check_row(row, section, infos, dtypes, seed, examples):
    """The tallies of a row by dtype; None instead of them if cygrad has no such function."""
    tallies, info = {}, infos[0]
    lack = lacking(info)
    if lack:
        return {"status": "missing", "reason": lack, "dtypes": {}}
    supported = {dtype_name(d) for d in info.supported_dtypes("cpu")}
    for dtype in DTYPES:
        if dtype in supported and (not dtypes or dtype in dtypes):
            tallies[dtype] = vars(Checker(row, section, info, dtype, seed).run(examples))
    differs = sum(t["differs"] for t in tallies.values())
    return {"status": "differs" if differs else "ok", "reason": "", "dtypes": tallies}
