"""Forward mode: dual tensors, their errors, views and writes, its meeting with backward, custom Functions."""

import gc
import threading
import weakref

import pytest

import cygrad
import cygrad.autograd.forward_ad as fw


def t64(x):
    return cygrad.tensor(x, dtype=cygrad.float64)


def values(x):
    return None if x is None else x.tolist()


def tangent(x):
    return fw.unpack_dual(x).tangent


@pytest.fixture
def level():
    with fw.dual_level():
        yield


# ---- levels


def test_no_level():
    x = t64([1.0])
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(x, x)
    assert fw.unpack_dual(x) == (x, None)
    with pytest.raises(RuntimeError, match="level"):
        fw.exit_dual_level()


def test_levels_of_forward_ad_do_not_nest(level):
    with pytest.raises(RuntimeError, match="Nested forward mode"):
        fw.enter_dual_level()


def test_enter_and_exit():
    assert fw.enter_dual_level() == 0
    d = fw.make_dual(t64(1.0), t64(2.0), level=0)
    with pytest.raises(RuntimeError, match="last one"):
        fw.exit_dual_level(level=5)
    assert values(tangent(d)) == 2
    fw.exit_dual_level(level=0)
    assert tangent(d) is None


def test_tangents_end_with_their_level():
    kept = t64([1.0, 2.0])
    with fw.dual_level():
        d = fw.make_dual(t64([3.0, 4.0]), kept)
        y = d * 2
        part = y[:1]
    death = weakref.ref(kept)
    del kept
    gc.collect()
    assert death() is None
    with fw.dual_level():
        assert tangent(y) is tangent(part) is tangent(y * 3) is None
        z = fw.make_dual(y, t64([1.0, 1.0]))
        assert values(tangent(z * 3)) == [3, 3]


@fw.dual_level()
def squared(x):
    return tangent(fw.make_dual(x, cygrad.ones_like(x)) ** 2)


def test_as_decorator():
    assert values(squared(t64(3.0))) == 6
    assert values(squared(t64(4.0))) == 8


def test_a_level_is_its_threads(level):
    d, found = fw.make_dual(t64(1.0), t64(1.0)), []
    thread = threading.Thread(target=lambda: found.append(squared(t64(5.0)).item()))
    thread.start()
    thread.join()
    assert found == [10]
    assert values(tangent(d * 2)) == 2


# ---- make_dual and unpack_dual


def test_what_make_dual_refuses(level):
    x, i = t64([1.0, 2.0]), cygrad.tensor([1, 2])
    with pytest.raises(RuntimeError, match=r"\[2\].*\[1, 2\]"):
        fw.make_dual(x, x[None])
    with pytest.raises(ValueError, match=r"primal.*int64"):
        fw.make_dual(i, x)
    with pytest.raises(ValueError, match=r"tangent.*int64"):
        fw.make_dual(x, i)
    with pytest.raises(TypeError, match=r"tangent.*float"):
        fw.make_dual(x, 2.0)
    with pytest.raises(TypeError, match="float"):
        fw.unpack_dual(2.0)
    d = fw.make_dual(x, x)
    with pytest.raises(RuntimeError, match="primal"):
        fw.make_dual(d, x)
    with pytest.raises(RuntimeError, match="tangent"):
        fw.make_dual(x, d)
    with pytest.raises(RuntimeError, match="level"):
        fw.make_dual(x, x, level=3)
    assert fw.unpack_dual(d, level=3).tangent is None


def test_unpack_dual(level):
    x, t = t64([1.0, 2.0]), t64([3.0, 4.0])
    d = fw.make_dual(x, t)
    both = fw.unpack_dual(d)
    assert isinstance(both, fw.UnpackedDualTensor)
    assert both.tangent is t
    assert both.primal.data_ptr() == d.data_ptr() == x.data_ptr()
    assert tangent(both.primal) is tangent(x) is None
    assert repr(d.float()) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
    y = d * 2
    assert tangent(fw.unpack_dual(y).primal * 2) is None


