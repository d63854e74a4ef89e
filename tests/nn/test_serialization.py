"""Checkpoints: what goes in comes out, PyTorch reads ours and we read PyTorch's, sharing is kept, errors explain."""

import collections
import copy
import io
import os
import pickle
import random
import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


class Own:
    """A class that checkpoints do not know."""

    def __init__(self, value):
        self.value = value


class Slow(Own):
    def __setstate__(self, state):
        self.value = state["value"] + 1


def nested(torch):
    """Everything that a checkpoint may hold without further ado."""
    base = torch.arange(6.0)
    marked = torch.ones(2)
    marked.note = {"why": "a test"}
    parameter = torch.nn.Parameter(torch.ones(2, 2), requires_grad=False)
    parameter.note = "frozen"
    return {
        "base": base,
        "view": base.view(2, 3).t()[1:],
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(1)),
        "marked": marked,
        "noted": parameter,
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3),
        "tensors": {name: torch.ones(3).to(getattr(torch, name)) for name in DTYPES},
        "numbers": [1, -1, 2**31, -(2**40), 2**80, 1.5, float("inf"), True, False, None, 1 + 2j],
        "texts": ["", "é\U0001f600", "x" * 300, b"\x00\xff", b"y" * 300, bytearray(b"z")],
        "containers": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}, {1, 2}, set()],
        "ordered": collections.OrderedDict(b=1, a=2),
        "counted": collections.Counter("aab"),
        "shape": torch.Size([2, 3]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        (1, "key"): 0,
    }


