"""Weights files: round trips, tied weights, complete writes, and files that are damaged or missing."""

import json
import os
import struct

import numpy as np
import pytest


@pytest.fixture
def tensors(torch, seeded):
    return {
        "matrix": torch.randn(3, 4),
        "double": torch.randn(5, dtype=torch.float64),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "int64": torch.arange(4),
        "int32": torch.arange(3, dtype=torch.int32),
        "uint8": torch.tensor([0, 255], dtype=torch.uint8),
        "bool": torch.tensor([True, False]),
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


def same(a, b):
    return set(a) == set(b) and all(
        a[k].tolist() == b[k].tolist() and a[k].dtype == b[k].dtype and a[k].shape == b[k].shape for k in a
    )


def test_round_trip(safetensors, tensors, path):
    safetensors.save_file(tensors, path, metadata={"by": "test"})
    loaded = safetensors.load_file(path)
    assert same(loaded, tensors)
    loaded["matrix"].zero_()
    assert same(safetensors.load_file(str(path)), tensors)
    assert json.loads(path.read_bytes()[8:][: struct.unpack("<Q", path.read_bytes()[:8])[0]])["__metadata__"] == {
        "by": "test"
    }


def test_round_trip_in_memory(safetensors, tensors):
    loaded = safetensors.load(safetensors.save(tensors))
    assert same(loaded, tensors)
    loaded["matrix"].zero_()


def test_parameters_are_saved_as_values(torch, nn, safetensors, path):
    layer = nn.Linear(2, 2)
    safetensors.save_file(dict(layer.named_parameters()), path)
    assert not safetensors.load_file(path)["weight"].requires_grad
    other = nn.Linear(2, 2)
    other.load_state_dict(safetensors.load_file(path))
    assert other.weight.tolist() == layer.weight.tolist()


def test_the_library_for_torch_reads_and_writes_the_same_files(torch, safetensors, tensors, path, oracle):
    from safetensors import torch as reference

    safetensors.save_file(tensors, path)
    theirs = reference.load_file(path)
    assert {k: v.tolist() for k, v in theirs.items()} == {k: v.tolist() for k, v in tensors.items()}
    assert {k: str(v.dtype) for k, v in theirs.items()} == {k: str(v.dtype) for k, v in tensors.items()}
    reference.save_file(theirs, path)
    assert same(safetensors.load_file(path), tensors)


# ---- shared memory
def test_tied_weights_are_refused(torch, safetensors, path):
    w = torch.zeros(2, 3)
    for tied in ({"a.weight": w, "b.weight": w}, {"a.weight": w, "b.weight": w.view(6)}):
        with pytest.raises(RuntimeError, match=r"a\.weight.*b\.weight|b\.weight.*a\.weight"):
            safetensors.save_file(tied, path)
    assert not path.exists()


def test_parts_of_one_block_that_do_not_overlap(torch, safetensors, path, beyond_pytorch):
    block = torch.arange(6.0)
    parts = {"first": block[:3], "second": block[3:]}
    safetensors.save_file(parts, path)
    assert same(safetensors.load_file(path), parts)
    with pytest.raises(RuntimeError, match="first"):
        safetensors.save_file({"first": block[:4], "second": block[3:]}, path)


def test_tensors_that_are_not_contiguous(torch, safetensors, path):
    with pytest.raises(ValueError, match="contiguous"):
        safetensors.save_file({"w": torch.zeros(2, 3).t()}, path)


class TestModels:
    @pytest.fixture
    def make(self, nn):
        def make():
            net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
            net[1].weight = net[0].weight
            return net

        return make

    def test_tied_weights_are_saved_once(self, safetensors, make, path):
        source, target = make(), make()
        safetensors.save_model(source, path)
        assert set(safetensors.load_file(path)) == {"0.weight", "0.bias", "1.bias"}
        missing, unexpected = safetensors.load_model(target, path)
        assert not missing and not unexpected and target[1].weight is target[0].weight
        assert target[1].weight.tolist() == source[1].weight.tolist()

    def test_untied_model_misses_a_weight(self, nn, safetensors, make, path):
        safetensors.save_model(make(), path)
        target = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(1, 1))
        with pytest.raises(RuntimeError, match=r"(?s)Missing.*1\.weight.*2\.weight"):
            safetensors.load_model(target, path)
        missing, unexpected = safetensors.load_model(target, path, strict=False)
        assert sorted(missing) == ["1.weight", "2.bias", "2.weight"] and not unexpected

    def test_a_file_with_more_changes_nothing(self, nn, safetensors, make, path, beyond_pytorch):
        safetensors.save_model(make(), path)
        target = nn.Sequential(nn.Linear(3, 3))
        before = target[0].weight.tolist()
        with pytest.raises(RuntimeError, match=r"(?s)Unexpected.*1\.bias"):
            safetensors.load_model(target, path)
        assert target[0].weight.tolist() == before

    def test_layouts(self, torch, nn, safetensors, path):
        layer = nn.Linear(2, 3, bias=False)
        layer.weight = nn.Parameter(layer.weight.detach().t().contiguous().t())
        safetensors.save_model(layer, path)
        assert safetensors.load_file(path)["weight"].tolist() == layer.weight.tolist()
        with pytest.raises(ValueError, match="contiguous"):
            safetensors.save_model(layer, path, force_contiguous=False)


