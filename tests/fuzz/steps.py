"""The kinds of lines of random programs: each takes a ``Drawing`` and returns one line, or raises Skip."""

import math
import re

FLOATS = ("torch.float64",) * 8 + ("torch.float32", "torch.complex128")
COMPLEX_REFUSED = re.compile(r"relu|clamp|maximum|hypot|fmin|round|max|min|sort|median|argmax|floor|cumprod")


class Skip(Exception):
    """A kind of line for which the variables at hand are no use."""


# ---- leaves ---------------------------------------------------------------------------------------------------------


def new_leaf(p):
    if len(p.tensors()) > 12:
        raise Skip
    return f"{p.new()} = {p.leaf(p.shape())}"


# ---- views ----------------------------------------------------------------------------------------------------------


def index(p, n):
    return p.int(-n, n - 1) if not p.chance(p.odds) else p.int(-n - 2, n + 1)


def spans(p, n):
    """start:stop of a slice."""
    a, b = sorted((p.int(0, n), p.int(0, n)))
    if p.chance(0.7) and a == b:
        a, b = 0, n
    return p.one((f"{a}:{b}", f"{a}:", f":{b}", f"{a - n if a < n else n}:", f"{a}:{b}:2", ":"))


def keys(p, t):
    """A basic index, as it stands between brackets."""
    words = []
    for n in t.shape:
        if p.chance(0.25):
            break
        if p.chance(0.1):
            words.append("None")
        words.append(str(index(p, n)) if n and p.chance(0.4) else spans(p, n))
    if p.chance(0.1):
        words.append("...")
    return ", ".join(words) or "..."


def factors(p, n):
    """A shape of n elements."""
    if n == 0:
        return (0,) if p.chance(0.5) else (p.int(1, 3), 0)
    shape = []
    while n > 1 and len(shape) < 3:
        f = p.one([k for k in range(1, n + 1) if n % k == 0])
        shape.append(f)
        n //= f
    if n > 1 or not shape:
        shape.append(n)
    p.rng.shuffle(shape)
    return tuple(shape)


def reach(t):
    return t.untyped_storage().nbytes() // t.itemsize


def strided(p, t):
    room = reach(t)
    if not room:
        raise Skip
    shape = tuple(p.int(1, 3) for _ in range(p.int(0, 2)))
    strides = tuple(p.int(0, 3) if p.chance(0.3) else p.int(1, 3) for _ in shape)
    need = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if need > room:
        raise Skip
    return f"as_strided({shape}, {strides}, {p.int(0, room - need)})"


def expanded(p, t):
    sizes = [str(p.int(1, 3)) if n == 1 and p.chance(0.8) else p.one((str(n), "-1")) for n in t.shape]
    if p.chance(0.5) or not sizes:
        sizes.insert(0, str(p.int(1, 3)))
    return f"expand({', '.join(sizes)})"


def unfolded(p, t):
    d = p.axis(t)
    return f"unfold({d}, {p.int(1, t.shape[d])}, {p.int(1, 2)})"


def diagonal(p, t):
    if t.ndim < 2:
        raise Skip
    a, b = p.rng.sample(range(t.ndim), 2)
    return p.one(("diagonal()", f"diagonal({p.int(-1, 1)}, {a}, {b})", f"diagonal(dim1={a}, dim2={b})"))


def narrowed(p, t):
    d = p.axis(t)
    a = p.int(0, t.shape[d] - 1)
    return f"narrow({d}, {a}, {p.int(0, t.shape[d] - a)})"


def permuted(p, t):
    order = list(range(t.ndim))
    p.rng.shuffle(order)
    return f"permute({', '.join(map(str, order))})" if order else "permute(())"


def selected(p, t):
    d = p.axis(t)
    return f"select({d}, {index(p, t.shape[d])})"


def flattened(p, t):
    a, b = sorted((p.int(0, max(t.ndim - 1, 0)), p.int(0, max(t.ndim - 1, 0))))
    return p.one(("flatten()", f"flatten({a}, {b})", "ravel()"))


def parts(p, t):
    """Views of complex numbers as parts, or of parts as complex numbers."""
    if t.is_complex():
        return p.one(("real", "imag", "@torch.view_as_real({})", "conj()"))
    if t.ndim and t.shape[-1] == 2 and t.dtype.is_floating_point:
        return "@torch.view_as_complex({})"
    raise Skip


