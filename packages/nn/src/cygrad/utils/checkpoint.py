"""Time for memory: what a part of the forward pass would save for backward is computed again when it is needed."""

import collections
import contextlib
import enum
import itertools
import threading
import traceback
import warnings
import weakref

import cygrad
from cygrad.autograd import Function, _core, enable_grad, no_grad
from cygrad.autograd.graph import saved_tensors_hooks
from cygrad.random import _restore as restore_random
from cygrad.random import _states as random_states

__all__ = ["CheckpointError", "CheckpointFunction", "CheckpointPolicy", "SelectiveCheckpointContext",
           "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
           "detach_variable", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop"]


class CheckpointError(RuntimeError):
    """What was computed again is not what the forward pass computed."""


class _Stop(BaseException):
    """Ends a recomputation once all that is needed is there. No Exception: the function's own handlers let it pass."""


_early_stop = [None]                     # what set_checkpoint_early_stop said, None: nothing
_debug = [None]


@contextlib.contextmanager
def _switched(place, value):
    before, place[0] = place[0], value
    try:
        yield
    finally:
        place[0] = before


def set_checkpoint_early_stop(enable):
    """Inside ``with set_checkpoint_early_stop(False):`` recomputations run to their end.

    Otherwise they stop as soon as every saved tensor is there; what the function does afterwards is not done again.
    """
    return _switched(_early_stop, enable)


def set_checkpoint_debug_enabled(enabled):
    """Inside, sets ``debug`` for all checkpoints; None leaves it to each call."""
    return _switched(_debug, enabled)


def noop_context_fn():
    """The default `context_fn` of `checkpoint`: two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs):
    """The tensors of a tuple without their history, as leaves that require gradients where they did; the rest as it is.

    Raises
    ------
    RuntimeError
        `inputs` is no tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, cygrad.Tensor) else x for x in inputs)