def assert_same(a, b):
    assert type(a).__name__ == type(b).__name__
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif type(a) in (list, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif type(a).__name__ in ("Tensor", "Parameter"):
        assert (tuple(a.shape), a.stride(), str(a.dtype)) == (tuple(b.shape), b.stride(), str(b.dtype))
        assert a.requires_grad == b.requires_grad
        assert a.detach().tolist() == b.detach().tolist()
        assert getattr(a, "note", None) == getattr(b, "note", None)
    elif type(a).__name__ in ("dtype", "device"):
        assert repr(a) == repr(b)
    else:
        assert a == b


@pytest.mark.parametrize("target", ["path", "text", "buffer"])
def test_round_trip(torch, tmp_path, target):
    want = nested(torch)
    file = {"path": tmp_path / "x.pt", "text": str(tmp_path / "x.pt"), "buffer": io.BytesIO()}[target]
    torch.save(want, file)
    if target == "buffer":
        file.seek(0)
    got = torch.load(file)
    assert_same(want, got)
    assert got["view"].untyped_storage() is got["base"].untyped_storage()
    got["base"][1] = 9
    assert got["view"][0, 0] == 9


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols(torch, tmp_path, protocol):
    """Also of what PyTorch's own reader refuses: empty bytes, frozen sets, dictionaries with a default."""
    more = [b"", frozenset({3}), collections.defaultdict(list, a=[1])]
    torch.save([nested(torch), more], tmp_path / "x.pt", pickle_protocol=protocol)
    got = torch.load(tmp_path / "x.pt")
    assert_same(nested(torch), got[0])
    assert_same(more, got[1])
    assert got[1][2]["new"] == []


def test_pytorch_reads_ours(torch, tmp_path):
    oracle = pytest.importorskip("torch")
    torch.save(nested(torch), tmp_path / "x.pt")
    for mmap in (False, True):
        got = oracle.load(tmp_path / "x.pt", weights_only=True, mmap=mmap)
        assert_same(nested(oracle), got)
        assert got["view"].untyped_storage().data_ptr() == got["base"].untyped_storage().data_ptr()


@pytest.mark.parametrize("mmap", [False, True])
def test_we_read_pytorchs(torch, tmp_path, mmap):
    oracle = pytest.importorskip("torch")
    oracle.save(nested(oracle), tmp_path / "x.pt")
    got = torch.load(tmp_path / "x.pt", mmap=mmap)
    assert_same(nested(torch), got)
    assert got["view"].untyped_storage() is got["base"].untyped_storage()


def test_lazy_conjugates_of_pytorch(torch, tmp_path):
    """PyTorch marks conjugated and negated views in the checkpoint; the values are computed when it is read."""
    oracle = pytest.importorskip("torch")
    x = oracle.tensor([1 + 2j, 3 - 1j])
    oracle.save([x, x.conj()], tmp_path / "x.pt")
    oracle.save(x.conj().imag, tmp_path / "y.pt")
    assert [t.tolist() for t in torch.load(tmp_path / "x.pt")] == [[1 + 2j, 3 - 1j], [1 - 2j, 3 + 1j]]
    assert torch.load(tmp_path / "y.pt").tolist() == [-2, 1]


def test_model_and_optimizer_both_ways(torch, tmp_path):
    """A model goes on training in the other library from its checkpoint, with the same result."""
    oracle = pytest.importorskip("torch")

    def made(library):
        model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.Tanh(), library.nn.Linear(4, 1))
        return model, library.optim.Adam(model.parameters(), 0.1)

    def trained(library, model, optimizer):
        for i in range(3):
            optimizer.zero_grad()
            (model(library.arange(12.0).reshape(4, 3) / (i + 1)) ** 2).mean().backward()
            optimizer.step()
        return [p.detach().numpy() for p in model.parameters()]

    for source, target in [(torch, oracle), (oracle, torch), (torch, torch)]:
        model, optimizer = made(source)
        trained(source, model, optimizer)
        source.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
        state = target.load(tmp_path / "x.pt")
        other, its = made(target)
        other.load_state_dict(state["model"])
        its.load_state_dict(state["optimizer"])
        assert state["model"]._metadata == model.state_dict()._metadata
        for a, b in zip(trained(source, model, optimizer), trained(target, other, its), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_storages(torch, tmp_path):
    x = torch.arange(4)
    torch.save({"typed": x.storage(), "x": x}, tmp_path / "x.pt")
    got = torch.load(tmp_path / "x.pt")
    assert got["typed"].tolist() == [0, 1, 2, 3]
    assert got["typed"].untyped() is got["x"].untyped_storage()
    torch.save(x.untyped_storage(), tmp_path / "y.pt")
    assert torch.load(tmp_path / "y.pt").nbytes() == 32


def test_one_storage_of_two_dtypes(torch, tmp_path):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"view the same data as different types.*float32"):
        torch.save([x, x.view(torch.int32)], tmp_path / "x.pt")
    assert os.listdir(tmp_path) == []


def test_subclasses_need_trust(torch, tmp_path):
    class Mine(torch.Tensor):
        pass

    Mine.__qualname__ = "Mine"
    globals()["Mine"] = Mine
    try:
        torch.save(torch.ones(2).as_subclass(Mine), tmp_path / "x.pt")
        with pytest.raises(pickle.UnpicklingError, match="Mine"):
            torch.load(tmp_path / "x.pt")
        with torch.serialization.safe_globals([Mine]):
            assert type(torch.load(tmp_path / "x.pt")) is Mine
    finally:
        del globals()["Mine"]


# ---- what is allowed


def test_unknown_classes_are_refused_by_name(torch, tmp_path):
    torch.save({"a": Own(3)}, tmp_path / "x.pt")
    name = f"{Own.__module__}.Own"
    with pytest.raises(pickle.UnpicklingError, match=rf"x\.pt.*Unsupported global: {name}.*add_safe_globals"):
        torch.load(tmp_path / "x.pt")
    assert name in torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", weights_only=False)["a"].value == 3


