"""`check`: every derivative check there is, for a whole model or function, with one call."""

import copy
import time

import cygrad
from cygrad.func._tree import flatten, unflatten
from cygrad.random import _restore, _states
from cygrad.tools import _jacobian as jacobian
from cygrad.tools import gradcheck as checks
from cygrad.tools._jacobian import GradcheckError

_FULL = 512                              # up to so many elements whole Jacobians are compared


class CheckReport:
    """What `check` found; true where nothing failed. Printing it shows the checks, and in full what failed and why
    others were skipped: a Function has no ``jvp`` for forward mode, say, or a backward cannot be batched.

    Attributes
    ----------
    results : list of (str, str, str, float)
        Of each check its name, ``"passed"``, ``"failed"`` or ``"skipped"``, what it says, and seconds.
    checked : list of str
        What was differentiated by.
    """

    def __init__(self, name, checked, how):
        self.name, self.checked, self.how = name, checked, how
        self.results = []

    def __bool__(self):
        return all(outcome != "failed" for _, outcome, _, _ in self.results)

    def __repr__(self):
        shown = ", ".join(self.checked[:6]) + (f" and {len(self.checked) - 6} more" if len(self.checked) > 6 else "")
        lines = [f"Derivatives of {self.name} by {shown}, {self.how}:"]
        width = max(len(name) for name, *_ in self.results)
        lines += [f"  {name:{width}}  {outcome:7} {seconds:7.2f} s" for name, outcome, _, seconds in self.results]
        for name, outcome, text, _ in self.results:
            if outcome != "passed":
                lines += ["", f"{name}: {outcome}", text]
        return "\n".join(lines)


def check(target, inputs=(), kwargs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, nondet_tol=0.0, fast_mode=None,
          second_order=True, forward=True, batched=True, raise_exception=True, progress=None):
    """Check all derivatives of a module or function: backward, forward mode, batched ones, and second derivatives.

    Everything is done on copies in double precision: neither the module nor the inputs change. Each call draws the same
    random numbers and starts from the same buffers, so that dropout and batch normalisation can be checked as they
    train.

    Parameters
    ----------
    target : Module or callable
        Returns a tensor, or nested lists, tuples and dicts of tensors and other things, which are left alone.
    inputs : Tensor or sequence
        Positional arguments: tensors, nested containers of them, anything else.
    kwargs : dict, optional
        Keyword arguments.
    eps, atol, rtol, nondet_tol
        As for :func:`gradcheck`.
    fast_mode : bool, optional
        Compare one random projection of each Jacobian in place of all elements. Left out: where there are more than
        512 elements to differentiate by; such a projection finds what is wrong in many elements, and can miss one.
    second_order, forward, batched : bool
        Whether to check second derivatives, forward mode, and both by vmap for several directions at once.
    raise_exception : bool
        If False, failures are in the report only.
    progress : callable, optional
        Is called with the name of each check when it begins.

    Returns
    -------
    CheckReport
        True where nothing failed. What is not available, such as forward mode of a Function without ``jvp``, was
        skipped.

    Raises
    ------
    GradcheckError
        Some check failed; the message is the report. Derivatives are those by the module's parameters that require
        gradients, and by the inputs that do; by all inputs in floating point, if none does.
    ValueError
        There is nothing to differentiate by, or no output depends on it.

    Examples
    --------
    >>> model = cygrad.nn.Sequential(cygrad.nn.Linear(3, 4), cygrad.nn.Tanh(), cygrad.nn.Linear(4, 1))
    >>> bool(check(model, cygrad.rand(5, 3)))
    True
    """
    if isinstance(target, type) or not callable(target):
        raise TypeError(f"check(): target must be a module or function, not {target!r}")
    if not isinstance(kwargs, (dict, type(None))):
        raise TypeError(f"check(): argument 'kwargs' must be dict, not {type(kwargs).__name__}")
    with cygrad.inference_mode(False), cygrad.enable_grad():
        return _checked(target, inputs, kwargs or {}, eps=eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol,
                        fast_mode=fast_mode, parts=(second_order, forward, batched), raise_exception=raise_exception,
                        progress=progress)


