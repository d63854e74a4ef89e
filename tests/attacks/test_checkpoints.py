"""Hostile and damaged checkpoints: an error that names file and reason; nothing is run, hangs, or becomes large."""

import io
import os
import pickle
import random
import resource
import struct
import subprocess
import sys
import time
import zipfile

import pytest

import cygrad

REFUSED = (pickle.UnpicklingError, RuntimeError, EOFError)


def checkpoint(path, data, storages=(), folder="x", **more):
    """A file with this pickle and these storages."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{folder}/data.pkl", data)
        for i, content in enumerate(storages):
            archive.writestr(f"{folder}/data/{i}", content)
        for name, content in more.items():
            archive.writestr(f"{folder}/{name}", content)
    return path


def name(module, attribute):
    return b"c" + f"{module}\n{attribute}\n".encode()


def text(value):
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value):
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def storage(kind="FloatStorage", record="0", location="cpu", count=4):
    return b"(" + text("storage") + name("torch", kind) + text(record) + text(location) + number(count) + b"tQ"


def tensor(offset=0, size=(4,), stride=(1,), **options):
    def dims(values):
        return b"(" + b"".join(number(v) for v in values) + b"t"

    return (
        name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage(**options) + number(offset) + dims(size)
        + dims(stride)
        + b"\x89" + name("collections", "OrderedDict") + b")R" + b"tR"
    )


P = b"\x80\x02"
SYSTEM = name("os", "system") + b"(" + text("touch RAN") + b"tR."
EXECS = {
    "reduce": P + SYSTEM,
    "stack global": b"\x80\x04" + text("os") + text("system") + b"\x93(" + text("touch RAN") + b"tR.",
    "builtins eval": P + name("builtins", "eval") + b"(" + text("open('RAN','w')") + b"tR.",
    "getattr": P + name("builtins", "getattr") + b"(" + name("collections", "OrderedDict") + text("__init__") + b"tR.",
    "inst": P + b"(" + text("touch RAN") + b"ios\nsystem\n.",
    "obj": P + b"(" + name("os", "system") + text("touch RAN") + b"o.",
    "newobj": P + name("subprocess", "Popen") + b"(" + text("touch RAN") + b"t\x81.",
    "extension": P + b"\x82\x01.",
    "dotted": b"\x80\x04" + text("collections") + text("OrderedDict.__init__.__globals__") + b"\x93.",
    "submodule": P + name("torch._utils", "os") + b".",
    "build a class": P + name("collections", "OrderedDict") + b"}" + text("keys") + b"Nsb.",
    "build a function": P + name("torch._utils", "_rebuild_tensor_v2") + b"N}" + text("__defaults__") + b")s\x86b.",
    "setstate": P + tensor() + b"}" + text("__class__") + name("collections", "OrderedDict") + b"sb.",
    "shadow a method": P + tensor() + b"}" + text("add_") + b"K\x01sb.",
    "call a dict class": P + name("torch", "Tensor") + b"(K\x05tR.",
    "call int": P + name("builtins", "int") + b"(" + text("9" * 5000) + b"tR.",
    "call a result": P + tensor() + b"(tR.",
    "factory": P + name("collections", "defaultdict") + b"(" + name("torch._utils", "_rebuild_tensor_v2") + b"tR.",
    "rebuild by another function": P + name("torch._tensor", "_rebuild_from_type_v2") + b"(" + name("torch", "device")
    + name("torch", "Tensor") + b"(" + text("cpu") + b"t}tR.",
    "subclass that is none": P + name("torch._tensor", "_rebuild_from_type_v2") + b"("
    + name("torch._utils", "_rebuild_tensor_v2") + name("builtins", "dict") + b"(tNtR.",
}

DAMAGED = {
    "empty": b"",
    "only a header": P,
    "no stop": P + b"N",
    "empty stack": P + b".",
    "a mark as result": P + b"(.",
    "no mark": P + b"Nt.",
    "unknown opcode": P + b"\xfe.",
    "protocol 200": b"\x80\xc8N.",
    "memo": P + b"h\x05.",
    "long text": P + b"X\xff\xff\xff\x7fabc.",
    "longer text": P + b"\x8d" + b"\xff" * 8 + b".",
    "broken text": P + b"X\x01\x00\x00\x00\xff.",
    "huge int": P + b"\x8b\xff\xff\xff\x7f.",
    "tuple of a mark": P + b"(\x85.",
    "odd dictionary": P + b"}(Nu.",
    "unhashable key": P + b"}]Ns.",
    "append to a tuple": P + b")Na.",
    "add to a list": P + b"](N\x90.",
    "set in a list": P + b"]NNs.",
    "args no tuple": P + name("torch", "Size") + b"]R.",
    "no storage": P + text("storage") + b"Q.",
    "another id": P + b"(" + text("module") + b"tQ.",
    "missing record": P + tensor(record="7") + b".",
    "record outside": P + tensor(record="../../x") + b".",
    "wrong size": P + tensor(count=5) + b".",
    "huge size": P + tensor(count=2**62) + b".",
    "negative size": P + tensor(count=-4) + b".",
    "outside": P + tensor(offset=1) + b".",
    "far outside": P + tensor(offset=2**62) + b".",
    "overflow": P + tensor(size=(2**40, 2**40), stride=(0, 0)) + b".",
    "negative offset": P + tensor(offset=-1) + b".",
    "negative stride": P + tensor(stride=(-1,)) + b".",
    "other number of strides": P + tensor(stride=(1, 1)) + b".",
    "kind that is none": P + tensor(kind="Tensor") + b".",
    "kind unknown": P + tensor(kind="QInt8Storage") + b".",
    "device elsewhere": P + tensor(location="cuda:0") + b".",
    "sizes that are text": P + name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage() + b"K\x00" + text("ab")
    + b")\x89NtR.",
}


@pytest.mark.parametrize("case", EXECS)
def test_nothing_is_run(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    path = checkpoint(tmp_path / "evil.pt", EXECS[case], [b"\0" * 16])
    with pytest.raises(REFUSED, match=r"evil\.pt: "):
        cygrad.load(path)
    assert os.listdir(tmp_path) == ["evil.pt"]
    assert cygrad.ones(1).add_(1).item() == 2
    assert list(__import__("collections").OrderedDict(a=1).keys()) == ["a"]


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_pickles(tmp_path, case):
    path = checkpoint(tmp_path / "bad.pt", DAMAGED[case], [b"\0" * 16])
    with pytest.raises(REFUSED, match=r"bad\.pt: "):
        cygrad.load(path)


def test_the_builders_of_these_tests_work(tmp_path):
    path = checkpoint(tmp_path / "x.pt", P + tensor() + b".", [struct.pack("<4f", 1, 2, 3, 4)])
    assert cygrad.load(path).tolist() == [1, 2, 3, 4]


def test_keys_whose_hash_takes_for_ever(tmp_path):
    """A tuple of two times the same tuple, a hundred levels deep, has 2**100 parts."""
    data = P + b")" + b"q\x00h\x00\x86" * 100
    for use in (b"}", b""):
        end = b"Ns." if use else b""
        body = P + use + data[2:] + end if use else P + name("builtins", "set") + b"](" + data[2:] + b"e\x85R."
        start = time.monotonic()
        with pytest.raises(pickle.UnpicklingError, match="key with more than"):
            cygrad.load(checkpoint(tmp_path / "x.pt", body))
        assert time.monotonic() - start < 5


def test_small_files_make_nothing_large(tmp_path):
    """A pickle that copies one text again and again stops before memory does."""
    body = P + text("a" * 100_000) + b"q\x000(" + (
        name("_codecs", "encode") + b"(h\x00" + text("latin1") + b"tR"
    ) * 20_000 + b"l."
    with pytest.raises(pickle.UnpicklingError, match="many times as large"):
        cygrad.load(checkpoint(tmp_path / "x.pt", body))
    view = P + name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage() + number(0) + (
        b"(" + number(2**36) + b"t(" + number(0) + b"t\x89N}" + text("neg") + b"\x88stR."
    )
    with pytest.raises(pickle.UnpicklingError, match="share memory"):
        cygrad.load(checkpoint(tmp_path / "x.pt", view, [b"\0" * 16]))


def test_deep_nesting(tmp_path):
    got = cygrad.load(checkpoint(tmp_path / "x.pt", P + b"]" * 200_000 + b"a" * 199_999 + b"."))
    assert type(got) is list
    while got:
        got = got[0]


def test_zip_bombs(tmp_path):
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", P + tensor(count=1 << 20, size=(1 << 20,)) + b".")
        archive.writestr("x/data/0", b"\0" * (1 << 22))
    with pytest.raises(RuntimeError, match=r"x\.pt: .*compressed"):
        cygrad.load(path)


def test_records_that_lie_over_each_other(tmp_path):
    """One run of bytes that many records claim: a small file that would become large."""
    path = checkpoint(tmp_path / "x.pt", P + b"N.", [b"\0" * 1000, b"\0" * 1000])
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1) + 1)
    data[at + 42 : at + 46] = data[data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1) :][42:46]
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match="longer than the place"):
        cygrad.load(path)


@pytest.mark.parametrize("mmap", [False, True])
def test_a_record_whose_header_moves_it_into_the_next(tmp_path, mmap):
    """How far a header reaches is not in the table of contents; mapped records have no checksum that would be wrong."""
    path = checkpoint(tmp_path / "x.pt", P + tensor() + b".", [b"\0" * 16, b"\1" * 16])
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x03\x04", data.index(b"PK\x03\x04") + 1)
    assert data[at + 30 : at + 38] == b"x/data/0"
    size = data.index(b"\1" * 16) - data.index(b"\0" * 16)
    data[at + 28 : at + 30] = struct.pack("<H", size)        # now it lies where the next one does
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match=r"'data/0' reaches into the next one"):
        cygrad.load(path, mmap=mmap)


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda z: (z.writestr("x/data.pkl", P + b"N."), z.writestr("y/data.pkl", P + b"N.")), "2 folders"),
        (lambda z: z.writestr("x/version", "3"), "no record 'data.pkl'"),
        (lambda z: (z.writestr("x/data.pkl", P + b"N."), z.writestr("x/byteorder", b"big")), "big-endian"),
        (lambda z: None, "0 folders"),
    ],
)
def test_archives_of_another_kind(tmp_path, change, match):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        change(archive)
    with pytest.raises(REFUSED, match=rf"x\.pt: .*({match}|no zip archive)"):
        cygrad.load(tmp_path / "x.pt")


def test_two_records_of_one_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("x/data.pkl", P + b"N.")
        archive.writestr("x/data.pkl", P + b"N.")
    with pytest.raises(RuntimeError, match=r"two records 'data.pkl'"):
        cygrad.load(tmp_path / "x.pt")


def sample():
    base = cygrad.arange(8.0)
    file = io.BytesIO()
    cygrad.save({"a": base, "b": base[2:], "c": [1, "two", None, (3.0, {4})], "p": cygrad.nn.Parameter(base[:1])}, file)
    return file.getvalue()


def test_truncated_files(tmp_path):
    data = sample()
    for length in range(0, len(data), 7):
        with pytest.raises(REFUSED, match="BytesIO"):
            cygrad.load(io.BytesIO(data[:length]))


def test_a_changed_number_is_found(tmp_path):
    data = bytearray(sample())
    at = data.index(struct.pack("<8f", *range(8)))
    data[at + 5] ^= 1
    with pytest.raises(RuntimeError, match=r"checksum.*corrupted"):
        cygrad.load(io.BytesIO(bytes(data)))


@pytest.mark.parametrize("mmap", [False, True])
def test_random_damage(tmp_path, mmap):
    """Any bytes may change: the file is read as it was, or refused. The pickle's checksum is made right again."""
    drawn = random.Random(3 + mmap)
    whole = sample()
    refused = 0
    for _ in range(800):
        data = bytearray(whole)
        for _ in range(drawn.choice([1, 1, 1, 2, 5, 20])):
            at = drawn.randrange(len(data))
            data[at : at + drawn.choice([0, 1, 1, 4])] = drawn.randbytes(drawn.choice([0, 1, 1, 4]))
        path = tmp_path / "x.pt"
        path.write_bytes(data)
        try:
            cygrad.load(path, mmap=mmap)
        except REFUSED:
            refused += 1
    assert refused > 500


