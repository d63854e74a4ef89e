"""Einstein summation against NumPy's, its path, and its error messages."""

import numpy as np
import pytest

import cygrad as torch
from cygrad.autograd.composed.einsum import path_of

EQUATIONS = [
    "ij->", "ij->ji", "ij->j", "ii->i", "ii", "iij->ji", "ij,jk", "ij,jk->ki", "ij,ij->", "i,j->ij", "i,j->ji",
    "ij,j->i", "bij,bjk->bik", "bij,bjk->kib", "bij,kj->bki", "...ij,...jk->...ik", "i...,i->...", "...,...",
    "...ij->...",
    "ij,jk,kl->il", "ij,jk,kl,lm->mi", "ab,bc,cd,de,ef,fa->", "ij,ik,il->jkl", "aab,b->a", "ij , jk -> i k", "i,i,i->i",
    "ijk,jl,k->li", "ij,kl->", "Ab,bA->A", "ab...,b->a...",
]


def operands(equation, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {c: 2 + ord(c) % 3 for c in equation if c.isalpha()}
    found = []
    for term in equation.split("->")[0].replace(" ", "").split(","):
        shape = []
        for part in term.replace("...", "."):
            shape += [2, 3] if part == "." else [sizes[part]]
        found.append(rng.standard_normal(shape))
    return found


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_is_numpys(equation):
    arrays = operands(equation)
    want = np.einsum(equation.replace(" ", ""), *arrays)
    np.testing.assert_allclose(torch.einsum(equation, *map(torch.from_numpy, arrays)).numpy(), want)
    found = torch.einsum(equation, [torch.from_numpy(x.T.copy()).permute(*range(x.ndim)[::-1]) for x in arrays])
    np.testing.assert_allclose(found.numpy(), want)


def test_lists_of_subscripts():
    a, b = map(torch.from_numpy, operands("ij,jk"))
    want = torch.einsum("ij,jk->ki", a, b)
    assert torch.allclose(torch.einsum(a, [0, 1], b, [1, 2], [2, 0]), want)
    assert torch.allclose(torch.einsum(a, [..., 1], b[:, :2], [1, ...], [...]), torch.einsum("ij,ji->i", a, b[:, :2]))


def test_sizes_of_1_broadcast():
    a, b = torch.ones(1, 3), torch.ones(4, 3)
    assert torch.einsum("ij,ij->ij", a, b).shape == (4, 3)
    assert torch.einsum("ij,ij->", a, b).item() == 12
    assert torch.einsum("ij,ij->j", torch.ones(4, 1), b).tolist() == [4.0, 4.0, 4.0]
    assert torch.einsum("ij->ij", a).shape == (1, 3)


def test_views_and_integers():
    a = torch.arange(9).reshape(3, 3)
    diagonal = torch.einsum("ii->i", a)
    assert diagonal.data_ptr() == a.data_ptr() and diagonal.tolist() == [0, 4, 8]
    assert torch.einsum("ij,jk->ik", a, a).tolist() == (a @ a).tolist()
    assert torch.einsum("ij,j->i", torch.zeros(0, 3), torch.ones(3)).shape == (0,)
    assert torch.einsum("ij,jk->ik", torch.ones(2, 0), torch.ones(0, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_path_is_the_cheapest():
    sizes = {"a": 100, "b": 2, "c": 100, "d": 3}
    pairs = path_of([["a", "b"], ["b", "c"], ["c", "d"]], ["a", "d"], sizes)
    assert pairs[0] == (1, 2)          # (bc)(cd) first: 600 multiplications instead of 20,000
    many = [[i, i + 1] for i in range(9)]
    assert len(path_of(many, [0, 9], dict.fromkeys(range(10), 2))) == 8


@pytest.mark.parametrize(("args", "message"), [
    (("ij,jk->il", torch.ones(2, 2), torch.ones(2, 2)), "output subscript l does not appear"),
    (("ij->ii", torch.ones(2, 2)), "output subscript i appears more than once"),
    (("ij", torch.ones(2)), r"number of subscripts in the equation \(2\) does not match.*\(1\) for operand 0"),
    (("ij,jk", torch.ones(2, 2)), "fewer operands"),
    (("ij", torch.ones(2, 2), torch.ones(2, 2)), "more operands"),
    (("ij,jk", torch.ones(2, 3), torch.ones(2, 2)), "subscript j has size 2 for operand 1.*size 3"),
    (("ii", torch.ones(2, 3)), "subscript i is repeated for operand 0.*3 != 2"),
    (("i1", torch.ones(2, 3)), "invalid subscript given at index 1"),
    (("i.j", torch.ones(2, 3)), "found '.' for operand 0 that is not part of any ellipsis"),
    (("...i...", torch.ones(2, 3)), "ellipsis was already found"),
    (("ijk...", torch.ones(2, 3)), "more than the number of dimensions"),
])
def test_wrong_equations(args, message):
    with pytest.raises(RuntimeError, match=message):
        torch.einsum(*args)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="at least one operand"):
        torch.einsum("ij")
    with pytest.raises(ValueError, match="range"):
        torch.einsum(torch.ones(2), [52])
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.einsum("i", [1.0])