def test_safe_globals(torch, tmp_path):
    serialization = torch.serialization
    torch.save([Own(3), Slow(4)], tmp_path / "x.pt", pickle_protocol=2)
    with serialization.safe_globals([Own, Slow]):
        assert set(serialization.get_safe_globals()) == {Own, Slow}
        assert [x.value for x in torch.load(tmp_path / "x.pt")] == [3, 5]
        assert serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt") == []
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Slow, f"{__name__}.Own"), Slow])
    assert type(torch.load(tmp_path / "x.pt")[0]) is Slow
    serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
        torch.load(tmp_path / "x.pt")
    assert serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt") == [
        f"{__name__}.Own",
        f"{__name__}.Slow",
    ]


def test_whole_models_of_both(torch, tmp_path):
    """With weights_only=False modules are made again, PyTorch's as ours."""
    oracle = pytest.importorskip("torch")
    for library in (torch, oracle):
        model = library.nn.Sequential(library.nn.Linear(2, 3), library.nn.ReLU())
        library.save(model, tmp_path / "x.pt")
        got = torch.load(tmp_path / "x.pt", weights_only=False)
        assert type(got) is torch.nn.Sequential
        np.testing.assert_allclose(
            got(torch.ones(2)).detach().numpy(), model(library.ones(2)).detach().numpy(), rtol=1e-6
        )


# ---- devices


def saved_on(device, torch, path):
    """A checkpoint whose tensors claim another device."""
    torch.save({"x": torch.ones(2)}, path)
    with zipfile.ZipFile(path) as archive:
        records = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    key = next(name for name in records if name.endswith("data.pkl"))
    text = device.encode()
    records[key] = records[key].replace(b"X\x03\x00\x00\x00cpu", b"X" + len(text).to_bytes(4, "little") + text)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "where", ["cpu", {"cuda:0": "cpu"}, lambda storage, location: storage, lambda storage, location: None]
)
def test_map_location(torch, tmp_path, where):
    saved_on("cuda:0", torch, tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match=r"'cuda:0'.*map_location='cpu'"):
        torch.load(tmp_path / "x.pt")
    if callable(where) and where(1, "") is None:
        with pytest.raises(RuntimeError, match="'cuda:0'"):
            torch.load(tmp_path / "x.pt", map_location=where)
        return
    assert torch.load(tmp_path / "x.pt", map_location=where)["x"].tolist() == [1, 1]
    assert torch.load(tmp_path / "x.pt", map_location=torch.device("cpu"))["x"].tolist() == [1, 1]


def test_map_location_that_returns_nonsense(torch, tmp_path):
    torch.save(torch.ones(2), tmp_path / "x.pt")
    with pytest.raises(TypeError, match="must return a storage or None, got int"):
        torch.load(tmp_path / "x.pt", map_location=lambda storage, location: 3)


# ---- files


def test_mapped_files_are_read_when_used(torch, tmp_path):
    torch.save({"big": torch.zeros(1 << 22), "small": torch.ones(3)}, tmp_path / "x.pt")
    before = (tmp_path / "x.pt").read_bytes()
    code = (
        "import sys, resource, cygrad\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "cygrad.load(sys.argv[1].replace('x.pt', 'y.pt')); start = peak()\n"
        "x = cygrad.load(sys.argv[1], mmap=True); x['small'].add_(1)\n"
        "print(peak() - start, x['small'].tolist())\n"
    )
    torch.save(torch.ones(1), tmp_path / "y.pt")
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.pt")], capture_output=True, text=True)
    grown, values = result.stdout.split(" ", 1)
    assert values == "[2.0, 2.0, 2.0]\n", result.stderr
    assert int(grown) < 4096, "16 MB were read"
    assert (tmp_path / "x.pt").read_bytes() == before
    with pytest.raises(ValueError, match="mmap"):
        torch.load(io.BytesIO(before), mmap=True)