VIEWS = (
    lambda p, t: f"[{keys(p, t)}]",
    lambda p, t: f"[{keys(p, t)}]",
    lambda p, t: f"[{keys(p, t)}]",
    selected,
    narrowed,
    lambda p, t: f"transpose({p.dim(t)}, {p.dim(t)})",
    permuted,
    lambda p, t: p.one(("t()", "mT", "T") if t.ndim == 2 else ("movedim(0, -1)",)),
    lambda p, t: f"view{factors(p, t.numel())}".replace(",)", ")"),
    lambda p, t: "view(-1)",
    lambda p, t: f"reshape{factors(p, t.numel())}".replace(",)", ")"),
    flattened,
    expanded,
    unfolded,
    diagonal,
    strided,
    parts,
    lambda p, t: p.one(("squeeze()", f"squeeze({p.dim(t)})")),
    lambda p, t: f"unsqueeze({p.int(-t.ndim - 1, t.ndim)})",
    lambda p, t: f"movedim({p.dim(t)}, {p.dim(t)})",
    lambda p, t: "detach()",
    lambda p, t: "data",
    lambda p, t: p.one(("contiguous()", "view_as({0})", "expand_as({0})", "to(torch.float64)", "double()", "alias")),
)


def view(p):
    name, t = p.pick()
    text = p.one(VIEWS)(p, t)
    if text == "alias":
        return f"{p.new()} = {name}"
    if text.startswith("@"):
        return f"{p.new()} = {text[1:].format(name)}"
    text = text.replace("{0}", name)
    return f"{p.new()} = {name}{text}" if text.startswith("[") else f"{p.new()} = {name}.{text}"


def several_views(p):
    name, t = p.pick(lambda t: t.ndim and all(t.shape))
    d = p.axis(t)
    n = t.shape[d]
    kind = p.one(("unbind", "split", "chunk", "split list", "tensor_split"))
    if kind == "unbind":
        call, count = f"unbind({d})", n
    elif kind == "split":
        k = p.int(1, n)
        call, count = f"split({k}, {d})", math.ceil(n / k)
    elif kind == "chunk":
        k = p.int(1, n)
        call, count = f"chunk({k}, {d})", math.ceil(n / math.ceil(n / k))
    elif kind == "tensor_split":
        k = p.int(1, n)
        call, count = f"tensor_split({k}, {d})", k
    else:
        k = p.int(0, n)
        call, count = f"split([{k}, {n - k}], {d})", 2
    if p.chance(0.5) and len(p.tensors()) > 6:
        return f"{p.new()} = {name}.{call}[{p.int(0, count - 1)}]"
    return "".join(f"{p.new()}, " for _ in range(count)) + f"= {name}.{call}"


# ---- out of place ---------------------------------------------------------------------------------------------------

UNARY = (
    "neg()",
    "sin()",
    "cos()",
    "tanh()",
    "sigmoid()",
    "square()",
    "clone()",
    "relu()",
    "abs()",
    "exp()",
    "clamp(-1, 1)",
    "mul(2)",
    "add(1)",
    "pow(2)",
    "pow(3)",
    "clamp(min=0)",
    "softmax(-1)",
    "log_softmax(0)",
    "cumsum(-1)",
    "sqrt()",
    "reciprocal()",
    "positive()",
    "contiguous().neg()",
    "flip(0)",
    "tril()",
    "round()",
    "sign()",
    "cumprod(0)",
)
OPERATORS = (
    "{} * 2",
    "1 - {}",
    "{} ** 2",
    "{} / 4",
    "-{}",
    "2 ** {}",
    "{} + 1",
    "1 / {}",
    "3 * {}",
    "torch.zeros_like({})",
    "torch.relu({})",
    "{}.clone()",
    "{} * {}",
    "{} + {}.detach()",
    "+{}",
)
BINARY = (
    "{} + {}",
    "{} * {}",
    "{} - {}",
    "{} / {}",
    "torch.maximum({}, {})",
    "torch.where({}.real > 0, {}, {})",
    "{}.lerp({}, 0.25)",
    "{}.add({}, alpha=2)",
    "torch.hypot({}, {})",
    "torch.addcmul({}, {}, {})",
    "{}.masked_fill({}.real > 0, 2)",
    "torch.fmin({}, {})",
    "{}.where({}.real > 0, {})",
)


