"""Models written as ONNX give the same numbers in onnxruntime; what cannot be written is refused by name."""

import math

import numpy as np
import pytest

import cygrad as torch
from cygrad.tools._cli import main
from cygrad.tools.onnx import ExportError, export

nn = pytest.importorskip("cygrad.nn")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
F = nn.functional


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for entry in entries for t in tensors(entry)]


def run(model, *inputs):
    session = runtime.InferenceSession(model.SerializeToString())
    names = [i.name for i in session.get_inputs()]
    return session.run(None, {name: x.numpy() for name, x in zip(names, inputs, strict=True)})


def same(model, *inputs, tolerance=1e-5, **options):
    """Export a model, run it, and compare; return what was exported."""
    made = export(model, inputs, **options)
    if hasattr(model, "eval"):
        model.eval()
    expected = tensors(model(*inputs))
    got = run(made, *inputs)
    assert len(got) == len(expected) > 0
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.detach().numpy().dtype and a.shape == tuple(b.shape)
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=tolerance, atol=tolerance)
    return made


IMAGE = (2, 3, 8, 8)
LAYERS = [
    *(f"nn.{name}()" for name in ("ReLU", "ReLU6", "SiLU", "Mish", "GELU", "ELU", "CELU", "SELU", "Softplus")),
    *(f"nn.{name}()" for name in ("Hardswish", "Hardsigmoid", "Hardtanh", "LeakyReLU", "PReLU", "LogSigmoid")),
    *(f"nn.{name}()" for name in ("Softsign", "Tanh", "Sigmoid", "Tanhshrink", "Identity", "Flatten", "Dropout2d")),
    "nn.GELU('tanh')",
    "nn.PReLU(3)",
    "nn.Softmax(-1)",
    "nn.LogSoftmax(1)",
    "nn.Softmin(1)",
    "nn.BatchNorm2d(3)",
    "nn.BatchNorm2d(3, affine=False)",
    "nn.GroupNorm(3, 3)",
    "nn.InstanceNorm2d(3, affine=True)",
    "nn.LayerNorm(8)",
    "nn.LayerNorm((8, 8), bias=False)",
    "nn.RMSNorm(8)",
    "nn.Linear(8, 5)",
    "nn.Linear(8, 5, bias=False)",
    "nn.Conv2d(3, 4, 3, stride=2, padding=1, dilation=2)",
    "nn.Conv2d(3, 6, (3, 5), padding='same', groups=3, bias=False)",
    "nn.Conv2d(3, 4, 3, padding=2, padding_mode='reflect')",
    "nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)",
    "nn.MaxPool2d(3, 2, 1, ceil_mode=True)",
    "nn.AvgPool2d(3, 2, 1, count_include_pad=False)",
    "nn.AdaptiveAvgPool2d(1)",
    "nn.AdaptiveAvgPool2d((2, 4))",
    "nn.AdaptiveMaxPool2d(4)",
    "nn.Upsample(scale_factor=2)",
    "nn.Upsample(size=(5, 7), mode='bilinear')",
    "nn.Upsample(size=(5, 7), mode='bilinear', align_corners=True)",
    "nn.Upsample(scale_factor=1.7, mode='bilinear')",
    "nn.Upsample(scale_factor=(0.6, 2.3))",
    "nn.AvgPool2d(3, 2, 1, ceil_mode=True)",
    "nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False)",
    "nn.ZeroPad2d(1)",
    "nn.ConstantPad2d((1, 2, 0, 3), 3.0)",
    "nn.ReflectionPad2d(2)",
    "nn.ReplicationPad2d(1)",
    "nn.Unflatten(1, (1, 3))",
]


@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer):
    torch.manual_seed(0)
    same(eval(layer, {"nn": nn}), torch.randn(IMAGE))


OTHERS = {
    "nn.Conv1d(2, 3, 2, dilation=2)": (1, 2, 9),
    "nn.Conv3d(1, 2, 2)": (1, 1, 4, 4, 4),
    "nn.ConvTranspose1d(2, 3, 3)": (1, 2, 9),
    "nn.MaxPool1d(2)": (1, 2, 9),
    "nn.AvgPool1d(2)": (1, 2, 9),
    "nn.AvgPool3d(2)": (1, 2, 4, 4, 4),
    "nn.BatchNorm1d(4)": (3, 4),
    "nn.Linear(4, 2)": (3, 4),
    "nn.PixelShuffle(2)": (1, 8, 3, 3),
    "nn.GLU(1)": (2, 4),
    "nn.TransformerEncoderLayer(8, 2, 16)": (5, 2, 8),
    "nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation='gelu')": (2, 5, 8),
    "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)": (5, 2, 8),
    **{f"nn.{kind}(4, 5)": (6, 3, 4) for kind in ("LSTM", "GRU", "RNN")},
    **{f"nn.{kind}(4, 5, 2, bidirectional=True)": (6, 3, 4) for kind in ("LSTM", "GRU", "RNN")},
    **{f"nn.{kind}(4, 5, batch_first=True, bias=False)": (6, 3, 4) for kind in ("LSTM", "GRU", "RNN")},
    "nn.RNN(4, 5, nonlinearity='relu')": (6, 3, 4),
}


