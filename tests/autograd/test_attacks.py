"""Programs that try to break the process: each runs in one of its own and must end by itself."""
import signal
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture(autouse=True)
def cygrad_alone(backend):
    """These are promises of this project; PyTorch crashes at some of them."""
    if backend != "cygrad":
        pytest.skip("PyTorch makes its objects otherwise")


def survives(program):
    """Run it; what it printed, or a failure that tells how it died."""
    text = "import gc\nimport cygrad as torch\nimport cygrad.autograd._core as core\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", text], capture_output=True,
                          text=True, timeout=120)
    died = signal.Signals(-done.returncode).name if done.returncode < 0 else done.returncode
    assert done.returncode == 0, f"{died}: {done.stderr[-3000:]}"
    return done.stdout


def test_a_tensor_that_was_never_initialised_is_empty():
    assert survives("""
        class Bare(torch.Tensor):
            def __init__(self): pass
        for x in (torch.Tensor.__new__(torch.Tensor), Bare.__new__(Bare), Bare()):
            print(tuple(x.shape), (x + 1).numel(), x[None].numel(), x.sum().item(), len(x.untyped_storage()))
    """) == "(0,) 0 0 0.0 0\n" * 3


def test_init_after_new_gives_the_elements_once():
    assert survives("""
        x = torch.Tensor.__new__(torch.Tensor)
        x.__init__([1.0, 2.0])
        x.__init__(5)
        made = torch.Tensor._make_subclass(torch.Tensor, torch.ones(1))
        print(x.tolist(), torch.Tensor([3.0]).tolist(), made.tolist())
    """) == "[1.0, 2.0] [3.0] [1.0]\n"


@pytest.mark.parametrize("name", ["Node", "FunctionCtx", "NodeExtra", "Extra", "LeafLink", "Pass", "SizesBlock",
                                  "RemovableHandle"])
def test_parts_of_the_graph_cannot_be_constructed(name):
    assert survives(f"""
        kind = core.{name}
        for make in (lambda: kind.__new__(kind), kind, lambda: object.__new__(kind)):
            try:
                repr(make())
            except TypeError:
                print("refused")
        gc.collect()
    """) == "refused\n" * 3


def test_a_function_whose_context_class_was_replaced():
    assert survives("""
        class F(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x: x * 2)
            backward = staticmethod(lambda ctx, g: g)
        F._backward_cls = int
        try:
            F.apply(torch.ones(2, requires_grad=True))
        except TypeError as e:
            print("_backward_cls" in str(e))
    """) == "True\n"


@pytest.mark.parametrize("sequence", ["Grows()", "Shrinks()", "[Short([1.0] * 9999)]", "numbers"])
def test_a_sequence_that_gives_another_number_of_elements_than_its_length(sequence):
    assert survives(f"""
        class Grows:
            times = 0
            def __len__(self): return 2
            def __getitem__(self, i): return 1.0
            def __iter__(self):
                self.times += 1
                yield from [1.0] * (2 if self.times == 1 else 99999)
        class Shrinks(Grows):
            def __iter__(self): yield 1.0
        class Short(list):
            def __len__(self): return 1
        class Adds(int):
            def __int__(self):
                numbers.extend([3] * 99999)
                return 3
        numbers = [1, Adds(2), 3]
        try:
            torch.tensor({sequence})
        except ValueError as e:
            print("expected a sequence of length" in str(e))
        gc.collect()
    """) == "True\n"


@pytest.mark.parametrize(("before", "after"), [(3, 99999), (99999, 3), (3, 1), (1, 3)])
def test_a_gradient_of_another_shape_than_grad_is_refused(before, after):
    assert survives(f"""
        x = torch.ones({before}, requires_grad=True)
        (x * 1).sum().backward()
        x.data = torch.ones({after})
        try:
            (x * 1).sum().backward()
        except RuntimeError as e:
            print("[{after}]" in str(e), "[{before}]" in str(e), tuple(x.grad.shape) == ({before},))
    """) == "True True True\n"