def unary(p):
    name, t = p.pick()
    if p.chance(0.5):
        return f"{p.new()} = {name}.{p.allowed(p.one(UNARY), t)}"
    return f"{p.new()} = {p.allowed(p.one(OPERATORS), t).replace('{}', name)}"


def binary(p):
    name, t = p.pick()
    text = p.one(BINARY)
    operands = [name] + [p.mate(t) for _ in range(text.count("{}") - 1)]
    p.allowed(text, *[p.side.space[o] for o in operands])
    if text.startswith("{} ") and p.chance(0.5):
        operands.reverse()
    return f"{p.new()} = {text.format(*operands)}"


def product(p):
    kind = p.one(("mm", "mm", "mv", "dot", "outer", "batch"))
    a, t = p.pick(lambda t: t.ndim == {"mm": 2, "mv": 2, "dot": 1, "outer": 1, "batch": 3}[kind])
    if kind == "outer":
        return f"{p.new()} = torch.outer({a}, {p.pick(lambda u: u.ndim == 1)[0]})"
    k = t.shape[-1]
    ndims = {"mm": (2,), "mv": (1,), "dot": (1,), "batch": (3, 2, 1)}[kind]

    def fits(u):
        return (
            u.ndim in ndims and u.shape[-2 if u.ndim > 1 else 0] == k and (u.ndim < 3 or u.shape[0] in (1, t.shape[0]))
        )

    b = p.pick(None if p.chance(p.odds) else fits)[0]
    if kind == "dot" and p.chance(0.5):
        return f"{p.new()} = {a}.dot({b})"
    return f"{p.new()} = {a} @ {b}" if p.chance(0.8) else f"{p.new()} = torch.matmul({a}, {b})"


def reduction(p):
    name, t = p.pick()
    d = p.dim(t)
    text = p.one(
        (
            "sum()",
            f"sum({d})",
            f"sum({d}, keepdim=True)",
            "mean()",
            f"mean({d})",
            "prod()",
            f"prod({d})",
            f"amax({d})",
            f"var({d})",
            "norm()",
            f"logsumexp({d})",
            f"max({d})[0]",
            f"min({d}, keepdim=True).values",
            "max()",
            f"sort({d})[0]",
            "std()",
            f"cumsum({d})",
            f"mean({d}, keepdim=True)",
            f"median({d})[0]",
            f"argmax({d})",
            "sum()",
            "sum()",
        )
    )
    return f"{p.new()} = {name}.{p.allowed(text, t)}"


def arranged(p):
    name, t = p.pick(lambda t: t.ndim and t.numel())
    d = p.axis(t)
    n = t.shape[d]
    some = [p.int(-n, n - 1) for _ in range(p.int(1, 3))]
    positive = [k % n for k in some]
    rows = [p.int(0, t.shape[0] - 1) for _ in range(p.int(1, 3))] if t.shape[0] else [0]
    other = p.mate(t)
    return f"{p.new()} = " + p.one(
        (
            f"torch.cat([{name}, {name}], {d})",
            f"torch.stack([{name}, {name}], {d})",
            f"{name}[{rows}]",
            f"{name}.index_select({d}, torch.tensor({positive}))",
            f"{name}[..., {[p.int(-t.shape[-1], t.shape[-1] - 1)]}]",
            f"{name}.repeat({', '.join(['2'] * t.ndim)})",
            f"{name}.roll(1, {d})",
            f"{name}[{name}.real > 0]",
            f"torch.stack([{name}, {other}.expand_as({name})])",
            f"{name}.flip({d})",
            f"{name}.gather({d}, torch.zeros_like({name}, dtype=torch.int64))",
            f"{name}.masked_select({name}.real > 0)",
            f"{name}.take(torch.tensor({[p.int(0, t.numel() - 1)]}))",
            f"torch.nn.functional.pad({name}, (1, 0))",
            f"{name}.index_add({d}, torch.tensor({positive}), {name}.index_select({d}, torch.tensor({positive})))",
        )
    )