def check_backward_validity(inputs):
    """Warns if no tensor of `inputs` requires a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, cygrad.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def _autocasts():
    """The state of autocast for the CPU and for devices."""
    return [_core._autocast_state(away) for away in (False, True)]


def _set_autocasts(states):
    for away, state in enumerate(states):
        _core._set_autocast(*state, bool(away))


class _State:
    """What the function is run again with as in the forward pass: autocast and, where wanted, random numbers."""

    def __init__(self, random):
        self.random = random_states() if random else None
        self.autocast = _autocasts()

    @contextlib.contextmanager
    def restored(self):
        autocast = _autocasts()
        random = None if self.random is None else random_states()
        _set_autocasts(self.autocast)
        if random is not None:
            restore_random(self.random)
        try:
            yield
        finally:
            _set_autocasts(autocast)
            if random is not None:
                restore_random(random)


# ---- the form without a backward pass inside the backward pass


def _kept(tensor):
    """A tensor without its graph, but with its tangents: gradients of dual tensors have tangents too."""
    return tensor.detach() if _core.innermost_tangent(tensor) is None else tensor.view_as(tensor)


class _Holder:
    """What the graph keeps in place of a saved tensor."""

    __slots__ = ("__weakref__", "taken")

    def __init__(self):
        self.taken = set()               # backward passes that have had it


class _Frame:
    """One call of `checkpoint`: how to run it again, and what it saved."""

    def __init__(self, run_again, early_stop, compare, debug):
        self.run_again = run_again
        self.early_stop = early_stop
        self.compare = compare
        self.debug = debug
        self.holders = []                # weak references, in the order of saving
        self.notes = []                  # of each: (shape, dtype, where it was saved or None)
        self.again = {}                  # backward pass -> {id of holder: tensor}, what a recomputation gave
        self.inputs = None               # a node that saves the tensors among the arguments
        self.outside = itertools.count(-2, -1)

    def note(self, tensor):
        return tensor.shape, tensor.dtype, traceback.format_stack() if self.debug else None

    def pack(self, tensor):
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.notes.append(self.note(tensor))
        return holder

    def unpack(self, holder):
        number = _core.current_pass()
        if number == -1:                 # somebody looks at the graph: nothing to be shared with a later look
            number = next(self.outside)
        found = self.again.get(number)
        if found is None:
            found = self.again[number] = {}
            try:
                self.recompute(found)
            except BaseException:
                del self.again[number]
                raise
        if number in holder.taken:
            raise CheckpointError(
                "cygrad.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If "
                "you are calling ctx.saved_tensors in backward, make sure to do so only once.")
        tensor = found.pop(id(holder))
        holder.taken.add(number)
        if number < -1 or not found:
            del self.again[number]
        return tensor

    def recompute(self, found):
        """Runs the function again, and fills `found` with what it saves this time."""
        count = 0

        def pack(tensor):
            nonlocal count
            k = count
            count += 1
            if k >= len(self.holders):
                return None              # more than before; told below
            self.check(k, tensor)
            holder = self.holders[k]()
            if holder is not None:
                found[id(holder)] = _kept(tensor)
            if self.early_stop and count == len(self.holders):
                raise _Stop
            return _kept(tensor)

        def unpack(packed):
            if packed is None:
                raise CheckpointError("cygrad.utils.checkpoint: a backward pass inside the checkpointed function needs "
                                      "a tensor that the original forward did not save")
            return packed

        with contextlib.suppress(_Stop), saved_tensors_hooks(pack, unpack), enable_grad():
            self.run_again(self)
        if count != len(self.holders):
            raise CheckpointError(
                "cygrad.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {count}.{self.told(min(count, len(self.holders)) - 1)}")

    def check(self, k, tensor):
        shape, dtype, _ = self.notes[k]
        if not self.compare or (shape == tensor.shape and dtype == tensor.dtype):
            return
        raise CheckpointError(
            "cygrad.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
            f"the forward pass.\ntensor at position {k}:\nsaved metadata: shape {tuple(shape)}, {dtype}\n"
            f"recomputed metadata: shape {tuple(tensor.shape)}, {tensor.dtype}"
            f"{self.told(k, traceback.format_stack())}")

    def told(self, k, now=None):
        """With debug: where tensor k was saved, in the forward pass and now."""
        if not self.debug or not 0 <= k < len(self.notes):
            return "" if self.debug else "\nPass debug=True to checkpoint() to see the calls that saved them."
        text = f"\nTensor {k} was saved in the original forward by:\n{''.join(self.notes[k][2])}"
        return text + (f"and in the recomputation by:\n{''.join(now)}" if now else "")


class _KeepInputs(Function):
    """A node that saves tensors and is never run: hooks of a checkpoint around this one see them as any others."""

    @staticmethod
    def forward(ctx, dummy, *tensors):
        ctx.save_for_backward(*tensors)
        return dummy.detach().clone()

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("the node that keeps the inputs of a checkpoint has no backward")

    @staticmethod
    def jvp(ctx, *tangents):
        return None


def _without_reentry(function, args, kwargs, preserve, context_fn, compare, debug, early_stop):
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    forward_context, again_context = context_fn()
    state = _State(preserve)
    places = [i for i, a in enumerate(args) if isinstance(a, cygrad.Tensor)]
    rest = [None if isinstance(a, cygrad.Tensor) else a for a in args]
    keeper = _KeepInputs.apply(cygrad.empty(0, requires_grad=True), *[args[i] for i in places]).grad_fn
    if keeper is None:                   # nothing is recorded
        return function(*args, **kwargs)

    def run_again(frame):
        arguments = list(rest)
        for i, tensor in zip(places, frame.inputs.saved_tensors, strict=True):
            arguments[i] = tensor
        with state.restored(), again_context:
            function(*arguments, **kwargs)

    frame = _Frame(run_again, early_stop, compare, debug)
    frame.inputs = keeper
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)
    raise RuntimeError(
        "cygrad.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during the "
        "checkpointed forward. This is not supported because checkpoint cannot return a value for a failed forward.")


# ---- results that are kept nevertheless


class CheckpointPolicy(enum.Enum):
    """What a policy of `create_selective_checkpoint_contexts` may say; MUST and PREFER do the same here."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told of the call: `is_recompute`, whether backward runs the function again."""

    def __init__(self, *, is_recompute):
        self.is_recompute = is_recompute