@pytest.mark.parametrize("layer", OTHERS)
def test_other_layers(layer):
    torch.manual_seed(0)
    same(eval(layer, {"nn": nn}), torch.randn(OTHERS[layer]))


def test_embeddings_and_double_precision():
    same(nn.Embedding(5, 3), torch.tensor([[1, 4], [0, 2]]))
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    same(model, torch.randn(2, 3, dtype=torch.float64), tolerance=1e-12)


OPERATIONS = {
    "arithmetic": lambda x, y: (x + y * 2 - 3) / (y.abs() + 1) + 2 - 1 / (x.abs() + 1) - -x,
    "alpha": lambda x, y: torch.add(x, y, alpha=2) - torch.sub(x, y, alpha=0.5),
    "powers": lambda x, y: (
        (x.abs() + 1) ** 1.5 + 2**y + x**2 + torch.sqrt(y.abs()) + (y.abs() + 1).rsqrt() + x.square()
    ),
    "functions": lambda x, y: (
        torch.exp(x).log1p() + torch.sin(x) * x.cos() + torch.erf(y) + y.floor() + x.sign() + y.expm1()
    ),
    "comparisons": lambda x, y: (x > y, x <= 0, x == y, x != 0, (x > 0) & (y > 0), ~(x > 0) | (y >= x)),
    "where": lambda x, y: torch.where(x > 0, x, y * 2) + x.masked_fill(y < 0, -1.0) + torch.where(x > 0, 1.0, y),
    "limits": lambda x, y: (
        x.clamp(-0.5, 0.5) + y.clamp(min=0) + torch.maximum(x, y) - torch.minimum(x, y) + torch.max(x, y)
    ),
    "integers": lambda x, y: (x * 10).long() + (y > 0).to(torch.int64) * 2,
    "promotion": lambda x, y: (y * 10).int() * 2.5 + (x > 0) * y,
    "division": lambda x, y: (
        torch.div(x * 7, y.abs() + 1, rounding_mode="floor") + torch.div(x * 7, y.abs() + 1, rounding_mode="trunc")
    ),
    "products": lambda x, y: (x @ y.transpose(-1, -2), torch.einsum("bij,bkj->bik", x, y), torch.bmm(x, y.mT)),
    "addmm": lambda x, y: torch.addmm(x[0, 0], x[0], y[0].t(), beta=0.5, alpha=2) if x.shape[1] == x.shape[2] else x,
    "sums": lambda x, y: (
        x.sum(),
        x.sum(1),
        x.mean((0, 2), keepdim=True),
        y.amax(-1),
        x.logsumexp(1),
        x.var(1),
        x.std((0, 1), correction=0),
    ),
    "extrema": lambda x, y: (
        *x.max(1),
        *y.min(-1, keepdim=True),
        x.max(),
        y.min(),
        x.argmax(),
        x.argmin(1),
        x.max(2).values,
    ),
    "softmaxes": lambda x, y: x.softmax(1) + torch.log_softmax(y, -1) + x.cumsum(1),
    "shapes": lambda x, y: (
        x.view(2, -1),
        y.reshape(-1),
        x.flatten(1),
        x.permute(2, 0, 1),
        x.unsqueeze(1).squeeze(1),
        x.transpose(0, 2),
    ),
    "joins": lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], -1), torch.cat((x[:, :1], y, x), dim=1)),
    "parts": lambda x, y: (*x.chunk(2, 1), *y.split([1, 3], 1), *x.unbind(0), x.select(1, 2), y.narrow(1, 1, 2)),
    "indices": lambda x, y: (
        x[0],
        y[:, 1:3],
        x[..., -1],
        y[:, None, ::2],
        x[1, 2:, 0],
        y[:, [2, 0]],
        x[:, -2:],
        y[torch.tensor([1, 0])],
    ),
    "gathers": lambda x, y: (torch.gather(x, 1, y.argmax(1, keepdim=True)), x.index_select(1, torch.tensor([3, 0, 0]))),
    "expansions": lambda x, y: (x[:, :1].expand(2, 4, 4), y.repeat(1, 2, 1), x.mean(1, keepdim=True).expand_as(x)),
    "triangles": lambda x, y: (
        x.tril(),
        y.triu(1),
        x.masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf).softmax(-1),
    ),
    "attention": lambda x, y: (
        F.scaled_dot_product_attention(x, y, x),
        F.scaled_dot_product_attention(x, y, y, is_causal=True),
    ),
    "masks": lambda x, y: F.scaled_dot_product_attention(x, y, x, attn_mask=torch.eye(4, dtype=torch.bool)),
    "normalize": lambda x, y: F.normalize(x, dim=-1) + F.layer_norm(y, (4,)) + F.rms_norm(x, (4,)),
    "padding": lambda x, y: F.pad(x, (1, 2), value=3.0) if x.dim() else x,
    "constants": lambda x, y: (
        x * torch.zeros_like(x) + torch.ones_like(y) + x.new_full((4,), 2.0) + torch.full_like(x, 3)
    ),
    "turned": lambda x, y: torch.ones(4) - x + (torch.arange(4) * y) - (y < 2) * 1.0,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    torch.manual_seed(1)
    same(OPERATIONS[name], torch.randn(2, 4, 4), torch.randn(2, 4, 4), tolerance=1e-4)