def converted(p):
    name, _ = p.pick()
    return (
        f"{p.new()} = {name}.to({p.one(FLOATS)})"
        if p.chance(0.7)
        else f"{p.new()} = {name}.{p.one(('float()', 'clone()', 'long()', 'bool()'))}"
    )


# ---- in place -------------------------------------------------------------------------------------------------------

IN_PLACE = (
    "zero_()",
    "fill_(2)",
    "mul_(2)",
    "add_(1)",
    "neg_()",
    "sin_()",
    "sigmoid_()",
    "relu_()",
    "clamp_(-1, 1)",
    "pow_(2)",
    "square_()",
    "mul_(0.5)",
    "sub_(1)",
    "div_(2)",
    "tanh_()",
    "exp_()",
    "abs_()",
    "reciprocal_()",
    "cumsum_(-1)",
    "fill_(v0)",
    "round_()",
    "tril_()",
    "clamp_(min=0)",
    "t_()",
    "squeeze_()",
    "unsqueeze_(0)",
    "transpose_(0, -1)",
    "sqrt_()",
)
IN_PLACE_WITH = (
    "add_({})",
    "mul_({})",
    "sub_({})",
    "copy_({})",
    "copy_({})",
    "div_({})",
    "add_({}, alpha=2)",
    "addcmul_({}, {})",
    "lerp_({}, 0.25)",
    "masked_fill_({}.real > 0, 3)",
    "index_put_((torch.tensor(0),), {}[0])",
    "addcdiv_({}, {})",
    "masked_scatter_({}.real > 0, {})",
    "masked_fill_({}.real > 0, {}.sum())",
)


def in_place(p):
    name, t = p.pick()
    text = p.allowed(p.one(IN_PLACE), t)
    if "v0" in text:
        text = f"fill_({p.pick(lambda u: u.ndim == 0)[0]})"
    if p.chance(0.1):
        return f"{p.new()} = {name}.{text}"
    return f"{name}.{text}"


def in_place_with(p):
    name, t = p.pick()
    text = p.one(IN_PLACE_WITH)
    others = [p.mate(t) for _ in range(text.count("{}"))]
    if any(p.side.space[o] is t for o in others):
        raise Skip  # PyTorch refuses to differentiate, ours copies what it overwrites
    return f"{name}.{text.format(*others)}"


def augmented(p):
    name, t = p.pick()
    other = p.mate(t)
    if p.side.space[other] is t:
        other = p.number()
    return f"{name} {p.one('+-*/')}= {p.one((other, p.number()))}"


def assigned(p):
    name, t = p.pick()
    key = keys(p, t)
    value = p.number()
    if p.chance(0.6):
        part = p.side.space[name].detach()
        try:
            part = eval(f"part[{key}]", {"part": part})
        except (IndexError, RuntimeError):                # PyTorch refuses some inference tensors
            part = t
        value = p.mate(part)
    if p.chance(0.15):
        return f"{name}[{name}.real > 0] = {p.number()}"
    if p.chance(0.1) and t.ndim and t.shape[0]:
        return f"{name}[{[p.int(0, t.shape[0] - 1) for _ in range(2)]}] = {value}"
    if p.chance(0.15):
        return f"{name}[{key}] {p.one('+*')}= {value}"
    return f"{name}[{key}] = {value}"


def indexed(p):
    name, t = p.pick(lambda t: t.ndim and t.numel())
    d = p.axis(t)
    k = p.int(0, t.shape[d] - 1)
    source = (
        f"{name}.detach().clone().narrow({d}, 0, 1)"
        if p.chance(0.5)
        else f"{p.mate(t)}.expand_as({name}).narrow({d}, 0, 1)"
    )
    zeros = f"torch.zeros_like({name}, dtype=torch.int64)"
    return f"{name}." + p.one(
        (
            f"index_add_({d}, torch.tensor([{k}]), {source})",
            f"index_copy_({d}, torch.tensor([{k}]), {source})",
            f"index_fill_({d}, torch.tensor([{k}]), 2)",
            f"scatter_({d}, {zeros}, 3)",
            f"scatter_add_({d}, {zeros}, {p.mate(t)}.expand_as({name}).clone())",
            f"index_put_((torch.tensor([{p.int(0, t.shape[0] - 1)}]),), {source.split('.')[0]}[0], accumulate=True)",
        )
    )


