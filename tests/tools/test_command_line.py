"""The command `cygrad`: answers, exit status, JSON, and what it says of arguments that make no sense."""

import json
import os
import subprocess
import sys
import textwrap
from importlib.metadata import PackageNotFoundError, version

import pytest

import cygrad as torch
from cygrad.tools._cli import main, parser
from cygrad.tools.graph import Graph

nn = pytest.importorskip("cygrad.nn")

MODEL = """
    import cygrad as torch
    from cygrad import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(3, 4)

        def forward(self, x):
            return self.hidden(x).tanh()

    net = Net()
    weights = torch.ones(3, requires_grad=True)
    number = 3

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    def wrong(x):
        return Half.apply(x)

    def right(x, y):
        return x @ y

    def constant(x):
        return x.detach()

    def loss():
        return (net(torch.ones(2, 3)) ** 2).mean()

    def pair():
        return net, torch.ones(2, 3)

    def nothing():
        return None

    def fails():
        raise KeyError("mine")
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(textwrap.dedent(MODEL), encoding="utf-8")
    return path


@pytest.fixture
def command(capsys):
    """Run a command; return its status, what it wrote, and what it complained of."""

    def run(*words):
        status = main([str(word) for word in words])
        written = capsys.readouterr()
        return status, written.out, written.err

    return run


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "cygrad.tools", "info", "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    answer = json.loads(done.stdout)
    assert answer["threads"] == torch.get_num_threads() or answer["threads"] >= 1
    assert answer["instruction sets"]["used"] in answer["instruction sets"]["available"]
    assert answer["cuda"] is False and answer["python"].startswith("CPython 3")


def test_importing_it_loads_no_tool():
    code = "import sys, cygrad.tools._cli; print([m for m in sys.modules if m.startswith('cygrad.tools._command')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_info(command):
    status, text, _ = command("info")
    assert status == 0
    for word in ("packages:", "instruction sets:", "blas:", "cuda:", "no: cygrad computes on the CPU", "OpenBLAS"):
        assert word in text


@pytest.mark.parametrize("name", ["info", "check", "graph", "profile", "bench", "convert"])
def test_help_has_examples(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0 and f"cygrad {name}" in text and "example:" in text and "--json" in text
    assert f"cygrad {name}" in parser().format_help()


@pytest.mark.parametrize(
    "words", [[], ["paint"], ["check"], ["graph", "x.py:f"], ["check", "x.py:f", "--eps", "small"]]
)
def test_wrong_words_end_with_2(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and "usage:" in capsys.readouterr().err


# ---- check
@pytest.mark.parametrize(
    "words",
    [
        ("Net", "--input", "4,3"),
        ("net", "--input", "4,3", "--second"),
        ("pair",),
        ("pair", "--fast"),
        ("right", "--input", "2,3", "--input", "3,2"),
    ],
)
def test_right_gradients(model, command, words):
    status, text, _ = command("check", f"{model}:{words[0]}", *words[1:])
    assert status == 0 and "backward               passed" in text and "failed" not in text
    assert ("backward twice         passed" in text) == ("--second" in words)
    assert ("random projections" in text) == ("--fast" in words)


def test_wrong_gradients_end_with_1(model, command):
    status, text, _ = command("check", f"{model}:wrong", "--input", "2")
    assert status == 1 and "backward: failed" in text and "a factor is wrong" in text
    status, text, _ = command("check", f"{model}:wrong", "--input", "2", "--json")
    answer = json.loads(text)
    assert status == 1 and not answer["right"] and answer["by"] == ["tensor 0 of the inputs"]
    assert answer["checks"]["backward"]["outcome"] == "failed"
    assert "Jacobian mismatch" in answer["checks"]["backward"]["message"]
    assert answer["checks"]["forward mode"]["outcome"] == "skipped"


def test_a_checked_model_stays_as_it_is(model, command):
    status, text, _ = command("check", f"{model}:net", "--input", "4,3", "--json")
    assert status == 0 and json.loads(text)["inputs"] == [[4, 3]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{}:nope",), "has no 'nope'; it has Half, Net, constant, fails, "),
        (("{}",), "the target is FILE.py:NAME"),
        (("nowhere.py:f",), "there is no file 'nowhere.py'"),
        (("{}:Net",), "say what it takes, such as --input 4,3"),
        (("{}:number",), "gave a int"),
        (("{}:loss",), "gave a Tensor"),
        (("{}:number", "--input", "2"), "which takes no --input"),
        (("{}:right", "--input", "2,x"), "got '2,x'"),
        (("{}:right", "--input", "2,-1"), "got '2,-1'"),
        (("{}:constant", "--input", "2"), "no output of constant depends on tensor 0 of the inputs"),
    ],
)
def test_targets_that_cannot_be_checked(model, command, words, message):
    status, text, complaint = command("check", *(word.format(model) for word in words))
    assert status == 2 and not text and complaint.startswith("cygrad check: ") and message in complaint


def test_errors_of_the_users_program_are_shown_whole(model, command):
    with pytest.raises(KeyError, match="mine"):
        command("check", f"{model}:fails")


# ---- graph
@pytest.mark.parametrize(
    "words",
    [("loss",), ("pair",), ("Net", "--input", "2,3"), ("weights",), ("right", "--input", "2,3", "--input", "3")],
)
@pytest.mark.parametrize("suffix", ["html", "svg", "json", "mmd", "dot"])
def test_graphs_are_written(model, command, tmp_path, words, suffix):
    output = tmp_path / f"out.{suffix}"
    status, text, _ = command("graph", f"{model}:{words[0]}", *words[1:], "-o", output)
    assert status == 0 and text.startswith(f"{output}: ") and output.stat().st_size > 100


def test_graphs_know_lines_and_modules(model, command, tmp_path):
    output = tmp_path / "out.json"
    words = ("--view", "backward", "--saved", "--storages", "--json")
    status, text, _ = command("graph", f"{model}:pair", "-o", output, *words)
    drawing = Graph.from_json(output.read_text(encoding="utf-8"))
    answer = json.loads(text)
    assert status == 0 and answer["vertices"] == len(drawing.vertices) and answer["saved_bytes"] > 0
    tanh = next(v for v in drawing.vertices if v.lines[0] == "TanhBackward0")
    assert tanh.details["line"]["source"] == "return self.hidden(x).tanh()"
    assert ("hidden",) in drawing.module_types and any(v.kind == "saved" for v in drawing.vertices)


@pytest.mark.parametrize(
    ("name", "output", "message"),
    [
        ("loss", "out.png", "the name ends in one of .svg"),
        ("nothing", "out.svg", "root 0 is a NoneType"),
        ("number", "out.svg", "root 0 is a int"),
    ],
)
def test_graphs_that_cannot_be_drawn(model, command, tmp_path, name, output, message):
    status, _, complaint = command("graph", f"{model}:{name}", "-o", tmp_path / output)
    assert status == 2 and message in complaint and not (tmp_path / output).exists()


def test_a_folder_that_is_not_there(model, command, tmp_path):
    status, _, complaint = command("graph", f"{model}:loss", "-o", tmp_path / "no" / "out.svg")
    assert status == 1 and "No such file" in complaint


@pytest.mark.parametrize("name", ["net", "wrong", "fails"])
def test_what_the_program_raises_is_its_own(model, tmp_path, name):
    """Its traceback and status 1: the command made sense."""
    model.write_text(model.read_text(encoding="utf-8").replace("return self.hidden(x).tanh()", 'raise KeyError("mine")')
                     .replace("return Half.apply(x)", 'raise KeyError("mine")'), encoding="utf-8")
    words = [] if name == "fails" else ["--input", "4,3"]
    done = whole("graph", f"{model}:{name}", "-o", tmp_path / "x.svg", *words)
    assert done.returncode == 1 and done.stderr.strip().endswith("KeyError: 'mine'")
    assert "Traceback" in done.stderr and not (tmp_path / "x.svg").exists()


def test_folded_graphs(command, tmp_path):
    (tmp_path / "deep.py").write_text(
        "from cygrad import nn\n"
        "net = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(12)])\n", encoding="utf-8")
    for words, shown in (((), False), (("--fold",), True)):
        target = f"{tmp_path / 'deep.py'}:net"
        status, _, _ = command("graph", target, "--input", "2,4", "-o", tmp_path / "deep.svg", *words)
        assert status == 0 and ("Sequential × 12" in (tmp_path / "deep.svg").read_text(encoding="utf-8")) == shown


def whole(*words, **options):
    """The command in a process of its own."""
    words = [sys.executable, "-m", "cygrad.tools", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def test_json_is_alone_on_standard_output(model, tmp_path):
    model.write_text("print('from the program')\n" + model.read_text(encoding="utf-8"), encoding="utf-8")
    for words in (("check", f"{model}:Net", "--input", "4,3", "--json"),
                  ("graph", f"{model}:loss", "-o", tmp_path / "x.svg", "--json"),
                  ("profile", "--json", model)):
        done = whole(*words)
        assert done.returncode == 0 and isinstance(json.loads(done.stdout), dict)
        assert "from the program" in done.stderr
    done = whole("check", f"{model}:Net", "--input", "4,3")
    assert "from the program" in done.stdout


def test_an_encoding_without_the_letters_is_no_reason_to_fail(model):
    done = whole("check", f"{model}:Net", "--input", "4,3", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stdout.isascii()
    done = whole("bench", "--quick", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "256 ? 256" in done.stdout


def test_a_reader_that_has_seen_enough_sees_no_traceback():
    words = [sys.executable, "-m", "cygrad.tools", "info"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        run.stdout.close()
        assert run.stderr.read() == "" and run.wait(60) == 1


def test_an_interruption_is_told_in_a_line(model):
    model.write_text("def slow():\n    raise KeyboardInterrupt\n", encoding="utf-8")
    done = whole("graph", f"{model}:slow", "-o", model.with_suffix(".svg"))
    assert done.returncode == 130 and done.stderr == "cygrad graph: interrupted\n"


@pytest.mark.parametrize(("words", "message"), [
    (["9999999999,9999999999"], "--input 9999999999,9999999999"),
    (["99999999999999999999"], "fit in 64 bits"),
    (["4,-3"], "sizes such as 4,3"),
    (["many"], "sizes such as 4,3"),
])
def test_inputs_that_cannot_be(model, command, words, message):
    status, _, complaint = command("graph", f"{model}:Net", "-o", "x.svg", "--input", *words)
    assert status == 2 and message in complaint


def test_odd_names_of_files(model, command, tmp_path):
    odd = tmp_path / "o:d \"d' $(x) é ✓.py"
    odd.write_text(model.read_text(encoding="utf-8"), encoding="utf-8")
    output = tmp_path / "<b> \"x\" é.html"
    status, text, _ = command("graph", f"{odd}:loss", "-o", output, "--json")
    assert status == 0 and json.loads(text)["output"] == str(output) and output.exists()
    status, text, _ = command("check", f"{odd}:Net", "--input", "2,3")
    assert status == 0


@pytest.mark.parametrize("target", ["model.py:Net.nothing", "model.py:net.hidden.nothing", "model.py:right.nothing"])
def test_names_inside_names(model, command, target):
    status, _, complaint = command("graph", f"{model.parent / target}", "-o", "x.svg")
    assert status == 2 and "nothing" in complaint


def test_the_version_is_that_of_the_package(command, capsys):
    try:
        known = version("cygrad-tools")
    except PackageNotFoundError:
        known = None
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    written = capsys.readouterr()
    assert (written.out.strip(), end.value.code) == ((known, 0) if known else ("", 2))


# ---- profile
SCRIPT = """
    import sys
    import cygrad as torch

    def work(n):
        x = torch.ones(50, 50, requires_grad=True)
        for _ in range(n):
            torch.mm(x, x).sum().backward()

    work(int(sys.argv[1]))
    sys.exit(int(sys.argv[2]))