class Mixed(nn.Module):
    """Names and functions in many places, a tied weight, a buffer, a dictionary as result."""

    act = staticmethod(F.gelu)

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.other_act = F.silu
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.drop = nn.Dropout(0.5)

    def forward(self, x, *, scale=1.0):
        from cygrad.nn.functional import relu  # found at run time

        y = relu(self.first(x), inplace=True) + self.shift
        y += self.other_act(self.second(x)) * scale
        return {"y": self.drop(y), "parts": [y[:, 0], None], "again": F.relu(y)}


def test_a_model_with_everything(tmp_path):
    model = Mixed().train()
    path = tmp_path / "model.onnx"
    before = F.relu, torch.relu, nn.Module.__call__
    made = export(model, torch.ones(2, 4), path, kwargs={"scale": 0.5}, input_names=["x"], output_names=["y"])
    assert (F.relu, torch.relu, nn.Module.__call__) == before and model.other_act is F.silu
    assert model.training and model.drop.training
    assert [i.name for i in made.graph.input] == ["x"]
    assert [o.name for o in made.graph.output] == ["y", "output_1", "output_2"]
    assert [w.name for w in made.graph.initializer].count("first.weight") == 1  # tied, so written once
    model.eval()
    expected = tensors(model(torch.ones(2, 4), scale=0.5))
    session = runtime.InferenceSession(str(path))
    for a, b in zip(session.run(None, {"x": np.ones((2, 4), np.float32)}), expected, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5)


def test_the_batch_may_differ_when_it_is_said_so():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )
    axes = {"input_0": {0: "batch"}, "output_0": [0]}
    made = export(model, torch.randn(2, 1, 8, 8), dynamic_axes=axes)
    x = torch.randn(7, 1, 8, 8)
    np.testing.assert_allclose(run(made, x)[0], model.eval()(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_resizing_leaves_the_batch_alone():
    made = export(nn.Upsample(size=(4, 4)), torch.ones(2, 1, 2, 2), dynamic_axes={"input_0": [0], "output_0": [0]})
    assert run(made, torch.ones(5, 1, 2, 2))[0].shape == (5, 1, 4, 4)


@pytest.mark.parametrize("opset", [18, 19, 20, 21, 22])
def test_versions(opset):
    made = same(nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.LayerNorm(3)), torch.randn(2, 3), opset_version=opset)
    assert made.opset_import[0].version == opset


def test_states_of_recurrent_layers_are_inputs_and_outputs():
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 5, 2)

        def forward(self, x, h, c):
            y, (h, c) = self.lstm(x, (h, c))
            return y[-1], h, c

    torch.manual_seed(0)
    same(Step(), torch.randn(6, 3, 4), torch.randn(2, 3, 5), torch.randn(2, 3, 5))


# ---- what is refused
def in_place_on_a_view(x):
    y = x * 2
    z = y.view(-1)
    y.relu_()
    return z