def test_a_tangent_of_another_dtype(level):
    d = fw.make_dual(cygrad.tensor([1.0, 2.0]), t64([3.0, 4.0]))
    assert tangent(d * 2).dtype is cygrad.float32


def test_what_keeps_a_tangent(level):
    d = fw.make_dual(t64([1.0, 2.0]), t64([3.0, 4.0]))
    assert tangent(d.detach()) is tangent(d.data) is None
    for y in (d.clone(), d.view(2), d.requires_grad_(False), d.to(cygrad.float64), d.as_subclass(cygrad.Tensor)):
        assert values(tangent(y)) == [3, 4]
    assert values(tangent(d.float())) == [3, 4]
    y = d * 2
    assert tangent(y.detach_() * 1) is None
    assert tangent(d > 0) is tangent(d.int()) is None
    assert values(tangent(d.floor())) == values(tangent(d.sign())) == [0, 0]
    assert d.numpy().tolist() == d.tolist() == [1, 2]


def test_an_expanded_primal_is_copied(level):
    d = fw.make_dual(t64([1.0]).expand(3), t64([1.0, 2.0, 3.0]))
    assert values(tangent(d[1:])) == [2, 3]
    assert values(tangent(d.sum())) == 6


def test_out_is_refused(level):
    d = fw.make_dual(t64([1.0]), t64([1.0]))
    with pytest.raises(NotImplementedError, match="out="):
        cygrad.add(d, d, out=t64([0.0]))
    with pytest.raises(NotImplementedError, match="out="):
        cygrad.add(t64([0.0]), 1, out=d)


# ---- modes


def test_no_grad_does_not_stop_forward_mode(level):
    x = t64([1.0, 2.0]).requires_grad_()
    d = fw.make_dual(x, t64([1.0, 0.0]))
    with cygrad.no_grad():
        y = (d * d).sum()
        z = y.clone()
        z.mul_(d[0])
    assert not y.requires_grad
    assert values(tangent(y)) == 2
    assert values(tangent(z)) == 2 * 1 + 5


def test_inference_mode_sees_no_tangents(level):
    with cygrad.inference_mode():
        y = fw.make_dual(t64(3.0), t64(1.0)) * 2
    assert tangent(y) is None


def test_hooks_on_saved_tensors_hand_tangents_on(level):
    x = t64([1.0, 2.0]).requires_grad_()
    with cygrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = cube(fw.make_dual(x, t64([1.0, 0.5])))
        assert values(tangent(y)) == 9
        assert not (fw.make_dual(x.detach(), x.detach()) * 2).exp().requires_grad
    assert values(tangent(cygrad.autograd.grad(y, x)[0])) == [6, 6]


def test_forward_mode_can_be_switched_off(level):
    d = fw.make_dual(t64(3.0), t64(1.0))
    assert fw._is_fwd_grad_enabled()
    with fw._set_fwd_grad_enabled(False):
        assert not fw._is_fwd_grad_enabled()
        y = d * 2
    assert tangent(y) is None
    assert values(tangent(d * 2)) == 2


def test_nothing_is_recorded_for_backward(level):
    d = fw.make_dual(t64([1.0, 2.0]), t64([3.0, 4.0]))
    for y in (d * 2, d.view(2, 1), d[0], d.sum(), cygrad.cat([d, d]), d.clone().mul_(2), *d.unbind(), d.exp().log()):
        assert not y.requires_grad
        assert y.grad_fn is None
        assert y.is_leaf


def test_only_what_needs_gradients_is_recorded(level):
    w = t64([1.0, 2.0]).requires_grad_()
    d = fw.make_dual(t64([3.0, 4.0]), t64([1.0, 0.0]))
    y = w * d
    assert y.grad_fn.next_functions[1] == (None, 0)
    y.sum().backward()
    assert values(w.grad) == [3, 4]
    assert d.grad is None


