"""One program on two libraries, step by step, and what is different between them."""

import contextlib
import importlib
import io
import itertools
import re
import sys
import types
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Errors of these kinds must be of the same kind in both libraries; of others the type is enough.
KINDS = (
    "a leaf Variable that requires grad",
    "a view of a leaf Variable that requires grad",
    "(?:A view was|a view that was) created in no_grad mode",
    "(?:being|been) modified inplace",
    "modified by an inplace operation",
    "backward through the graph a second time",
    "does not require grad|on Tensor that has requires_grad=False",
    "appears to not have been used in the graph",
    "can be implicitly created only for scalar",
    "refer to a single memory location",
    "can only change requires_grad flags of leaf",
    "only Tensors of floating point",
    "Can't detach views",
    "cannot register a hook",
    "an invalid gradient at index",
    "an incorrect number of gradients",
    "once_differentiable",
    "post accumulate grad hooks",
    "can't assign",
    "assigned grad",
    "only supports the deepcopy protocol|Only Tensors created explicitly by the user",
    "no gradient today",
    "out=\\.\\.\\. arguments don't support automatic differentiation",
    "[Ii]nference",
)
# Of these, a call may tell another fault that it has as well: which one comes first is nobody's promise.
OVERWRITTEN = KINDS[4]
REFUSALS = {
    *KINDS[:4],
    "refer to a single memory location",
    "can only change requires_grad flags of leaf",
    "[Ii]nference",
    "out=\\.\\.\\. arguments don't support automatic differentiation",
}
# After these, PyTorch's tensors are in a state that nothing promises: the program ends there.
BROKEN = re.compile(
    "Inplace update to inference tensor outside InferenceMode"  # it has written before it looked
    "|INTERNAL ASSERT FAILED"
)
KIND_PATTERNS = [re.compile(k) for k in KINDS]


def kind_of_error(error):
    if error is None:
        return None
    text = str(error)
    for k, pattern in enumerate(KIND_PATTERNS):
        if pattern.search(text):
            return KINDS[k]
    return None


# PyTorch numbers its overloads, and gives some operations a name of their own that are a case of another here.
DIGITS = re.compile(r"(?<=Backward)\d+$")
SAME_NODE = {
    "ClampMinBackward": "ClampBackward",
    "ClampMaxBackward": "ClampBackward",
    "ZeroBackward": "CopyBackward",
    "FillBackward": "CopyBackward",
    "CloneBackward": "CopyBackward",
    "DivBackward": "MulBackward",
    "CopyBackwards": "CopyBackward",
    "RsubBackward": "SubBackward",
    "AliasBackward": "SliceBackward",
}


# Operations of PyTorch that are compositions here: the last of their parts gives the name.
COMPOSED = {
    "MedianBackward",
    "CumsumBackward",
    "CumprodBackward",
}


def node_name(node):
    if node is None:
        return None
    name = DIGITS.sub("", node.name().removeprefix("torch::autograd::"))
    return SAME_NODE.get(name, name)


def other_names(a, b):
    same = b == "UnsafeViewBackward" and a in ("CopyBackward", "TransposeBackward")  # a product that is transposed back
    return isinstance(a, str) and isinstance(b, str) and (same or a in COMPOSED or b in COMPOSED)


def strides(t):
    """The strides that mean something: of an axis of one element, or of no elements at all, there is none."""
    return tuple(s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1) if t.numel() else None