def _checked(target, inputs, kwargs, *, fast_mode, parts, raise_exception, progress, **options):
    call = _Call(target, inputs, kwargs)
    if not call.names:
        raise ValueError(f"check: {call.name} has no parameter that requires gradients, and no input in floating point")
    count = sum(jacobian.memory(x).size for x in call.values)
    fast = count > _FULL if fast_mode is None else bool(fast_mode)
    report = CheckReport(call.name, call.names, f"{count} elements, {'random projections' if fast else 'all of them'}")
    with cygrad.random.fork_rng():
        _run(call, report, options, fast, progress or (lambda name: None), *parts)
    if raise_exception and not report:
        raise GradcheckError(str(report))
    return report


def _run(call, report, options, fast, progress, second_order, forward, batched):
    problem = jacobian.Problem(call, tuple(call.values), **options)
    problem.input_notes = dict(enumerate(call.names))
    if not problem.outputs():
        raise ValueError(f"check: no output of {call.name} depends on {', '.join(call.names)}")
    stages = [("backward", lambda: checks.check_backward(problem, True, True, fast))]
    if forward:
        stages.append(("forward mode", lambda: checks.check_forward(problem, fast)))
    if batched:
        stages.append(("backward, batched", lambda: jacobian.check_batched(problem, problem.outputs())))
    if forward and batched:
        stages.append(("forward mode, batched", lambda: jacobian.check_batched_forward(problem)))
    if second_order:
        def twice():
            return checks.second_problem(call, tuple(call.values), None, False, options, problem.input_notes)

        stages.append(("backward twice", lambda: checks.check_backward(twice(), True, True, fast)))
        if forward:
            stages.append(("forward over backward", lambda: checks.check_forward(twice(), fast)))
    for name, stage in stages:
        progress(name)
        start = time.perf_counter()
        outcome, text = "passed", ""
        if name in ("backward twice", "forward over backward") and report.results[0][1] == "failed":
            outcome, text = "skipped", "The first derivatives are wrong already."
        else:
            try:
                stage()
            except (NotImplementedError, jacobian.NotBatchedError) as error:
                outcome, text = "skipped", f"Not available here: {error}"
            except GradcheckError as error:
                outcome, text = "failed", str(error)
            except Exception as error:           # what the user's own code raises there
                outcome, text = "failed", f"{type(error).__name__}: {error}"
        report.results.append((name, outcome, text, time.perf_counter() - start))


class _Call:
    """The target as a function of those tensors that it is differentiated by.

    Attributes
    ----------
    values : list of Tensor
        Leaves in double precision: parameters, then inputs.
    names : list of str
        What each of them is.
    """

    def __init__(self, target, inputs, kwargs):
        self.module = None
        self.target, self.name = target, getattr(target, "__name__", type(target).__name__)
        self.names, self.values, self.buffers = [], [], {}
        if hasattr(target, "named_parameters"):
            self.module = copy.deepcopy(target).double()
            self.buffers = dict(self.module.named_buffers())
            for name, parameter in self.module.named_parameters():
                if parameter.requires_grad:
                    self._add(f"parameter {name}", parameter)
        self.parameters = [name.removeprefix("parameter ") for name in self.names]
        inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        leaves, self.spec = flatten((inputs, kwargs))
        floating = [isinstance(x, cygrad.Tensor) and (x.is_floating_point() or x.is_complex()) for x in leaves]
        some = any(x.requires_grad for x, yes in zip(leaves, floating, strict=True) if yes)
        self.leaves, self.places = [], []
        for k, (x, yes) in enumerate(zip(leaves, floating, strict=True)):
            if yes and (x.requires_grad or not some):
                self.places.append(k)
                self._add(f"tensor {len(self.places) - 1} of the inputs", x)
            self.leaves.append(_doubled(x) if yes else x)
        self.random = _states()

    def _add(self, name, x):
        self.names.append(name)
        self.values.append(_doubled(x).requires_grad_())

    def __call__(self, *values):
        _restore(self.random)
        leaves = list(self.leaves)
        for k, x in zip(self.places, values[len(self.parameters) :], strict=True):
            leaves[k] = x
        args, kwargs = unflatten(leaves, self.spec)
        if self.module is None:
            result = self.target(*args, **kwargs)
        else:
            given = dict(zip(self.parameters, values, strict=False))
            given |= {name: b.clone() for name, b in self.buffers.items()}
            result = cygrad.func.functional_call(self.module, given, args, kwargs)
        return tuple(y for y in flatten(result)[0] if isinstance(y, cygrad.Tensor))


def _doubled(x):
    """A copy in double precision, dense, without history."""
    dtype = cygrad.complex128 if x.is_complex() else cygrad.float64
    return x.detach().to(dtype).clone(memory_format=cygrad.contiguous_format)