# ---- views and writes


def test_writes_reach_tangents_of_views_and_bases(level):
    x = cygrad.zeros(4, dtype=cygrad.float64)
    before = x[1:3]
    d = fw.make_dual(t64(5.0), t64(7.0))
    x[2] = d
    assert values(tangent(x)) == [0, 0, 7, 0]
    assert values(tangent(before)) == [0, 7]
    before.mul_(2)
    assert values(tangent(x)) == [0, 0, 14, 0]
    matrix = x.view(2, 2).t()
    matrix[1] = t64([1.0, 1.0])
    assert values(tangent(x)) == [0, 0, 14, 0]
    x[3] = d * d
    assert values(tangent(matrix)) == [[0, 14], [0, 70]]
    assert values(tangent(matrix[1])) == [0, 70]
    x.zero_()
    assert values(tangent(before)) == [0, 0]


def test_the_users_tangent_is_not_written(level):
    t = t64([1.0, 1.0])
    d = fw.make_dual(t64([1.0, 2.0]), t)
    d.mul_(3)
    d[0] = 7
    assert values(tangent(d)) == [0, 3]
    assert values(t) == [1, 1]


def test_shape_changes_in_place(level):
    d = fw.make_dual(t64([[1.0, 2.0, 3.0]]), t64([[4.0, 5.0, 6.0]]))
    y = d.clone()
    y.t_()
    assert values(tangent(y)) == [[4], [5], [6]]
    y.squeeze_().unsqueeze_(0)
    assert values(tangent(y)) == [[4, 5, 6]]
    assert values(tangent(y[0, 1:])) == [5, 6]


def test_parts_of_complex_numbers(level):
    z = cygrad.zeros(2, dtype=cygrad.complex128)
    d = fw.make_dual(t64([1.0, 2.0]), t64([3.0, 4.0]))
    cygrad.view_as_real(z)[:, 1] = d
    assert values(tangent(z)) == [3j, 4j]
    assert values(tangent((z * z).real)) == [-6, -16]
    r = cygrad.zeros(2, 2, dtype=cygrad.float64)
    cygrad.view_as_complex(r)[1] = z[1]
    assert values(tangent(r)) == [[0, 0], [0, 4]]
    assert values(tangent(z.abs())) == [3, 4]


def test_drawing_over_a_dual_ends_its_tangent(level):
    d = fw.make_dual(t64([1.0, 2.0]), t64([3.0, 4.0])).clone()
    d.normal_()
    assert values(tangent(d)) == [0, 0]


# ---- together with backward


def cube(x):
    return (x * x * x).sum()


def test_forward_over_reverse(level):
    x = t64([1.0, 2.0]).requires_grad_()
    d = fw.make_dual(x, t64([1.0, 0.5]))
    for create in (False, True):
        (g,) = cygrad.autograd.grad(cube(d), x, create_graph=create)
        assert values(g) == [3, 12]
        assert values(tangent(g)) == [6, 6]


def test_gradients_that_meet_keep_tangents(level):
    x = t64([1.0, 2.0]).requires_grad_()
    d = fw.make_dual(x, t64([1.0, 0.5]))
    (cube(d) + cube(d)).backward()
    assert values(tangent(x.grad)) == [12, 12]
    cube(d).backward()
    assert values(x.grad) == [9, 36]
    assert values(tangent(x.grad)) == [18, 18]


def test_reverse_over_forward(level):
    x = t64([1.0, 2.0]).requires_grad_()
    v = t64([1.0, 0.5]).requires_grad_()
    t = tangent(cube(fw.make_dual(x, v)))
    assert values(t) == 3 + 6
    gx, gv = cygrad.autograd.grad(t, (x, v))
    assert values(gx) == [6, 6]
    assert values(gv) == [3, 12]