class Side:
    """One library: the namespace of the program, and what can be seen of it."""

    prelude = compile((HERE / "prelude.py").read_text(), str(HERE / "prelude.py"), "exec")

    def __init__(self, library):
        self.library = importlib.import_module(library)
        module = types.ModuleType(f"prelude_{library}")  # classes of a module of their own, which pickle can find
        sys.modules[module.__name__] = module
        self.fresh = module.__dict__
        before = sys.modules.get("torch")
        sys.modules["torch"] = self.library  # the prelude's `import torch`
        try:
            exec(self.prelude, self.fresh)
        finally:
            if before is None:
                del sys.modules["torch"]
            else:
                sys.modules["torch"] = before
        self.tensor = self.library.Tensor
        self.log = self.fresh["log"]
        self.reset()

    def reset(self):
        self.space = dict(self.fresh)
        self.log.clear()
        self.library.set_grad_enabled(True)

    def run(self, code):
        """None, or the error."""
        try:
            exec(code, self.space)
        except Exception as error:
            error.__traceback__ = None
            return error
        return None

    def variables(self):
        mine = itertools.islice(self.space.items(), len(self.fresh), None)  # after all names of the prelude
        return [(name, t) for name, t in mine if name[0] == "v"]

    def state(self, graph):
        """Name -> everything that a user can see of a variable. graph: with what reading may bring up to date."""
        found = self.variables()
        names, places, states = {}, {}, {}
        for name, t in found:
            names.setdefault(id(t), name)
        for name, t in found:
            states[name] = self.tensor_state(t, names, places, name, graph) if isinstance(t, self.tensor) else t
        return states

    def tensor_state(self, t, names, places, name, graph):
        base = t._base
        state = {
            "same object as": names[id(t)],
            "shape": tuple(t.shape),
            "stride": strides(t),
            "offset": t.storage_offset() if t.numel() else None,
            "dtype": str(t.dtype),
            "requires_grad": t.requires_grad,
            "values": t.detach().tolist(),
            "memory of": self.place(t, places, name),
            "retains_grad": t.retains_grad,
            "_base": None if base is None else names.get(id(base), tuple(base.shape)),
            "version": self.version(t),
        }
        if graph:
            try:
                node = t.grad_fn
                state["grad_fn"] = node_name(node)
                state["is_leaf"], state["output_nr"] = t.is_leaf, t.output_nr
            except RuntimeError as error:
                kind = kind_of_error(error)
                state["grad_fn"] = (type(error).__name__, "refused" if kind in REFUSALS else kind)
        with contextlib.suppress(RuntimeError):  # a view that cannot be taken again has no answer to is_leaf
            if t.retains_grad or not t.requires_grad or (graph and t.is_leaf):
                state["grad"] = self.grad_state(t.grad, places, name)
        return state

    @staticmethod
    def version(t):
        try:
            return t._version
        except RuntimeError as error:
            return type(error).__name__

    @staticmethod
    def place(t, places, name):
        """The first variable whose memory this is."""
        return places.setdefault(t.untyped_storage().data_ptr(), name) if t.numel() else None

    def grad_state(self, g, places, name):
        if g is None:
            return None
        return {
            "shape": tuple(g.shape),
            "dtype": str(g.dtype),
            "values": g.detach().tolist(),
            "memory of": self.place(g, places, f"{name}.grad"),
            "stride": strides(g),
            # one of no elements depends on nothing
            "requires_grad": g.requires_grad and g.numel() > 0,
            "leaf": g.grad_fn is None or g.numel() == 0,
        }


def close(a, b, scale):
    """Whether two values (nested) agree up to rounding. scale: the largest number around."""
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(close(x, y, scale) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(close(a[k], b[k], scale) for k in a)
    if isinstance(a, float | complex) and isinstance(b, float | complex):
        if a == b or (a != a and b != b):
            return True
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b)) + 1e-7 * scale
    return type(a) is type(b) and a == b


def largest(value):
    """The largest finite number in a nested value."""
    if isinstance(value, list | tuple):
        return max(map(largest, value), default=0.0)
    if isinstance(value, dict):
        return max(map(largest, value.values()), default=0.0)
    if isinstance(value, float | complex):
        size = abs(value)
        return size if size < float("inf") else 0.0
    return 0.0


class Difference:
    """Where two libraries disagree: the step, what was compared, both values."""

    def __init__(self, step, line, what, torch, cygrad):
        self.step, self.line, self.what, self.torch, self.cygrad = step, line, what, torch, cygrad

    @property
    def kind(self):
        """Failures of one kind have one cause, roughly: what differs, after what call."""
        call = re.sub(r"\bv\d+\b", "v", re.sub(r"-?\d+(\.\d+)?", "0", self.line))
        call = re.sub(r"(0, )+0|\(0,\)", "0", call)
        return f"{self.what}: {call}"

    @property
    def sort(self):
        """What a smaller program must keep: what differs, and the types of errors."""
        if "error" not in self.what:
            return self.what
        return self.what, *(str(x).partition(":")[0] for x in (self.torch, self.cygrad))

    def __str__(self):
        margin = " " * len(self.what)
        return (
            f"after step {self.step}, `{self.line}`\n"
            f"  {self.what}: torch has {self.torch}\n  {margin}  cygrad has {self.cygrad}"
        )