@pytest.mark.parametrize("returned", ["5", "'a'", "torch.ones(99999)", "torch.ones(0)", "torch.ones(3, 3)"])
@pytest.mark.parametrize("leaf", [False, True])
def test_a_prehook_must_return_a_gradient_of_the_output(returned, leaf):
    assert survives(f"""
        x = torch.ones(4, requires_grad=True)
        y = x * 1
        node = y.grad_fn.next_functions[0][0] if {leaf} else y.grad_fn
        node.register_prehook(lambda grads: ({returned},))
        try:
            y.sum().backward()
        except (RuntimeError, TypeError):
            print(x.grad)
    """) == "None\n"


@pytest.mark.parametrize("parts", ["(1,) * 65, (1,) * 65, 0", "(1,) * 9999, (1,) * 9999, 0", "(4,), (1,), 0",
                                   "(1,), (1,), -1", "(2**62, 4), (0, 0), 0"])
def test_forged_parts_of_a_pickled_tensor(parts):
    assert survives(f"""
        memory = torch.ones(3).untyped_storage()
        try:
            core.rebuild(torch.Tensor, memory, torch.float32, {parts}, False, {{}})
        except RuntimeError:
            print("refused")
        for kind in (int, 5, None, core.Node):
            try:
                core.rebuild(kind, memory, torch.float32, (3,), (1,), 0, False, {{}})
            except TypeError:
                print("refused")
    """) == "refused\n" * 5


def test_a_dtype_can_only_be_taken():
    assert survives("""
        memory = torch.ones(9).untyped_storage()
        for bad in ("float16", 6, None, object()):
            try:
                core.rebuild(torch.Tensor, memory, bad, (2,), (1,), 0, False, {})
            except TypeError:
                print("refused")
    """) == "refused\n" * 4


def test_bytes_of_a_bool_tensor_that_are_neither_0_nor_1():
    """Memory shared with others may hold any byte; every one but 0 is true, and none moves an index out of bounds."""
    assert survives("""
        import numpy as np
        odd = torch.from_numpy(np.frombuffer(b"\\x05\\x02\\x00\\xff" * 500, dtype=np.uint8).copy().view(np.bool_))
        true = torch.tensor([True, True, False, True] * 500)
        x = torch.arange(2000)
        t = torch.tensor(True)
        for f in (lambda b: b.nonzero(), lambda b: x[b], lambda b: x.masked_select(b), lambda b: x.masked_fill(b, 0),
                  lambda b: torch.where(b, x, -x), lambda b: b == t, lambda b: b ^ t, lambda b: b & t, lambda b: ~b,
                  lambda b: b + b, lambda b: b.long(), lambda b: b.float(), lambda b: b.to(torch.uint8),
                  lambda b: b.sum(), lambda b: b.sum(dtype=torch.float32), lambda b: b[::2].sum(), lambda b: b.prod(),
                  lambda b: b.view(4, -1).sum(0), lambda b: b.cumsum(0)):
            print(f(odd).tolist() == f(true).tolist() and torch.equal(odd, true))
    """) == "True\n" * 19


def test_a_forged_state_of_the_random_generator():
    assert survives("""
        import struct
        g = torch.Generator()
        state = bytearray(g.get_state().numpy().tobytes())
        struct.pack_into("<i", state, 8, 600)
        struct.pack_into("<i", state, 16, 624)
        try:
            g.set_state(torch.frombuffer(state, dtype=torch.uint8))
        except RuntimeError:
            print("refused")
    """) == "refused\n"


@pytest.mark.parametrize("call", [
    "torch.empty(items)", "x.sum(items)", "x.view(items)", "x.permute(items)", "torch.flip(x, items)",
    "torch.roll(x, items, (0, 1))", "torch.as_strided(x, items, (1, 1))", "torch.constant_pad_nd(x, items)",
    "x.squeeze(items)", "x.resize_(items)", "torch.randint(3, items)", "x.movedim(items, (0, 1))",
])
def test_a_list_that_is_emptied_while_it_is_read(call):
    assert survives(f"""
        class Clears:
            def __index__(self):
                items.clear()
                return 1
        items, x = [], torch.ones(3, 3)
        items.extend([Clears(), 1, 1, 1])
        try:
            {call}
        except RuntimeError as e:
            print("changed its length" in str(e), x.tolist() == [[1.0] * 3] * 3)
    """) == "True True\n"