def test_records_are_aligned(torch, tmp_path):
    torch.save([torch.ones(n) for n in range(1, 20)], tmp_path / "a-name.pt")
    data = (tmp_path / "a-name.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "a-name.pt") as archive:
        for entry in archive.infolist():
            at = entry.header_offset
            start = at + 30 + int.from_bytes(data[at + 26 : at + 28], "little") + int.from_bytes(
                data[at + 28 : at + 30], "little"
            )
            assert start % 64 == 0, entry.filename
            assert archive.testzip() is None


def test_a_failed_save_leaves_the_old_file(torch, tmp_path):
    torch.save(1, tmp_path / "x.pt")
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        torch.save([torch.ones(1000), lambda: 0], tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt") == 1
    assert os.listdir(tmp_path) == ["x.pt"]
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    code = (
        "import sys, signal, resource, cygrad\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))\n"
        "cygrad.save(cygrad.ones(100000), sys.argv[1])\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.pt")], capture_output=True, text=True)
    assert "OSError" in result.stderr and "too large" in result.stderr
    assert limit == resource.getrlimit(resource.RLIMIT_FSIZE)
    assert torch.load(tmp_path / "x.pt") == 1
    assert os.listdir(tmp_path) == ["x.pt"]


def test_a_file_that_only_takes_bytes(torch):
    class Pipe:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data)

    pipe = Pipe()
    torch.save({"x": torch.arange(5)}, pipe)
    assert torch.load(io.BytesIO(pipe.data))["x"].tolist() == [0, 1, 2, 3, 4]