_selecting = threading.local()           # .stack: of _Selecting, the innermost last


def _ask_innermost(row, result, inputs):
    return _selecting.stack[-1].ask(row, result, inputs)


_core._set_results_keeper(_ask_innermost)


class _Selecting:
    """The context of one of the two runs. kept: row -> (results, with the versions that they had), in order."""

    def __init__(self, policy, kept, again, allow_mutation):
        self.policy, self.kept, self.again, self.allow_mutation = policy, kept, again, allow_mutation
        self.context = SelectiveCheckpointContext(is_recompute=again)

    def __enter__(self):
        if not hasattr(_selecting, "stack"):
            _selecting.stack = []
        _selecting.stack.append(self)
        self.before = _core._keeping_results(True)

    def __exit__(self, *exc):
        _core._keeping_results(self.before)
        _selecting.stack.pop()

    def ask(self, row, result, inputs):
        """The result of an operation: given back before it is computed again, kept after it was computed at first."""
        if self.again != (result is None) or not self.saves(row, inputs):
            return None
        if not self.again:
            self.kept.setdefault(row, collections.deque()).append((result, result._version))
            return None
        if not self.kept.get(row):
            raise RuntimeError(
                f"a result of {row} that the policy wants saved is not there. You are only allowed to backward once on "
                "any region computed under selective activation checkpoint, and the policy must say the same of "
                "every call when the function is run again")
        result, version = self.kept[row].popleft()
        if result._version != version and not self.allow_mutation:
            raise RuntimeError(f"the result of {row} that was saved during selective activation checkpoint has been "
                               "mutated since: write to a clone(), or allow_cache_entry_mutation=True")
        return result

    def saves(self, row, inputs):
        policy = self.policy(self.context, row, *inputs)
        if not isinstance(policy, bool | CheckpointPolicy):
            raise TypeError(f"a policy returns a CheckpointPolicy or a bool, got {policy!r} for {row}")
        return policy in (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Two contexts for `checkpoint`, in which some operations' results are saved and not computed again.

    Parameters
    ----------
    policy_fn_or_list : callable or list of str
        ``policy(ctx, name, *inputs)`` returns a `CheckpointPolicy`, or a bool: whether to save. It is asked of each
        operation with a kernel of its own that has one result, such as ``"mm"``, ``"convolution"`` or ``"sum"``;
        pointwise operations and views are always run again. Or the names of those to save.
    allow_cache_entry_mutation : bool
        Whether a saved result may have been written in place since.

    Returns
    -------
    tuple
        Of two context managers, for one call of `checkpoint`: as ``context_fn`` give
        ``lambda: create_selective_checkpoint_contexts(...)``.

    Raises
    ------
    ValueError
        The list names what is no such operation.
    TypeError
        `policy_fn_or_list` is neither.
    RuntimeError
        In backward: a second time through the same region; a saved result that was written in place.
    """
    policy = policy_fn_or_list
    if isinstance(policy, list | tuple):
        names = frozenset(policy)
        if unknown := sorted(str(name) for name in names.difference(_core.GENERATED_KEPT)):
            raise ValueError(f"no results of {', '.join(unknown)} can be saved, those of these can: "
                             f"{', '.join(sorted(_core.GENERATED_KEPT))}")

        def policy(ctx, name, *inputs):
            return name in names
    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of names of operations, got "
                        f"{type(policy).__name__}")
    kept = {}
    return tuple(_Selecting(policy, kept, again, allow_cache_entry_mutation) for again in (False, True))


# ---- the form with one


class CheckpointFunction(Function):
    """The older form: runs without recording, and in backward again with recording, by a backward pass of its own."""

    @staticmethod
    def forward(ctx, function, preserve, *args):
        """Runs ``function(*args)`` and keeps the arguments."""
        ctx.function = function
        ctx.state = _State(preserve)
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, cygrad.Tensor)]
        ctx.rest = [None if isinstance(a, cygrad.Tensor) else a for a in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx, *grads):
        """Runs the function again, with recording, and differentiates that."""
        if not _core.pass_accumulates():
            raise RuntimeError(
                "When use_reentrant=True, cygrad.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument.")
        args = list(ctx.rest)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[i] = tensor
        args = detach_variable(tuple(args))
        with ctx.state.restored(), enable_grad():
            outputs = ctx.function(*args)
        outputs = (outputs,) if isinstance(outputs, cygrad.Tensor) else outputs
        pairs = [(y, g) for y, g in zip(outputs, grads, strict=True)
                 if isinstance(y, cygrad.Tensor) and y.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        cygrad.autograd.backward([y for y, _ in pairs], [g for _, g in pairs])
        return None, None, *[a.grad if isinstance(a, cygrad.Tensor) else None for a in args]


# ---- public


def _chosen(use_reentrant, name):
    if use_reentrant is None:
        warnings.warn(f"cygrad.utils.checkpoint.{name}: the use_reentrant parameter should be passed explicitly. "
                      "use_reentrant=False is recommended; True, which was the default, is taken now.", stacklevel=3)
        return True
    return use_reentrant


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default",
               debug=False, early_stop=True, **kwargs):
    """``function(*args, **kwargs)``, of which nothing is saved for backward but the arguments: backward runs it again.

    Parameters
    ----------
    function : callable
        Must do the same when it is run again.
    use_reentrant : bool
        False: saved tensors are computed again when the first of them is needed. Everything works as without
        checkpoint: keyword arguments, ``autograd.grad``, nested checkpoints, second derivatives. True: an older form, a
        Function with a backward pass inside its backward; some tensor argument must require a gradient.
    context_fn : callable
        Returns two context managers, for the forward pass and for the recomputation; see
        `create_selective_checkpoint_contexts`. The mode of ``autocast`` is that of the forward pass in either.
    determinism_check : {"default", "none"}
        Whether shapes and dtypes of what is computed again are compared with those of the forward pass.
    debug : bool
        Errors show the calls that saved the tensors.
    early_stop : bool
        The recomputation ends when all that is needed is there; `set_checkpoint_early_stop` overrides it.
    preserve_rng_state : bool
        The recomputation draws the same random numbers. Default: True.

    Raises
    ------
    CheckpointError
        In backward, when the recomputation saves other tensors.
    ValueError
        An argument that does not go with ``use_reentrant=True``, or is unknown; `debug` beside a `context_fn`.
    RuntimeError
        The context for the forward pass hides an exception.
    """
    use_reentrant = _chosen(use_reentrant, "checkpoint")
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        if determinism_check not in ("default", "none"):
            raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
        debug = debug if _debug[0] is None else _debug[0]
        early_stop = early_stop if _early_stop[0] is None else _early_stop[0]
        compare = determinism_check == "default"
        return _without_reentry(function, args, kwargs, preserve, context_fn, compare, debug, early_stop)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    check_backward_validity(args)
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Runs functions one after the other, in segments that are checkpointed; the last one is not.

    Parameters
    ----------
    functions : nn.Sequential, or sequence of modules or callables
    segments : int
        Into how many parts they are divided.
    input : Tensor
        The first one's argument.
    use_reentrant : bool
        As for `checkpoint`.
    preserve_rng_state : bool
        As for `checkpoint`.
    """
    use_reentrant = _chosen(use_reentrant, "checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    functions = list(functions.children() if hasattr(functions, "children") else functions)
    if not isinstance(segments, int) or not 1 <= segments <= len(functions):
        raise ValueError(f"segments must be between 1 and the number of functions, {len(functions)}, got {segments}")
    size = len(functions) // segments

    def run(start, stop):
        def forward(value):
            for f in functions[start:stop]:
                value = f(value)
            return value

        return forward

    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(last, len(functions))(input)