def test_reverse_over_forward_through_writes(level):
    x = t64([1.0, 2.0]).requires_grad_()
    d = fw.make_dual(x, t64([1.0, 0.5]))
    y = d * 1
    y[0] = d[1] * d[0]
    y.exp_()
    t = tangent(y).sum()
    assert t.item() == pytest.approx(cygrad.exp(t64(2.0)).item() * 3)
    (g,) = cygrad.autograd.grad(t, x)
    e = cygrad.exp(t64(2.0)).item()
    assert g.tolist() == pytest.approx([e * (2 * 2.5 + 0.5), e * (2.5 + 1 + 0.5)])


def test_hooks_see_tangents(level):
    x = t64([1.0, 2.0]).requires_grad_()
    seen = []
    y = fw.make_dual(x, t64([1.0, 0.5])) * 1
    y.register_hook(lambda g: seen.append(values(tangent(g))))
    cube(y).backward()
    assert seen == [[6, 6]]


# ---- custom Functions


class Scaled(cygrad.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, factor):
        assert tangent(x * 1) is None
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * ctx.factor, g * x * ctx.factor, None

    @staticmethod
    def jvp(ctx, tx, ty, nothing):
        assert nothing is None
        x, y = ctx.saved_tensors
        return (tx * y + x * ty) * ctx.factor


def test_function_jvp(level):
    x, y = fw.make_dual(t64([1.0, 2.0]), t64([1.0, 0.5])), t64([3.0, 4.0])
    assert values(tangent(Scaled.apply(x, y, 2))) == [6, 4]
    w = t64([1.0, 1.0]).requires_grad_()
    t = tangent(Scaled.apply(x * w, y, 2))
    assert values(cygrad.autograd.grad(t.sum(), w)[0]) == [6, 4]


def test_function_without_jvp(level):
    class Plain(cygrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="jvp"):
        Plain.apply(fw.make_dual(t64(1.0), t64(1.0)))
    assert Plain.apply(t64(1.0)).item() == 2