def test_arguments(torch, tmp_path):
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")
    with pytest.raises(IsADirectoryError):
        torch.load(tmp_path)
    with pytest.raises(AttributeError, match="BytesIO"):
        torch.load(3)
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        torch.save(1, tmp_path / "no" / "x.pt")
    with pytest.raises(TypeError, match="'write'"):
        torch.save(1, 3)
    with pytest.raises(ValueError, match="from 2 to"):
        torch.save(1, tmp_path / "x.pt", pickle_protocol=1)
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(tmp_path / "x.pt", pickle_module=copy)
    with pytest.raises(RuntimeError, match="_use_new_zipfile_serialization"):
        torch.save(1, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(TypeError, match="unexpected keyword"):
        torch.load(tmp_path / "x.pt", errors="x")


def test_other_formats_are_named(torch, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(b"\0" * 257 + b"ustar" + b"\0" * 300)
    with pytest.raises(pickle.UnpicklingError, match=r"x\.pt.*before 0\.1\.10.*tar"):
        torch.load(path)
    path.write_bytes(b"")
    with pytest.raises(EOFError, match=r"x\.pt.*empty"):
        torch.load(path)
    path.write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(pickle.UnpicklingError, match=r"x\.pt.*no zip archive"):
        torch.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/constants.pkl", b"")
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(path)


# ---- files of PyTorch before 1.6
def legacy(oracle, value):
    file = io.BytesIO()
    oracle.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def test_files_of_pytorch_before_1_6(torch, tmp_path):
    oracle = pytest.importorskip("torch")
    base = oracle.arange(10.0)
    model = oracle.nn.Linear(2, 3)
    optimizer = oracle.optim.Adam(model.parameters())
    model(oracle.ones(2)).sum().backward()
    optimizer.step()
    value = {
        "base": base,
        "part": base[2:5],
        "turned": base.view(2, 5).t(),
        "half": oracle.tensor([1.5, 2.5], dtype=oracle.bfloat16),
        "empty": oracle.zeros(0, 3),
        "parameter": oracle.nn.Parameter(oracle.ones(2)),
        "nested": [1, "two", (3.0, None, {4})],
        "state": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    path = tmp_path / "x.pt"
    path.write_bytes(legacy(oracle, value))
    assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == []
    for options in ({}, {"weights_only": False}, {"map_location": "cpu"}):
        got = torch.load(path, **options)
        assert got.keys() == value.keys() and got["nested"] == value["nested"]
        for name in ("base", "part", "turned", "half", "empty", "parameter"):
            assert got[name].tolist() == value[name].tolist() and got[name].stride() == value[name].stride()
            assert str(got[name].dtype) == str(value[name].dtype)
        got["base"][2] = 77
        assert got["part"][0] == got["turned"][2, 0] == 77
        ours = torch.nn.Linear(2, 3)
        ours.load_state_dict(got["state"])
        torch.optim.Adam(ours.parameters()).load_state_dict(got["optimizer"])
        assert ours.weight.tolist() == model.weight.tolist()
    with pytest.raises(RuntimeError, match=r"x\.pt.*cannot be mapped"):
        torch.load(path, mmap=True)


def test_models_of_pytorch_before_1_6(torch):
    oracle = pytest.importorskip("torch")
    data = legacy(oracle, oracle.nn.Sequential(oracle.nn.Linear(2, 3)))
    with pytest.raises(pickle.UnpicklingError, match=r"Unsupported global: torch\.nn\.modules\.container\.Sequential"):
        torch.load(io.BytesIO(data))
    assert type(torch.load(io.BytesIO(data), weights_only=False)) is torch.nn.Sequential
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
    assert unsafe == ["torch.nn.modules.container.Sequential", "torch.nn.modules.linear.Linear"]


def test_damaged_files_of_pytorch_before_1_6(torch):
    oracle = pytest.importorskip("torch")
    data = legacy(oracle, {"a": oracle.arange(4.0), "b": [oracle.ones(3), "text"]})
    allowed = (pickle.UnpicklingError, RuntimeError, EOFError)
    for length in range(len(data)):
        with pytest.raises(allowed, match="BytesIO"):
            torch.load(io.BytesIO(data[:length]))
    drawn = random.Random(2)
    for _ in range(500):
        changed = bytearray(data)
        for _ in range(drawn.choice([1, 1, 3])):
            changed[drawn.randrange(15, len(data))] = drawn.randrange(256)
        try:
            torch.load(io.BytesIO(changed))
        except allowed as error:
            assert "BytesIO" in str(error)


def test_a_file_of_pytorch_before_1_6_that_claims_to_be_large(torch):
    oracle = pytest.importorskip("torch")
    data = legacy(oracle, oracle.arange(4.0))
    count = b"K\x04"  # elements, in the pickle
    assert data.count(count + b"N") == 1
    changed = data.replace(count + b"N", b"\x8a\x06" + (1 << 40).to_bytes(6, "little") + b"N")
    with pytest.raises(RuntimeError, match="larger than the file"):
        torch.load(io.BytesIO(changed))


def test_names_are_found_through_memos(torch):
    """Protocol 4 writes a module's name once, and refers to it after that."""
    file = io.BytesIO()
    torch.save([Own(3), Slow(4), "builtins", "eval"], file, pickle_protocol=4)
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    assert sorted(unsafe) == [f"{__name__}.Own", f"{__name__}.Slow"]


def test_hostile_names_are_found(torch):
    from cygrad.serialization.unpickle import names_in

    def text(value):
        return b"\x8c" + bytes([len(value)]) + value.encode()

    posix = ("posix", "system")
    for body in (
        text("posix") + b"\x94" + text("system") + b"\x94" + b"00" + b"h\x00h\x01\x93",
        text("system") + b"q\x05" + text("posix") + b"h\x05\x93",
        text("posix") + text("system") + b"\x93",
        text("posix") + text("x") + b"0" + text("system") + b"\x93",
        text("posix") + b"(" + text("eval") + b"1" + text("system") + b"\x93",
        b"cposix\nsystem\n",
        b"(iposix\nsystem\n",
        text("posix") + b"p5\n0" + text("system") + b"p6\n0" + b"g5\ng6\n\x93",
        text("posix") + text("a") + text("b") + b"\x860" + text("system") + b"\x93",
    ):
        assert names_in(b"\x80\x04" + body + b".") == [posix], body
    for body in (text("posix") + b"N\x93", b"\x93", text("a") + b"\x93", b"h\x07", b"0", b"\xff"):
        with pytest.raises(pickle.UnpicklingError):
            names_in(b"\x80\x04" + body + b".")
