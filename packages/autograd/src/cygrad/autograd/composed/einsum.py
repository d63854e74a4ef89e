"""Einstein summation: a parser of equations, a contraction path, and one product of matrices for each pair."""

from functools import lru_cache
from itertools import combinations

from .._core import Tensor, bmm, result_type
from . import composed
from .linalg_base import check_tensor, numel

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ELLIPSIS = -1                   # labels 0 to 51 are letters; the dimensions of an ellipsis are 52, 53, ...
SEARCHED = 5                    # operands up to which every path is tried


def label_of(letter, where):
    if letter not in LETTERS or not letter:
        raise RuntimeError(f"einsum(): invalid subscript given at index {where} in the equation string, subscripts "
                           "must be "
                           "in [a-zA-Z]")
    return LETTERS.index(letter)


def word(label):
    return LETTERS[label] if label < 52 else "..."


def parse_terms(text, start, what):
    """Labels of one term."""
    labels, i = [], 0
    while i < len(text):
        c = text[i]
        if c == ".":
            if ELLIPSIS in labels:
                raise RuntimeError(f"einsum(): found '.' for {what} for which an ellipsis was already found")
            if text[i:i + 3] != "...":
                raise RuntimeError(f"einsum(): found '.' for {what} that is not part of any ellipsis")
            labels.append(ELLIPSIS)
            i += 3
            continue
        if c != " ":
            labels.append(label_of(c, start + i))
        i += 1
    return labels


def parse_equation(equation):
    """Labels of the operands, and those of the result or None."""
    left, arrow, right = equation.partition("->")
    terms, start = [], 0
    for i, term in enumerate(left.split(",")):
        terms.append(parse_terms(term, start, f"operand {i}"))
        start += len(term) + 1
    return terms, parse_terms(right, len(left) + 2, "the output") if arrow else None


def parse_sublists(args):
    """The form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    operands, terms = list(args[0:len(args) // 2 * 2:2]), list(args[1::2])
    out = args[-1] if len(args) % 2 else None
    found = []
    for term in [*terms, *([out] if out is not None else [])]:
        if not isinstance(term, (tuple, list)):
            raise TypeError(f"einsum(): expected subscripts to be a list of ints, but got {type(term).__name__}")
        labels = []
        for s in term:
            if s is Ellipsis:
                labels.append(ELLIPSIS)
            elif isinstance(s, bool) or not isinstance(s, int) or not 0 <= s < 52:
                raise ValueError(f"einsum(): expected subscripts to be integers in the range [0, 52), but got {s!r}")
            else:
                labels.append(s)
        found.append(labels)
    return operands, found[:len(terms)], found[len(terms)] if out is not None else None


def spell_ellipses(terms, operands):
    """Replace each ellipsis by labels, the last of which are those of the last of its dimensions."""
    widest = 0
    for i, (labels, x) in enumerate(zip(terms, operands, strict=True)):
        named = len(labels) - (ELLIPSIS in labels)
        if ELLIPSIS not in labels and named != x.ndim:
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({named}) does not match the "
                               "number of "
                               f"dimensions ({x.ndim}) for operand {i} and no ellipsis was given")
        if named > x.ndim:
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({named}) is more than the number "
                               "of "
                               f"dimensions ({x.ndim}) for operand {i}")
        if ELLIPSIS in labels:
            widest = max(widest, x.ndim - named)
    spelled = []
    for labels, x in zip(terms, operands, strict=True):
        if ELLIPSIS in labels:
            i, n = labels.index(ELLIPSIS), x.ndim - len(labels) + 1
            labels = [*labels[:i], *range(52 + widest - n, 52 + widest), *labels[i + 1:]]
        spelled.append(labels)
    return spelled, list(range(52, 52 + widest))


def result_labels(out, terms, dots):
    if out is None:
        every = [label for labels in terms for label in labels]
        return dots + sorted(label for label in set(every) if label < 52 and every.count(label) == 1)
    spelled = []
    for label in out:
        spelled += dots if label == ELLIPSIS else [label]
    seen = {label for labels in terms for label in labels}
    for label in spelled:
        if spelled.count(label) > 1:
            raise RuntimeError(f"einsum(): output subscript {word(label)} appears more than once in the output")
        if label not in seen:
            raise RuntimeError(f"einsum(): output subscript {word(label)} does not appear in the equation for any "
                               "input "
                               "operand")
    return spelled


def without_repeats(x, labels, i):
    """The diagonal over a label that an operand has twice."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(f"einsum(): subscript {word(label)} is repeated for operand {i} but the sizes "
                                   "don't match, "
                                   f"{x.shape[second]} != {x.shape[first]}")
            x = x.diagonal(0, first, second).movedim(-1, first)
            del labels[second]
    return x, labels