REFUSED = {
    "by its values": (lambda x: x if x.sum() > 0 else -x, "the value of a tensor is asked for"),
    "as a number": (lambda x: x * x.max().item(), "the value of a tensor is asked for"),
    "an operation": (lambda x: x.sort(), "Tensor.sort cannot be exported"),
    "a function": (lambda x: torch.fft.fft(x), "cannot be exported"),
    "truth values as index": (lambda x: x[x > 0], "index of truth values"),
    "writing to parts": (lambda x: x.__setitem__(0, 1.0), "writing to parts of a tensor"),
    "in place on a view": (in_place_on_a_view, "of which there are views"),
    "an argument": (lambda x: torch.cumsum(x, 0, out=torch.empty(2, 2)), r"cumsum\(\) cannot be exported with these"),
    "another dtype": (lambda x: x.to(torch.bfloat16), "bfloat16 cannot be exported"),
    "dropout": (lambda x: F.dropout(x), "dropout while training"),
    "a norm": (lambda x: F.batch_norm(x, None, None, training=True), "the batch's own statistics"),
    "no tensor": (lambda x: None, "returned no tensor"),
    "a number": (lambda x: 3, "returned a int"),
    "a constant": (lambda x: torch.ones(2), "does not depend on its inputs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_named(name, tmp_path):
    function, message = REFUSED[name]
    before = F.relu, torch.cumsum
    with pytest.raises(ExportError, match=message):
        export(function, torch.ones(2, 2), tmp_path / "m.onnx")
    assert (F.relu, torch.cumsum) == before and not (tmp_path / "m.onnx").exists()


def test_bad_arguments():
    model, x = nn.Linear(2, 2), torch.ones(1, 2)
    for options, message in (
        ({"opset_version": 11}, "opset_version is one of"),
        ({"input_names": ["a", "b"]}, "2 input_names were given, the model was called with 1"),
        ({"output_names": ["a", "b"]}, "2 output_names were given, the model returned 1"),
        ({"dynamic_axes": {"z": {0: "n"}}}, r"dynamic_axes names \['z'\]"),
        ({"dynamic_axes": {"input_0": {2: "n"}}}, "names dimension 2"),
    ):
        with pytest.raises(ValueError, match=message):
            export(model, x, **options)
    with pytest.raises(ValueError, match="called without a tensor"):
        export(model, ())
    with pytest.raises(ValueError, match="two inputs are called 'a'"):
        export(lambda x, y: x + y, (x, x), input_names=["a", "a"])


def test_odd_names_of_weights():
    """Files hold UTF-8; names that values of the export have, or might have, are given to no weight."""
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            names = ["constant_1", "relu_1", "input_0", "output_0", "a b", "</script>", "日本"]
            names += ["nul \x00 \ud800", "nul \ufffd \ufffd"]
            for k, name in enumerate(names):
                self.register_parameter(name, nn.Parameter(torch.full((3,), 1.0 + k)))

        def forward(self, x):
            for p in self._parameters.values():
                x = (x * p).relu() + 0.5
            return x

    made = same(Odd(), torch.randn(2, 3))
    names = [weight.name for weight in made.graph.initializer]
    assert len(set(names)) == len(names) and {"a b", "</script>", "日本"} <= set(names)
    assert made.graph.input[0].name == "input_0" and made.graph.output[0].name == "output_0"


@pytest.mark.parametrize("argument", ["input_names", "output_names"])
def test_names_of_inputs_and_outputs(argument):
    model = nn.Linear(3, 3)
    for name in ("a b", "relu", "日本", "</script>", "output", "constant_1"):
        made = same(model, torch.randn(2, 3), **{argument: [name]})
        assert name in (made.graph.input[0].name, made.graph.output[0].name)
    for names, error in (("x", TypeError), ([3], TypeError), ([b"x"], TypeError), ([""], ValueError),
                         (["\ud800"], ValueError), (["nul\x00"], ValueError)):
        with pytest.raises(error, match=argument):
            export(model, torch.randn(2, 3), **{argument: names})
    with pytest.raises(ValueError, match="an output cannot be called 'x'"):
        export(model, torch.randn(2, 3), input_names=["x"], output_names=["x"])
    with pytest.raises(ValueError, match="an output cannot be called 'weight'"):
        export(model, torch.randn(2, 3), output_names=["weight"])
    with pytest.raises(ValueError, match="an output cannot be called 'a'"):
        export(lambda x: (x + 1, x + 2), torch.randn(2, 3), output_names=["a", "a"])


def test_errors_of_the_model_come_through():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        export(lambda x, y: x + y, torch.ones(1))


def test_it_is_where_pytorch_has_it():
    assert torch.onnx.export is export


def test_on_the_command_line(tmp_path, capsys):
    script = tmp_path / "model.py"
    script.write_text("from cygrad import nn\nnet = nn.Sequential(nn.Linear(3, 2), nn.ReLU())\n", encoding="utf-8")
    assert main(["graph", f"{script}:net", "--input", "4,3", "-o", str(tmp_path / "net.onnx")]) == 0
    assert "net.onnx" in capsys.readouterr().out
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"))