def two_outputs(result, materialize=True):
    class Two(cygrad.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(materialize)
            return x * 1, y * 2

        @staticmethod
        def jvp(ctx, *tangents):
            Two.seen = [values(t) for t in tangents]
            return result

    outputs = Two.apply(fw.make_dual(t64([1.0]), t64([5.0])), t64([1.0]))
    return Two.seen, [values(tangent(y)) for y in outputs]


def test_what_jvp_receives_and_returns(level):
    one = t64([1.0])
    assert two_outputs((one, one)) == ([[5], [0]], [[1], [1]])
    assert two_outputs((one, None), False) == ([[5], None], [[1], None])
    with pytest.raises(RuntimeError, match="expected 2 but got 1"):
        two_outputs(one)
    with pytest.raises(RuntimeError, match="different size"):
        two_outputs((t64([1.0, 2.0]), one))
    with pytest.raises(RuntimeError, match="str"):
        two_outputs(("a", one))


def test_function_that_writes_its_input(level):
    class Double(cygrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    x = fw.make_dual(t64([1.0, 2.0]), t64([3.0, 4.0])).clone()
    y = Double.apply(x)
    assert y is x
    assert values(tangent(x)) == [6, 8]


def test_linear_algebra(level):
    a = t64([[4.0, 1.0], [1.0, 3.0]])
    d = fw.make_dual(a, t64([[0.0, 1.0], [1.0, 0.0]]))
    assert cygrad.linalg.det(d).item() == pytest.approx(11)
    assert tangent(cygrad.linalg.det(d)).item() == pytest.approx(-2)
    inverse = cygrad.linalg.inv(a)
    expected = -(inverse @ t64([[0.0, 1.0], [1.0, 0.0]]) @ inverse)
    assert cygrad.allclose(tangent(cygrad.linalg.inv(d)), expected)
    assert not cygrad.linalg.inv(d).requires_grad
    factor = cygrad.linalg.cholesky(d)
    assert cygrad.allclose(tangent(factor @ factor.mT), tangent(d))
    q, r = cygrad.linalg.qr(d)
    assert cygrad.allclose(tangent(q @ r), tangent(d))
    w = cygrad.linalg.eigvalsh(d)
    assert tangent(w.sum()).item() == pytest.approx(0)


@pytest.mark.parametrize("of_parts", [False, True])
def test_as_strided_shows_no_tangent_beyond_that_of_its_base(level, of_parts):
    memory = cygrad.arange(8.0)
    base = memory.view(4, 2)[1:, :] if of_parts else memory[2:]
    x = fw.make_dual(base, cygrad.full_like(base, 1.0).cumsum(0))
    y = x.as_strided((2, 3), (1, 2), 1)
    assert y.tolist() == [[1, 3, 5], [2, 4, 6]]
    want = [[0, 1, 2], [1, 2, 3]] if of_parts else [[0, 2, 4], [1, 3, 5]]
    assert tangent(y).tolist() == want


def test_what_is_written_beyond_a_dual_is_kept_by_no_tangent(level):
    x = fw.make_dual(cygrad.zeros(8)[2:], cygrad.full((6,), 9.0))
    x.as_strided((4,), (1,), 1).copy_(fw.make_dual(cygrad.ones(4), cygrad.arange(1.0, 5.0)))
    assert x.tolist() == [1, 1, 1, 0, 0, 0]
    assert tangent(x).tolist() == [2, 3, 4, 9, 9, 9]


# ---- hooks on what is saved


@pytest.mark.parametrize("f", [
    lambda x: x.exp(), lambda x: x * x, lambda x: x.sin() * 2, lambda x: x.prod(), lambda x: x @ x,
    lambda x: x.softmax(0), lambda x: x / x.sum(), lambda x: (x * 1).mul_(x), lambda x: (x * 1).exp_(),
    lambda x: x.cumprod(0), lambda x: x[x > 1], lambda x: cygrad.cat([x, x * x]), lambda x: x.lerp(x * x, x)])
def test_hooks_on_what_is_saved_leave_tangents_alone(level, f):
    """A tangent is found from the tensors themselves; what the hooks give is for backward."""
    packed = []

    def pack(t):
        packed.append(t)
        return t.tolist(), t.dtype

    def unpack(pair):
        return cygrad.tensor(pair[0], dtype=pair[1])

    x, v = t64([0.5, 2.0, 3.0]).requires_grad_(), t64([1.0, 10.0, 100.0])
    wanted = tangent(f(fw.make_dual(x, v)))
    (wanted_grad,) = cygrad.autograd.grad(f(x).sum(), x)
    with cygrad.autograd.graph.saved_tensors_hooks(pack, unpack):
        assert values(tangent(f(fw.make_dual(x.detach(), v)))) == values(wanted)
        assert packed == []              # nothing is saved where nothing needs a gradient
        y = f(fw.make_dual(x, v))
    assert values(tangent(y)) == values(wanted) and packed
    # the gradient of a packed product is that of values without history
    y.sum().backward()
    assert values(x.grad) == values(wanted_grad)


def test_a_view_is_written_back_where_it_came_from(torch):
    """``y[1:] += v`` reads a view, writes it, and assigns it to where it is already: the tangent stays."""

    def f(x):
        y = torch.zeros(3, dtype=x.dtype)
        y[:2] = x**3
        y[2:] += x[:1] * x[1:]
        y[1:] *= x[0]
        return y

    x = torch.tensor([2.0, 3.0], dtype=torch.float64)
    for k, column in enumerate(([12.0, 27.0, 12.0], [0.0, 54.0, 4.0])):
        tangent = torch.eye(2, dtype=torch.float64)[k]
        assert torch.func.jvp(f, (x,), (tangent,))[1].tolist() == column