# ---- files
def test_a_missing_file(safetensors, path):
    with pytest.raises(FileNotFoundError, match=r"weights\.safetensors"):
        safetensors.load_file(path)


def test_a_missing_folder(safetensors, tensors, path, beyond_pytorch):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        safetensors.save_file(tensors, path.parent / "nowhere" / "x.safetensors")
    with pytest.raises(IsADirectoryError):
        safetensors.save_file(tensors, path.parent)


def damaged(whole):
    """Contents of files that are no complete safetensors file."""
    header = struct.unpack("<Q", whole[:8])[0]

    def with_header(text):
        return struct.pack("<Q", len(text)) + text + bytes(64)

    yield from (whole[:n] for n in (0, 4, 8, 8 + header // 2, 8 + header, len(whole) - 1))
    yield whole + b"more"
    yield b"PK\x03\x04" + whole
    yield struct.pack("<Q", 2**63) + whole[8:]
    yield with_header(b"not json")
    yield with_header(b'{"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 400]}}')
    yield with_header(b'{"w": {"dtype": "F32", "shape": [400000000000], "data_offsets": [0, 64]}}')
    yield with_header(b'{"w": {"dtype": "X99", "shape": [16], "data_offsets": [0, 64]}}')


def test_damaged_files(safetensors, tensors, path, beyond_pytorch):
    safetensors.save_file(tensors, path)
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(safetensors.SafetensorError, match=r"weights\.safetensors: .*\(.+\)"):
            safetensors.load_file(path)


def test_types_that_are_not_supported(safetensors, path, beyond_pytorch):
    header = b'{"w": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(TypeError, match=r"weights\.safetensors.*'w'.*F8_E4M3"):
        safetensors.load_file(path)
    with pytest.raises(TypeError, match="F8_E4M3"):
        safetensors.load(path.read_bytes())


@pytest.mark.parametrize("content", [3, [1], {"a": 1}, {"a": np.zeros(2)}])
def test_what_cannot_be_saved(safetensors, path, content):
    with pytest.raises(ValueError):
        safetensors.save_file(content, path)
    assert not path.exists()


def test_a_failed_write_leaves_the_old_file(safetensors, tensors, path, monkeypatch, beyond_pytorch):
    safetensors.save_file(tensors, path)
    old = path.read_bytes()
    with pytest.raises(TypeError):
        safetensors.save_file({"other": tensors["matrix"]}, path, metadata={"n": 3})

    def full(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        safetensors.save_file({"other": tensors["matrix"]}, path)
    assert path.read_bytes() == old and os.listdir(path.parent) == [path.name]


def test_writing_through_a_link(safetensors, tensors, path, beyond_pytorch):
    link = path.parent / "link"
    link.symlink_to(path.name)
    safetensors.save_file(tensors, link)
    assert link.is_symlink() and same(safetensors.load_file(path), tensors)


def test_a_weights_file_is_as_readable_as_other_files(safetensors, tensors, path, beyond_pytorch):
    safetensors.save_file(tensors, path)
    other = path.parent / "other"
    other.write_bytes(b"")
    assert path.stat().st_mode == other.stat().st_mode


# ---- mapped files, and parts of them
def test_halves(torch, safetensors, path, oracle):
    from safetensors import torch as reference

    values = {"b": torch.tensor([1.5, -2.0]).bfloat16(), "h": torch.ones(3).half(), "c": torch.ones(2) * 1j}
    safetensors.save_file(values, path)
    assert same(safetensors.load_file(path), values) and same(safetensors.load(safetensors.save(values)), values)
    theirs = reference.load_file(path)
    assert {name: str(value.dtype) for name, value in theirs.items()} == {
        name: str(value.dtype) for name, value in values.items()
    }
    assert theirs["b"].tolist() == [1.5, -2]
    reference.save_file(theirs, path)
    assert same(safetensors.load_file(path), values)


def test_types_that_the_format_has_not(torch, safetensors, path, beyond_pytorch):
    with pytest.raises(ValueError, match=r"'w'.*complex128"):
        safetensors.save_file({"w": torch.ones(2, dtype=torch.complex128)}, path)
    assert not path.exists()


def test_a_file_is_not_read_before_it_is_used(torch, safetensors, path, beyond_pytorch):
    import resource

    safetensors.save_file({"large": torch.zeros(64 << 20, dtype=torch.uint8), "small": torch.arange(3)}, path)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    before = resident()
    loaded = safetensors.load_file(path)
    assert loaded["small"].tolist() == [0, 1, 2] and resident() - before < 32 << 20
    loaded["large"][5] = 9  # in memory only
    safetensors.save_file({"other": torch.ones(1)}, path)  # replaces the file, under the mapping
    assert loaded["large"][5] == 9 and loaded["large"].sum() == 9
    assert list(safetensors.load_file(path)) == ["other"]


def test_single_tensors_and_parts(torch, safetensors, tensors, path, backend):
    if backend == "torch":
        from safetensors import safe_open
    else:
        safe_open = safetensors.safe_open
    safetensors.save_file(tensors, path, {"by": "test"})
    with safe_open(path, framework="pt", device="cpu") as file:
        assert sorted(file.keys()) == sorted(tensors) and file.metadata() == {"by": "test"}
        assert file.get_tensor("matrix").tolist() == tensors["matrix"].tolist()
        part = file.get_slice("matrix")
        assert (part.get_shape(), part.get_dtype()) == ([3, 4], "F32")
        assert part[1:, :2].tolist() == tensors["matrix"][1:, :2].tolist()
        assert sorted(file.offset_keys()) == sorted(tensors)
        for look_up in (file.get_tensor, file.get_slice):
            with pytest.raises(safetensors.SafetensorError if backend != "torch" else Exception, match="nothing"):
                look_up("nothing")


def test_opening_what_is_no_file(safetensors, path, beyond_pytorch):
    with pytest.raises(FileNotFoundError):
        safetensors.safe_open(path)
    path.write_bytes(b"")
    with pytest.raises(safetensors.SafetensorError, match=r"weights\.safetensors"):
        safetensors.safe_open(path)
    with pytest.raises(safetensors.SafetensorError, match="framework 'np'"):
        safetensors.safe_open(path, framework="np")


def test_tensors_at_odd_places(safetensors, path):
    """Other programs do not align them."""
    header = (
        b'{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
        b'"f":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}'
    )
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\7" + struct.pack("<2d", 1.5, 2.5))
    loaded = safetensors.load_file(path)
    assert loaded["b"].tolist() == [7] and loaded["f"].tolist() == [1.5, 2.5]
    loaded["f"][0] = 3
    assert loaded["f"].tolist() == [3, 2.5]