class Pair:
    """torch and cygrad, side by side."""

    def __init__(self):
        warnings.simplefilter("ignore")
        self.on_step = lambda side: None  # called before a library runs, by those who look for crashes
        self.torch, self.cygrad = Side("torch"), Side("cygrad")
        self.torch.library.set_num_threads(1)
        self.reset()

    def reset(self, watch=True):
        """watch: look after every step, which brings views up to date; else only at the end."""
        self.torch.reset()
        self.cygrad.reset()
        self.watch, self.steps, self.scale, self.inexact, self.over = watch, 0, 1.0, False, False

    def step(self, line, last=False):
        """Runs a line on both: the Difference, or None."""
        code = compile(line, "<step>", "exec")
        self.on_step("torch")
        theirs = self.torch.run(code)
        if isinstance(theirs, NameError):
            return None  # the line that made this variable was taken out, or failed
        self.on_step("cygrad")
        ours = self.cygrad.run(code)
        self.steps += 1
        if BROKEN.search(str(theirs)) and (ours is not None or "ASSERT" in str(theirs)):
            self.over = True
            return None
        return self.differs(line, theirs, ours, last)

    def differs(self, line, theirs, ours, last):
        def difference(what, a, b):
            return Difference(self.steps, line, what, a, b)

        a, b = kind_of_error(theirs), kind_of_error(ours)
        refused = theirs is not None and ours is not None and {a, b} & REFUSALS
        if type(theirs).__name__ != type(ours).__name__ and not refused:
            return difference("error", *(x and f"{type(x).__name__}: {str(x)[:300]}" for x in (theirs, ours)))
        if a != b and {a, b} - {None, OVERWRITTEN if refused else None} - REFUSALS:
            return difference("kind of error", str(theirs)[:300], str(ours)[:300])
        if (what := self.unlike(self.torch.log, self.cygrad.log)) is not None:
            return difference("calls", *what)
        self.torch.log.clear()
        self.cygrad.log.clear()
        if not (self.watch or last):
            return None
        ours = self.cygrad.state(True)
        self.on_step("torch")
        theirs = self.torch.state(True)
        if ours == theirs:
            return None
        if theirs.keys() != ours.keys():
            return difference("variables", list(theirs), list(ours))
        for name, one in theirs.items():
            other = ours[name]
            if one == other:
                continue
            if not isinstance(one, dict) or not isinstance(other, dict):
                if self.unlike(one, other):
                    return difference(name, one, other)
                continue
            for key in one.keys() | other.keys():
                a, b = one.get(key, "(nothing)"), other.get(key, "(nothing)")
                if a != b and self.unlike(a, b) and not (key == "grad_fn" and other_names(a, b)):
                    return Difference(self.steps, line, key, f"{name}: {a}", f"{name}: {b}")
        return None

    def unlike(self, a, b):
        if a == b:
            return None
        self.scale = max(self.scale, largest(a))
        if close(a, b, self.scale):
            self.inexact = True
            return None
        return a, b

    def run(self, program, watch=True):
        """A whole program: its Difference, or None."""
        self.reset(watch)
        for i, line in enumerate(program):
            if (found := self.step(line, last=i == len(program) - 1)) is not None:
                return found
            if self.over:
                break
        return None


def snippet(program, library="cygrad"):
    """The program as a script that runs by itself, with as much of the prelude as it uses."""
    parts = re.split(r"\n\n\n(?=class |def |# ----)", (HERE / "prelude.py").read_text())
    text, used = "\n".join(program), []
    known = {m[1]: part for part in parts[1:] if (m := re.match(r"(?:class|def) (\w+)", part))}
    queue = [text]
    while queue:
        here = queue.pop()
        for name, part in known.items():
            if part not in used and re.search(rf"\b{name}\b", here):
                used.append(part)
                queue.append(part)
    wanted = [p for p in parts[1:] if p in used]
    head = [f"import {library} as torch"] if library != "torch" else ["import torch"]
    head += [f"import {name}" for name in ("copy", "pickle") if f"{name}." in text]
    head += ["log = []"] if wanted else []
    return "\n".join([*head, *wanted, "", *program])


def quietly():
    return contextlib.redirect_stderr(io.StringIO())