def test_random_pickles(tmp_path):
    """Mutations inside the pickle, past the checksum."""
    drawn = random.Random(5)
    with zipfile.ZipFile(io.BytesIO(sample())) as archive:
        whole = archive.read("archive/data.pkl")
        values = archive.read("archive/data/0")
    refused = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(drawn.choice([1, 1, 2, 5])):
            at = drawn.randrange(len(data))
            data[at : at + drawn.choice([0, 1, 1, 4])] = drawn.randbytes(drawn.choice([0, 1, 1, 4]))
        try:
            cygrad.load(checkpoint(tmp_path / "x.pt", bytes(data), [values]))
        except REFUSED:
            refused += 1
    assert refused > 700


def test_a_full_disk(tmp_path):
    """Nothing is left of a checkpoint for which there is no room, and the old one stays."""
    path = tmp_path / "x.pt"
    cygrad.save(1, path)
    code = (
        "import sys, signal, resource, cygrad\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "cygrad.save(cygrad.ones(1_000_000), sys.argv[1])\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "OSError" in result.stderr
    assert os.listdir(tmp_path) == ["x.pt"]
    assert cygrad.load(path) == 1
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000


@pytest.mark.parametrize(
    "save",
    [
        "cygrad.save(cygrad.ones(1_000_000), path)",
        "cygrad.utils.safetensors.save_file({'x': cygrad.ones(1_000_000)}, path)",
    ],
)
def test_a_small_disk(tmp_path, save):
    """A disk of 1 MB, of which half is taken by the old file."""
    disk = tmp_path / "disk"
    disk.mkdir()
    inside = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=1m tmpfs {disk} && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    code = (
        "import os, sys, cygrad\n"
        "import cygrad.utils.safetensors\n"
        f"path = {str(disk)!r} + '/x.pt'\n"
        "cygrad.save(cygrad.zeros(100_000), path)\n"
        "before = open(path, 'rb').read()\n"
        "try:\n"
        f"    {save}\n"
        "except OSError as error:\n"
        "    print(error)\n"
        f"print(os.listdir({str(disk)!r}), open(path, 'rb').read() == before)\n"
    )
    result = subprocess.run([*inside, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message, left = result.stdout.splitlines()
    assert "No space left" in message and "x.pt" in message, result.stderr
    assert left == "['x.pt'] True"


DEEP = b")" + b"\x85" * 300_000
SHARED = b")" + b"q\x00h\x00\x86" * 60


@pytest.mark.parametrize("key", [DEEP, SHARED], ids=["deep", "shared"])
@pytest.mark.parametrize(
    "body",
    [
        lambda key: name("collections", "OrderedDict") + b"(]](" + key + b"K\x01eatR.",
        lambda key: name("collections", "defaultdict") + b"(N](" + key + b"K\x01\x86e" + b"tR.",
        lambda key: name("collections", "Counter") + b"(](" + key + b"etR.",
        lambda key: name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage() + number(0) + b"))\x89N]]("
        + key + b"K\x01eatR.",
        lambda key: b"(" + text("storage") + name("torch", "FloatStorage") + text("0") + key + number(4) + b"tQ.",
        lambda key: name("torch.serialization", "_get_layout") + b"(" + key + b"tR.",
    ],
)
def test_keys_and_texts_of_what_is_nested(tmp_path, key, body):
    """Neither the hash nor the text of nested tuples is ever asked for, whichever way they come."""
    path = checkpoint(tmp_path / "x.pt", P + body(key), [b"\0" * 16])
    start = time.monotonic()
    with pytest.raises(REFUSED, match=r"x\.pt"):
        cygrad.load(path, map_location={"cuda": "cpu"})
    assert time.monotonic() - start < 20