"""


def test_profiles(command, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    before = list(sys.argv), list(sys.path)
    status, text, _ = command("profile", "--json", "-o", tmp_path / "out.json", script, "25", "0")
    assert (sys.argv, sys.path) == before
    answer = json.loads(text)
    calls = {row["name"]: row["calls"] for row in answer["operations"]}
    assert status == 0 and calls["sum"] == calls["MmBackward0"] == 25
    assert answer["modules"][0]["name"] == "(outside of modules)"
    assert answer["peak_bytes"] > 0 and answer["seconds"] > 0 and answer["failed"] is None
    assert len(json.loads((tmp_path / "out.json").read_text())["traceEvents"]) > 75
    status, text, _ = command("profile", "--rows", "3", "--limits", "-o", tmp_path / "out.html", script, "2", "0")
    assert status == 0 and "mm" in text and "This machine copies" in text and "module" in text
    assert "MmBackward0" in (tmp_path / "out.html").read_text()


def test_a_script_that_fails_is_profiled_and_ends_with_1(command, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    status, text, _ = command("profile", "--json", script, "1", "3")
    assert status == 1 and json.loads(text)["failed"] == "the script ended with status 3"
    status, text, complaint = command("profile", "--json", script, "one", "0")
    assert status == 1 and "ValueError" in json.loads(text)["failed"] and "Traceback" in complaint


def test_profiles_that_make_no_sense(command, tmp_path):
    assert command("profile", tmp_path / "none.py")[0] == 2
    script = tmp_path / "script.py"
    script.write_text("", encoding="utf-8")
    assert command("profile", "--rows", "0", script)[0] == 2
    assert command("profile", "-o", tmp_path / "out.txt", script)[0] == 2


# ---- bench
def test_bench(command):
    status, text, _ = command("bench", "--quick", "--json")
    rows = json.loads(text)["rows"]
    assert status == 0 and len(rows) == 9 and all(row["seconds"] > 0 and row["rate"] > 0 for row in rows)
    assert {row["unit"] for row in rows} >= {"GFLOP/s", "GiB/s", "a second"}


# ---- convert
@pytest.fixture
def state():
    torch.manual_seed(0)
    weight = torch.randn(4, 3)
    return {
        "a.weight": weight,
        "tied": weight,
        "part": torch.arange(6).view(2, 3).t(),
        "low": torch.ones(2).bfloat16(),
    }


def test_checkpoints_become_weights_and_come_back(command, tmp_path, state):
    first, second, third = tmp_path / "a.pt", tmp_path / "b.safetensors", tmp_path / "c.pth"
    torch.save({"model": state, "epoch": 3}, first)
    status, text, complaint = command("convert", first, second, "--key", "model", "--json")
    assert not complaint and status == 0 and json.loads(text)["names"] == list(state)
    status, text, _ = command("convert", second, third)
    assert status == 0 and f"{len(state)} tensors" in text
    back = torch.load(third)
    assert set(back) == set(state)
    for name, value in state.items():
        assert back[name].dtype == value.dtype and torch.equal(back[name], value)


def test_pytorch_reads_what_was_converted(command, tmp_path, state):
    oracle = pytest.importorskip("torch")
    theirs = pytest.importorskip("safetensors.torch")
    oracle.save({"w": oracle.ones(2, 3), "inner": {"b": oracle.arange(3)}}, tmp_path / "a.pt")
    assert command("convert", tmp_path / "a.pt", tmp_path / "b.safetensors")[0] == 0
    read = theirs.load_file(tmp_path / "b.safetensors")
    assert read["w"].tolist() == [[1.0] * 3] * 2 and read["inner.b"].tolist() == [0, 1, 2]
    assert command("convert", tmp_path / "b.safetensors", tmp_path / "c.pt")[0] == 0
    assert set(oracle.load(tmp_path / "c.pt", weights_only=True)) == {"w", "inner.b"}


def test_a_dtype_that_a_format_lacks_is_named(command, tmp_path):
    torch.save({"w": torch.ones(2, dtype=torch.complex128)}, tmp_path / "a.pt")
    status, _, complaint = command("convert", tmp_path / "a.pt", tmp_path / "b.safetensors")
    assert status == 2 and "complex128" in complaint and not (tmp_path / "b.safetensors").exists()


def test_what_cannot_be_converted(command, tmp_path, state):
    good = tmp_path / "a.pt"
    torch.save({"model": {"w": torch.ones(2)}, "epoch": 3, "list": [1]}, good)
    (tmp_path / "bad.pt").write_bytes(b"no checkpoint at all")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 20)
    output = tmp_path / "b.safetensors"
    for words, message in (
        ((good, output), "epoch is a int, weights files hold tensors alone"),
        ((good, output, "--key", "mode"), "there is no 'mode' among model, epoch, list"),
        ((good, output, "--key", "list"), "got a list"),
        ((good, output, "--key", "epoch.x"), "int has no entries"),
        ((good, tmp_path / "b.zip"), "names end in .pt, .pth, .safetensors"),
        ((tmp_path / "none.pt", output), "there is no file"),
        ((tmp_path / "bad.pt", output), "cannot be read"),
        ((tmp_path / "bad.safetensors", tmp_path / "c.pt"), "cannot be read"),
    ):
        status, text, complaint = command("convert", *words)
        assert status == 2 and not text and message in complaint
    assert not output.exists() and not (tmp_path / "c.pt").exists()


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_file_is_not_written_over_itself(command, tmp_path, suffix):
    path = tmp_path / f"weights{suffix}"
    assert command("convert", saved(tmp_path, {"a": torch.ones(3)}), path)[0] == 0
    before = path.read_bytes()
    link = tmp_path / f"link{suffix}"
    link.symlink_to(path)
    for output in (path, link):
        status, _, complaint = command("convert", path, output)
        assert status == 2 and "give another name" in complaint and path.read_bytes() == before


def saved(folder, tensors):
    torch.save(tensors, folder / "first.pth")
    return folder / "first.pth"