# ---- what a tensor is -----------------------------------------------------------------------------------------------


def attribute(p):
    name, t = p.pick()
    other = p.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype)[0]
    return p.one(
        (
            f"{name}.detach_()",
            f"{name}.requires_grad_()",
            f"{name}.requires_grad_(False)",
            f"{name}.retain_grad()",
            f"{name}.grad = None",
            f"{name}.grad = {other}",
            f"{name}.grad = {other}.detach().clone()",
            f"{name}.data = {other}",
            f"{name}.data = {other}.clone()",
            f"{name}.retain_grad()",
            f"{name}.requires_grad = True",
            f"{name}.data.mul_(2)",
            f"{name}.detach().add_(1)",
            f"{p.new()} = {name}.grad.clone()",
            f"del {name}",
            f"{name}.requires_grad_()",
            f"{p.new()} = {name}.detach().requires_grad_()",
        )
    )


def memory(p):
    bases = {id(u._base) for _, u in p.tensors()}
    name, t = p.pick(lambda t: t._base is None and t.is_leaf and id(t) not in bases)
    other = p.pick(lambda u: u.dtype == t.dtype)[0]
    shape = p.one([s for s in ((), (1,), (2,), (1, 2), (0,), (2, 1)) if math.prod(s) <= reach(t)])
    return p.one((f"{name}.resize_({shape})", f"{name}.set_({other}.detach())", f"{name}.set_({name}.detach())"))


def copied(p):
    name, _ = p.pick()
    return f"{p.new()} = " + p.one(
        (
            f"copy.deepcopy({name})",
            f"pickle.loads(pickle.dumps({name}))",
            f"copy.copy({name})",
            f"torch.empty_like({name}).copy_({name})",
        )
    )


def into(p):
    """out="""
    name, t = p.pick()
    other = p.mate(t)
    out = p.pick(lambda u: u.shape == t.shape and u.dtype == t.dtype)[0]
    call = p.one(
        (
            f"torch.add({name}, {other}, out={out})",
            f"torch.mul({name}, {other}, out={out})",
            f"torch.sin({name}, out={out})",
            f"torch.neg({name}, out={out})",
            f"torch.sub({name}, 1, out={out})",
            f"torch.cumsum({name}, 0, out={out})",
            f"torch.cat([{name}], out={out})" if t.ndim else f"torch.cos({name}, out={out})",
            f"torch.sum(torch.stack([{name}, {name}]), 0, out={out})",
        )
    )
    return call if p.chance(0.6) else f"{p.new()} = {call}"


# ---- hooks ----------------------------------------------------------------------------------------------------------


def hook(p):
    name, _ = p.differentiable()
    p.handles += 1
    word = f"'h{p.handles}'"
    kind = p.one(("look", "look", "look", "scale", "scale", "wrong", "fail") if p.chance(0.2) else ("look", "scale"))
    return f"h{p.handles} = {name}.register_hook({kind}({word}))"


def leaf_hook(p):
    name, _ = p.differentiable(lambda t: t.is_leaf or p.chance(0.05))
    p.handles += 1
    kind = p.one(("after", "after", "after", "take", "fail"))
    return f"h{p.handles} = {name}.register_post_accumulate_grad_hook({kind}('h{p.handles}'))"


def node_hook(p):
    name, _ = p.pick(lambda t: not t.is_leaf)
    p.handles += 1
    return f"h{p.handles} = {name}.grad_fn." + p.one(
        (f"register_hook(around('h{p.handles}'))", f"register_prehook(before('h{p.handles}'))")
    )


def removed(p):
    if not p.handles:
        raise Skip
    h = f"h{p.int(1, p.handles)}"
    if h not in p.side.space:
        raise Skip
    return f"{h}.remove()"


# ---- Functions ------------------------------------------------------------------------------------------------------