def sizes_of(operands, terms):
    sizes = {}
    for i, (x, labels) in enumerate(zip(operands, terms, strict=True)):
        for label, n in zip(labels, x.shape, strict=True):
            seen = sizes.get(label, 1)
            if n != 1 and seen != 1 and n != seen:
                raise RuntimeError(f"einsum(): subscript {word(label)} has size {n} for operand {i} which does not "
                                   "broadcast "
                                   f"with previously seen size {seen}")
            sizes[label] = n if seen == 1 else seen
    return sizes


def reduced(x, labels, keep, sizes, alone=False):
    """Sum over the labels that nothing else needs, and drop those that only repeat: size 1 against more. The result
    of an operand alone is a view only if nothing is summed."""
    gone = [d for d, label in enumerate(labels) if label not in keep or (x.shape[d] == 1 and sizes[label] != 1)]
    if not gone:
        return x, labels
    real = [d for d in gone if x.shape[d] != 1 or alone]
    if real:
        x = x.sum(real, True)
    x = x.squeeze(tuple(gone))
    return x, [label for d, label in enumerate(labels) if d not in gone]


def arranged(x, labels, order):
    return x if order == labels else x.permute(*[labels.index(label) for label in order]) if order else x


def pair(a, la, b, lb, keep, rank):
    """The product of two operands, summed over the labels that both have and nothing else needs."""
    shared = [label for label in la if label in lb]
    summed = [label for label in shared if label not in keep]
    batch = sorted((label for label in shared if label in keep), key=rank)
    left = sorted((label for label in la if label not in lb), key=rank)
    right = sorted((label for label in lb if label not in la), key=rank)
    labels = batch + left + right
    if not summed:
        wide_a, wide_b = arranged(a, la, batch + left), arranged(b, lb, batch + right)
        if left and right:
            wide_a = wide_a.reshape(*wide_a.shape, *[1] * len(right))
            wide_b = wide_b.reshape(*wide_b.shape[:len(batch)], *[1] * len(left), *wide_b.shape[len(batch):])
        elif batch and (left or right):          # align the batch at the front of both
            short = wide_b if left else wide_a
            short = short.reshape(*short.shape, *[1] * len(left or right))
            wide_a, wide_b = (wide_a, short) if left else (short, wide_b)
        return wide_a * wide_b, labels
    size = dict(zip(la, a.shape, strict=True)) | dict(zip(lb, b.shape, strict=True))
    n, m, k, p = (numel(size[label] for label in part) for part in (batch, left, summed, right))
    if not (a.is_floating_point() or b.is_floating_point()):       # one of them may be a sum, and wider
        a, b = a.to(result_type(a, b)), b.to(result_type(a, b))
    wide_a = arranged(a, la, batch + left + summed).reshape(n, m, k)
    wide_b = arranged(b, lb, batch + summed + right).reshape(n, k, p)
    return bmm(wide_a, wide_b).reshape([size[label] for label in labels]), labels


@lru_cache(maxsize=1024)
def plan(equation, shape_a, shape_b):
    """How `pair` multiplies two operands where nothing else has to be done: what each is permuted and reshaped to, the
    shape of the product, and its order. None where sums of one operand, diagonals or broadcasting are part of it.
    """
    terms, out = parse_equation(equation)
    if len(terms) != 2 or out is None or any(ELLIPSIS in labels for labels in (*terms, out)):
        return None
    a, b = terms
    if any(len({*labels}) != len(labels) for labels in (a, b, out)) or len(a) != len(shape_a) or len(b) != len(shape_b):
        return None
    sizes = dict(zip(a, shape_a, strict=True)) | dict(zip(b, shape_b, strict=True))
    shared, kept = {*a} & {*b}, {*out}
    if kept - sizes.keys() or (({*a} ^ {*b}) - kept) or any(shape_a[a.index(d)] != shape_b[b.index(d)] for d in shared):
        return None
    batch, left, right = ([d for d in out if d in those] for those in (shared, {*a} - shared, {*b} - shared))
    summed = [d for d in a if d in shared - kept]
    if not summed:
        return None
    n, m, k, p = (numel(sizes[d] for d in part) for part in (batch, left, summed, right))
    labels = batch + left + right
    order_a, order_b = tuple(map(a.index, batch + left + summed)), tuple(map(b.index, batch + summed + right))
    shape, order = tuple(sizes[d] for d in labels), tuple(map(labels.index, out))
    return order_a, (n, m, k), order_b, (n, k, p), shape, order


def moved(x, order):
    return x if order == tuple(range(len(order))) else x.permute(order)


def by_plan(a, b, found):
    order_a, shape_a, order_b, shape_b, shape, order = found
    return moved(bmm(moved(a, order_a).reshape(shape_a), moved(b, order_b).reshape(shape_b)).reshape(shape), order)


# ---- the path


