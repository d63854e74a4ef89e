"""What could go wrong beside the numbers: seeds before the first device, sizes that wrap around, memory of the CPU."""

import os
import subprocess
import sys
import threading

import pytest

import cygrad
from cygrad.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("any_devices")


def test_a_seed_from_before_the_first_use_of_a_device_counts():
    program = "import cygrad; cygrad.manual_seed({}); print(cygrad.randn(3, device='cuda').tolist())"

    def drawn(seed):
        return subprocess.run([sys.executable, "-c", program.format(seed)], env=os.environ | {"CYGRAD_CUDA_HOST": "1"},
                              capture_output=True, text=True, check=True, timeout=120).stdout

    assert drawn(7) == drawn(7) != drawn(8)
    cygrad.manual_seed(7)
    assert drawn(7).strip() == str(cygrad.randn(3, device="cuda").tolist())


def test_what_is_no_seed_changes_no_generator():
    cygrad.cuda.manual_seed_all(5)
    with pytest.raises((RuntimeError, ValueError)):
        cygrad.cuda.manual_seed_all(2**70)
    assert cygrad.cuda.initial_seed() == 5


@pytest.mark.parametrize("size", [2**63 - 1, 2**63 - 2**20, 2**60])
def test_sizes_near_the_largest_number_are_out_of_memory(size):
    kept = cygrad.arange(5.0).cuda()
    before = cygrad.cuda.memory_allocated()
    with pytest.raises(cygrad.cuda.OutOfMemoryError):
        cygrad.empty(size, dtype=cygrad.uint8, device="cuda")
    small = [cygrad.full((64,), float(i), device="cuda") for i in range(64)]
    assert kept.tolist() == [0, 1, 2, 3, 4] and all(x.tolist() == [i] * 64 for i, x in enumerate(small))
    del small
    assert cygrad.cuda.memory_allocated() == before


@pytest.mark.usefixtures("two_devices")
def test_a_checkpoint_draws_the_same_numbers_again():
    x = cygrad.ones(200, device="cuda", requires_grad=True)

    def dropped(x):
        return cygrad.nn.functional.dropout(x * x)

    y = checkpoint(dropped, x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.tolist() == (2 * (y.detach() > 0).float() * 2).tolist()
    with cygrad.random.fork_rng():
        inside = cygrad.randn(3, device="cuda:1").tolist()
    assert cygrad.randn(3, device="cuda:1").tolist() == inside


def test_weights_on_a_device_are_written_to_a_file(tmp_path):
    pytest.importorskip("safetensors")
    from cygrad.utils.safetensors import load_file, save_file

    save_file({"w": cygrad.arange(4.0).cuda(), "b": cygrad.ones(2)}, tmp_path / "w.safetensors")
    found = load_file(tmp_path / "w.safetensors")
    assert found["w"].tolist() == [0, 1, 2, 3] and found["b"].tolist() == [1, 1]


def test_an_index_on_the_cpu_is_moved_or_refused():
    """In a thread that has used no device, too."""
    found = []

    def write():
        x = cygrad.zeros(4, device="cuda")
        try:
            x.index_put_((cygrad.tensor(1),), cygrad.ones((), device="cuda"))
            found.append(x.tolist())
        except RuntimeError as error:
            found.append(str(error))

    write()
    other = threading.Thread(target=write)
    other.start()
    other.join()
    for said in found:
        assert said == [0, 1, 0, 0] or "device" in said


@pytest.mark.usefixtures("two_devices")
def test_streams_of_another_device_are_refused():
    x = cygrad.ones(3, device="cuda:0")
    with pytest.raises(RuntimeError, match="cuda:1"):
        x.record_stream(cygrad.cuda.Stream("cuda:1"))


def test_spread_of_what_is_not_finite():
    inf, nan = float("inf"), float("nan")
    for values in ([0.0, inf, 1.0], [0.0] * 40000 + [inf], [0.0, 1e200, 1.0], [nan, 1.0], [3.0, 3.0]):
        near = cygrad.tensor(values, dtype=cygrad.float64)
        for call in (cygrad.var, cygrad.std, lambda x: x.view(1, -1).var(1)[0]):
            cygrad.testing.assert_close(call(near.cuda()).cpu(), call(near), equal_nan=True)


def test_numbers_of_the_cpu_inside_vmap():
    x, mask = cygrad.randn(4, 5), cygrad.tensor([True, False, True, True, False])
    targets = cygrad.tensor([0, -100, 1, 2])

    def filled(a):
        return (a.masked_fill(mask.to(a.device), 0) * cygrad.tensor(2.0, device="cpu")).pow(2).sum()

    def loss(a, t):
        return cygrad.nn.functional.cross_entropy(a[None], t[None], reduction="sum")

    for call in (lambda x, t: cygrad.func.vmap(cygrad.func.grad(filled))(x),
                 lambda x, t: cygrad.func.vmap(cygrad.func.grad(loss))(x, t)):  # fmt: skip
        cygrad.testing.assert_close(call(x.cuda(), targets.cuda()).cpu(), call(x, targets), equal_nan=True)


def test_a_default_device_leaves_tensors_of_the_cpu_alone():
    x = cygrad.randn(1, 1, 4, 4)
    data = cygrad.utils.data.TensorDataset(cygrad.arange(6))
    with cygrad.device("cuda"):
        assert cygrad.frombuffer(bytearray(4), dtype=cygrad.uint8).is_cpu
        assert cygrad.default_generator.get_state().is_cpu
        assert cygrad.nn.functional.interpolate(x, scale_factor=2).is_cpu
        assert cygrad.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect").is_cpu
        assert cygrad.nn.init.trunc_normal_(cygrad.empty(3, 3, device="cpu")).is_cpu
        batches = cygrad.utils.data.DataLoader(data, 2)
        assert [b[0].tolist() for b in batches] == [[0, 1], [2, 3], [4, 5]]


def test_complex_numbers_through_indices():
    index, v = cygrad.zeros(3, dtype=cygrad.int64), cygrad.tensor([1 + 1j, 5, 2j])
    for device in ("cpu", "cuda"):
        i, w = index.to(device), v.to(device)
        for mode in ("amax", "amin"):
            with pytest.raises(NotImplementedError, match="scatter_reduce is not implemented for complex64"):
                cygrad.zeros(2, dtype=cygrad.complex64, device=device).scatter_reduce(0, i, w, mode)
        mean = cygrad.zeros(2, dtype=cygrad.complex64, device=device).scatter_reduce(0, i, w, "mean")
        cygrad.testing.assert_close(mean.cpu(), cygrad.tensor([1.5 + 0.75j, 0]))