def function(p):
    name, t = p.pick(lambda t: t.is_floating_point() or t.is_complex())
    y = p.mate(t)
    a, b, c = (p.new() for _ in range(3))
    p.count -= 2
    made = p.one(
        (
            (1, f"{a} = Square.apply({name})"),
            (1, f"{a} = Doubling.apply({name})"),
            (1, f"{a} = Product.apply({name}, {y})"),
            (1, f"{a} = Dirty.apply({name}, 3)"),
            (1, f"{a} = Dirty.apply({name}, 0.5)"),
            (2, f"{a}, {b} = DirtySum.apply({name}, {y})"),
            (1, f"{a} = Forgotten.apply({name})"),
            (2, f"{a}, {b}, _ = Parts.apply({name})"),
            (1, f"{a} = Same.apply({name})"),
            (1, f"{a} = SameConstant.apply({name})"),
            (1, f"{a} = Flat.apply({name})"),
            (2, f"{a}, {b} = Halves.apply({name})"),
            (2, f"{a}, {b} = Sparse.apply({name})"),
            (3, f"{a}, {b}, {c} = Pair.apply({name}, {y})"),
            (1, f"{a} = Setup.apply({name}, 3)"),
            (1, f"{a} = Once.apply({name})"),
            (1, f"{a} = Nothing.apply({name}, {y})"),
            (1, f"{a} = TooMany.apply({name})"),
            (1, f"{a} = WrongShape.apply({name})"),
            (1, f"{a} = Failing.apply({name})"),
            (1, f"{a} = Inner.apply({name})"),
            (1, f"{a} = Twice.apply({name})"),
        )
    )
    p.count += made[0] - 1
    return made[1]


# ---- backward -------------------------------------------------------------------------------------------------------


def options(p, grad=False):
    words = []
    if p.chance(0.5):
        words.append("retain_graph=True")
    if p.chance(0.3):
        words.append("create_graph=True")
    if grad and p.chance(0.6):
        words.append("allow_unused=True")
    if grad and p.chance(0.1):
        words.append("materialize_grads=True")
    return words


def root(p):
    """(expression, gradient) of something to differentiate."""
    name, t = p.differentiable()
    if t.is_complex():
        return p.one(((f"{name}.real.sum()", None), (f"{name}.abs().sum()", None), (name, p.like(t))))
    if t.numel() == 1 and p.chance(0.7):
        return name, None
    if p.chance(0.5):
        return p.one(
            (f"{name}.sum()", f"({name} * {name}).sum()", f"{name}.mean()", f"({name} * {p.like(t)}).sum()")
        ), None
    if p.chance(0.1):
        return name, None
    same = p.tensors(lambda u: u.shape == t.shape and u.dtype == t.dtype)
    return name, p.one(same)[0] if same and p.chance(0.4) else p.like(t)


def backward(p):
    words = options(p)
    if p.chance(0.15):
        words.append(f"inputs=[{', '.join(p.differentiable()[0] for _ in range(p.int(1, 2)))}]")
    if p.chance(0.15):
        roots = [root(p) for _ in range(2)]
        args = f"[{', '.join(r for r, _ in roots)}], [{', '.join(str(g) for _, g in roots)}]"
        return f"torch.autograd.backward({', '.join([args, *words])})"
    name, g = root(p)
    return f"{name}.backward({', '.join([*([g] if g else []), *words])})"


def gradient(p):
    """Gradients that the program goes on with."""
    name, g = root(p)
    inputs = [p.differentiable()[0] for _ in range(p.one((1, 1, 2)))]
    words = [name, f"[{', '.join(inputs)}]", *([g] if g else []), *options(p, True)]
    return "".join(f"{p.new()}, " for _ in inputs) + f"= grads({', '.join(words)})"


GROUPS = {
    "leaf": (1.5, (new_leaf,)),
    "view": (6, (view, view, view, several_views)),
    "plain": (5, (unary, unary, binary, binary, product, reduction, arranged, converted)),
    "in place": (6, (in_place, in_place, in_place_with, in_place_with, augmented, assigned, assigned, indexed)),
    "attribute": (2, (attribute,)),
    "hook": (1.5, (hook, hook, leaf_hook, node_hook, removed)),
    "function": (2, (function,)),
    "backward": (3.5, (backward, backward, gradient)),
    "memory": (0.3, (memory,)),
    "copy": (0.3, (copied,)),
    "out": (0.4, (into,)),
}