def after(i, j, terms, out):
    """The label sets when operands i and j have become one, which comes last."""
    rest = [t for k, t in enumerate(terms) if k not in (i, j)]
    needed = out.union(*rest) if rest else out
    return [*rest, (terms[i] | terms[j]) & needed]


def price(labels, sizes):
    return numel(sizes[label] for label in labels)


def search(terms, out, sizes, bound=float("inf")):
    """(multiplications, pairs) of the cheapest order, every order tried; None if none is below the bound."""
    if len(terms) < 2:
        return 0, []
    if len(terms) == 2:
        return (cost, [(0, 1)]) if (cost := price(terms[0] | terms[1], sizes)) < bound else None
    found = None
    for i, j in combinations(range(len(terms)), 2):
        cost = price(terms[i] | terms[j], sizes)
        if cost < bound:
            rest = search(after(i, j, terms, out), out, sizes, bound - cost)
            if rest is not None:
                bound = cost + rest[0]
                found = bound, [(i, j), *rest[1]]
    return found


def growth(i, j, terms, out, sizes):
    """What contracting operands i and j does to the elements that are held; among equals, the cheaper."""
    grown = price(after(i, j, terms, out)[-1], sizes) - price(terms[i], sizes) - price(terms[j], sizes)
    return grown, price(terms[i] | terms[j], sizes)


def path_of(terms, out, sizes):
    """Pairs to contract: the cheapest path of few operands, otherwise the pair that shrinks most, again and again."""
    terms = [set(labels) for labels in terms]
    out = set(out)
    if len(terms) <= SEARCHED:
        return search(terms, out, sizes)[1]
    pairs = []
    while len(terms) > 1:
        i, j = min(combinations(range(len(terms)), 2), key=lambda ij, terms=terms: growth(*ij, terms, out, sizes))
        pairs.append((i, j))
        terms = after(i, j, terms, out)
    return pairs


def contracted(operands, terms, out, sizes):
    position = {label: i for i, label in enumerate(out)}

    def rank(label):
        return position.get(label, len(out) + label)

    def needed(*but):
        return set(out).union(*(labels for k, labels in enumerate(terms) if k not in but))

    for i in range(len(operands)):
        operands[i], terms[i] = reduced(operands[i], terms[i], needed(i), sizes, len(operands) == 1)
    for i, j in path_of(terms, out, sizes):
        keep = needed(i, j)
        y, labels = pair(operands[i], terms[i], operands[j], terms[j], keep, rank)
        operands = [x for k, x in enumerate(operands) if k not in (i, j)] + [y]
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [labels]
        operands[-1], terms[-1] = reduced(y, labels, set(out).union(*terms[:-1]), sizes)
    x, labels = operands[0], terms[0]
    for label in out:                  # dropped for its size 1 by an operand that broadcast alone
        if label not in labels:
            x, labels = x.unsqueeze(-1), [*labels, label]
    return arranged(x, labels, out)


@composed("function")
def einsum(*args) -> Tensor:
    """Sums of products by an equation: ``einsum("bij,bjk->bik", x, y)``.

    Parameters
    ----------
    equation : str
        A letter for each dimension of each operand, ``...`` for dimensions that broadcast, and after ``->`` the
        result's; without ``->``, the letters that appear once, in alphabetical order.
    *operands : Tensor
        Or, instead of an equation, each operand followed by a list of ints below 52 (and Ellipsis), and at the end
        those of the result.

    Returns
    -------
    Tensor
        Contracted pair by pair in an order that is the cheapest for up to five operands and chosen greedily for more.

    Raises
    ------
    RuntimeError
        If equation and shapes do not fit.
    """
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one "
                         "operand and "
                         "its subscripts list")
    if isinstance(args[0], Tensor):
        operands, terms, out = parse_sublists(args)
    elif isinstance(args[0], str):
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
            operands = operands[0]
        if len(operands) == 2 and all(isinstance(x, Tensor) and x.is_floating_point() for x in operands):
            found = plan(args[0], tuple(operands[0].shape), tuple(operands[1].shape))
            if found is not None:
                return by_plan(*operands, found)
        terms, out = parse_equation(args[0])
    else:
        raise TypeError(f"einsum(): argument 'equation' must be str, not {type(args[0]).__name__}")
    operands = list(operands)
    for x in operands:
        check_tensor(x, "einsum", "operands")
    if len(terms) != len(operands):
        fewer = "fewer" if len(operands) < len(terms) else "more"
        raise RuntimeError(f"einsum(): {fewer} operands were provided than specified in the equation: {len(operands)} "
                           "for "
                           f"{len(terms)}")
    terms, dots = spell_ellipses(terms, operands)
    out = result_labels(out, terms, dots)
    for i in range(len(operands)):
        operands[i], terms[i] = without_repeats(operands[i], terms[i], i)
    return contracted(operands, terms, out, sizes_of(operands, terms))
