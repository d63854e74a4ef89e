"""Modules beside PyTorch's: text, parameters and their starting values, results and gradients, both modes."""

import numpy as np
import pytest

oracle = pytest.importorskip("torch")

X = ("randn", (4, 6))
IMAGE = ("randn", (2, 6, 4, 4))
SEQUENCE = ("randn", (3, 6, 5))
PROBABILITIES = ("rand", (4, 6))
PROBABILITIES_2D = ("rand", (2, 6, 4, 4))
SIGNS = ("signs", (4, 6))
CLASSES = ("classes", (4,))

# name, arguments, inputs: each with its maker and its shape
MODULES = [
    ("Threshold", (0.1, -2.0), [X]), ("RReLU", (), [X]), ("Hardtanh", (-0.5, 0.75), [X]), ("ReLU6", (), [X]),
    ("Hardsigmoid", (), [X]), ("SiLU", (), [X]), ("Mish", (), [X]), ("Hardswish", (), [X]), ("ELU", (0.7,), [X]),
    ("CELU", (0.7,), [X]), ("SELU", (), [X]), ("GLU", (), [X]), ("GLU", (0,), [X]), ("Hardshrink", (0.3,), [X]),
    ("LeakyReLU", (0.2,), [X]), ("LogSigmoid", (), [X]), ("Softplus", (2.0, 1.0), [X]), ("Softshrink", (0.3,), [X]),
    ("PReLU", (), [X]), ("PReLU", (6, 0.1), [IMAGE]), ("Softsign", (), [X]), ("Tanhshrink", (), [X]),
    ("Softmax2d", (), [IMAGE]), ("GELU", ("tanh",), [X]), ("ReLU", (True,), [X]), ("Threshold", (0, 1, True), [X]),
    ("BatchNorm1d", (6,), [X]), ("BatchNorm1d", (6, 0.1, None), [SEQUENCE]), ("BatchNorm2d", (6,), [IMAGE]),
    ("BatchNorm2d", (6, 1e-5, 0.1, False), [IMAGE]), ("BatchNorm2d", (6, 1e-5, 0.1, True, False), [IMAGE]),
    ("BatchNorm3d", (6,), [("randn", (2, 6, 3, 2, 2))]), ("InstanceNorm1d", (6,), [SEQUENCE]),
    ("InstanceNorm2d", (6, 1e-5, 0.1, True, True), [IMAGE]), ("InstanceNorm2d", (6,), [("randn", (6, 4, 4))]),
    ("InstanceNorm3d", (6, 1e-5, 0.1, True), [("randn", (2, 6, 3, 2, 2))]), ("LayerNorm", (6,), [X]),
    ("LayerNorm", ((4, 4), 1e-3), [IMAGE]), ("LayerNorm", (6, 1e-5, True, False), [X]),
    ("LayerNorm", (6, 1e-5, False), [X]), ("RMSNorm", (6,), [X]), ("RMSNorm", ((4, 4), 1e-3, False), [IMAGE]),
    ("GroupNorm", (3, 6), [IMAGE]), ("GroupNorm", (2, 6, 1e-3, False), [IMAGE]), ("LocalResponseNorm", (3,), [IMAGE]),
    ("LocalResponseNorm", (2, 0.1, 0.5, 2.0), [SEQUENCE]), ("Dropout", (0.3,), [X]), ("Dropout1d", (0.3,), [SEQUENCE]),
    ("Dropout2d", (0.3,), [IMAGE]), ("Dropout3d", (0.3,), [("randn", (2, 6, 3, 2, 2))]), ("AlphaDropout", (0.3,), [X]),
    ("FeatureAlphaDropout", (0.3,), [IMAGE]), ("Embedding", (6, 3), [CLASSES]),
    ("Embedding", (6, 3, 2, 0.5, 1.0, True), [CLASSES]), ("EmbeddingBag", (6, 3), [("classes", (4, 5))]),
    ("EmbeddingBag", (6, 3, None, 2.0, False, "max"), [("classes", (4, 5))]),
    ("EmbeddingBag", (6, 3, 0.5, 2.0, False, "sum", False, None, False, 1), [("classes", (4, 5))]),
    ("CosineSimilarity", (), [X, X]), ("CosineSimilarity", (0, 0.1), [X, X]), ("PairwiseDistance", (), [X, X]),
    ("PairwiseDistance", (1.0, 0.1, True), [X, X]), ("PixelShuffle", (2,), [("randn", (1, 8, 3, 2))]),
    ("PixelUnshuffle", (2,), [IMAGE]), ("ChannelShuffle", (3,), [IMAGE]), ("Bilinear", (6, 6, 2), [X, X]),
    ("Bilinear", (6, 6, 2, False), [X, X]), ("ConstantPad1d", ((1, 2), 3.5), [SEQUENCE]),
    ("ConstantPad2d", (1, 2.0), [IMAGE]), ("ConstantPad3d", (1, 2.0), [("randn", (2, 6, 3, 2, 2))]),
    ("ZeroPad1d", (1,), [SEQUENCE]), ("ZeroPad2d", ((1, -1, 0, 2),), [IMAGE]),
    ("ZeroPad3d", (1,), [("randn", (2, 6, 3, 2, 2))]), ("ReflectionPad1d", (2,), [SEQUENCE]),
    ("ReflectionPad2d", ((1, 2, 3, 0),), [IMAGE]), ("ReflectionPad3d", (1,), [("randn", (2, 6, 3, 2, 2))]),
    ("ReplicationPad1d", (2,), [SEQUENCE]), ("ReplicationPad2d", (5,), [IMAGE]),
    ("ReplicationPad3d", (1,), [("randn", (2, 6, 3, 2, 2))]), ("CircularPad1d", (2,), [SEQUENCE]),
    ("CircularPad2d", ((1, 2, 3, 0),), [IMAGE]), ("CircularPad3d", (1,), [("randn", (2, 6, 3, 2, 2))]),
    ("SmoothL1Loss", (None, None, "sum", 0.5), [X, X]), ("HuberLoss", ("mean", 0.5), [X, X]),
    ("GaussianNLLLoss", (), [X, X, PROBABILITIES]), ("PoissonNLLLoss", (False, True), [PROBABILITIES, PROBABILITIES]),
    ("PoissonNLLLoss", (), [X, PROBABILITIES]), ("KLDivLoss", (None, None, "batchmean"), [X, PROBABILITIES]),
    ("KLDivLoss", (None, None, "sum", True), [X, X]), ("BCELoss", (), [PROBABILITIES, PROBABILITIES]),
    ("BCEWithLogitsLoss", (), [X, PROBABILITIES]), ("SoftMarginLoss", (), [X, SIGNS]),
    ("MarginRankingLoss", (0.5,), [X, X, SIGNS]), ("HingeEmbeddingLoss", (0.5,), [X, SIGNS]),
    ("MultiMarginLoss", (2, 0.5), [X, CLASSES]), ("MultiLabelMarginLoss", (), [X, ("labels", (4, 6))]),
    ("MultiLabelSoftMarginLoss", (), [X, PROBABILITIES]), ("CosineEmbeddingLoss", (0.1,), [X, X, ("signs", (4,))]),
    ("TripletMarginLoss", (2.0, 1.0, 1e-3, True), [X, X, X]), ("TripletMarginWithDistanceLoss", (), [X, X, X]),
    ("Conv1d", (6, 4, 3), [SEQUENCE]), ("Conv1d", (6, 4, 2, 2, 1, 2, 2, False, "circular"), [SEQUENCE]),
    ("Conv2d", (6, 4, 3), [IMAGE]), ("Conv2d", (6, 6, (3, 2), (1, 2), (1, 0), 1, 6), [IMAGE]),
    ("Conv2d", (6, 4, 2, 1, "same"), [IMAGE]), ("Conv2d", (6, 4, 3, 1, 1, 1, 2, True, "reflect"), [IMAGE]),
    ("Conv2d", (6, 4, 1), [("randn", (6, 4, 4))]), ("Conv3d", (6, 4, 2, 1, 1), [("randn", (2, 6, 3, 2, 2))]),
    ("ConvTranspose1d", (6, 4, 3, 2, 1, 1), [SEQUENCE]), ("ConvTranspose2d", (6, 4, 3, 2, 1, 1, 2), [IMAGE]),
    ("ConvTranspose2d", (6, 4, 2, 1, 0, 1, 1, False, 2), [IMAGE]),
    ("ConvTranspose3d", (6, 4, 2), [("randn", (2, 6, 3, 2, 2))]), ("Unfold", (2, 1, 1, 2), [IMAGE]),
    ("Fold", ((5, 4), 2, 1, 1, 1), [("randn", (2, 12, 30))]), ("MaxPool1d", (2,), [SEQUENCE]),
    ("MaxPool2d", (3, 2, 1, 1, False, True), [IMAGE]), ("MaxPool2d", (2, 1, 0, 2), [IMAGE]),
    ("MaxPool3d", ((2, 1, 2), 1), [("randn", (2, 6, 3, 2, 2))]), ("AvgPool1d", (2, 2, 1), [SEQUENCE]),
    ("AvgPool2d", (3, 2, 1, True, False), [IMAGE]), ("AvgPool2d", (2, None, 0, False, True, 3), [IMAGE]),
    ("AvgPool3d", (2, 1, 1), [("randn", (2, 6, 3, 2, 2))]), ("LPPool1d", (2, 2), [SEQUENCE]),
    ("LPPool2d", (3, (2, 3), 1, True), [PROBABILITIES_2D]), ("LPPool3d", (2, 2), [("randn", (2, 6, 3, 2, 2))]),
    ("AdaptiveAvgPool1d", (3,), [SEQUENCE]), ("AdaptiveAvgPool2d", ((3, None),), [IMAGE]),
    ("AdaptiveAvgPool3d", (2,), [("randn", (2, 6, 3, 2, 2))]), ("AdaptiveMaxPool1d", (3,), [SEQUENCE]),
    ("AdaptiveMaxPool2d", (3,), [IMAGE]), ("AdaptiveMaxPool3d", ((2, 1, 2),), [("randn", (2, 6, 3, 2, 2))]),
    ("Upsample", (7,), [SEQUENCE]), ("Upsample", (None, 1.7, "nearest-exact"), [IMAGE]),
    ("Upsample", (None, (1.5, 0.6), "bilinear"), [IMAGE]), ("Upsample", ((3, 7), None, "bicubic", True), [IMAGE]),
    ("Upsample", (None, 2, "bicubic", False), [IMAGE]), ("Upsample", (None, 1.3, "linear", False, True), [SEQUENCE]),
    ("Upsample", (5, None, "trilinear"), [("randn", (2, 6, 3, 2, 2))]), ("Upsample", (3, None, "area"), [IMAGE]),
    ("UpsamplingNearest2d", (3,), [IMAGE]), ("UpsamplingBilinear2d", (None, 2), [IMAGE]),
    ("CrossEntropyLoss", (None, None, -100, None, "sum", 0.1), [X, CLASSES]), ("Softmax", (1,), [X]),
    ("Softmin", (1,), [X]), ("LogSoftmax", (0,), [X]), ("Sigmoid", (), [X]), ("Tanh", (), [X]), ("Identity", (), [X]),
    ("Flatten", (), [IMAGE]), ("Flatten", (0, 2), [IMAGE]), ("Unflatten", (1, (2, 3)), [IMAGE]),
    ("Linear", (6, 3), [X]), ("Linear", (4, 2, False), [IMAGE]), ("MSELoss", (None, None, "sum"), [X, X]),
    ("L1Loss", (), [X, X]), ("NLLLoss", (), [X, CLASSES]), ("NLLLoss", (None, None, 2, None, "sum"), [X, CLASSES]),
]


def made(kind, shape, drawn):
    if kind == "randn":
        return drawn.standard_normal(shape)
    if kind == "rand":
        return drawn.uniform(0.05, 0.95, shape)
    if kind == "signs":
        return drawn.choice([-1.0, 1.0], shape)
    if kind == "labels":
        return np.array([[0, 3, -1, 2, 2, 2], [5, 4, 3, 2, 1, 0], [-1, 1, 1, 1, 1, 1], [2, 1, -1, -1, 0, 0]])
    return drawn.integers(0, 6, shape)


def run(lib, module, inputs, training):
    """Results and gradients: of inputs and of parameters."""
    module.train(training)
    tensors = [lib.tensor(x.tolist(), dtype=lib.float64 if x.dtype.kind == "f" else lib.int64) for x in inputs]
    for t in tensors[:1]:
        if t.is_floating_point():
            t.requires_grad_()
    lib.manual_seed(5)
    whole = tensors if not getattr(module, "inplace", False) else [tensors[0].clone(), *tensors[1:]]
    result = module(*whole)
    weights = lib.linspace(-1, 2, max(result.numel(), 1), dtype=lib.float64)[: result.numel()].reshape(result.shape)
    (result * weights).sum().backward()
    leaves = [*tensors[:1], *module.parameters()]
    return [result, *(t.grad for t in leaves), *module.buffers()]


@pytest.mark.parametrize("case", range(len(MODULES)), ids=lambda i: f"{MODULES[i][0]}{i}")
def test_as_pytorch(nn, torch, case):
    name, args, shapes = MODULES[case]
    oracle.manual_seed(7)
    torch.manual_seed(7)
    theirs, ours = getattr(oracle.nn, name)(*args), getattr(nn, name)(*args)
    assert repr(ours) == repr(theirs)
    want = theirs.state_dict()
    got = ours.state_dict()
    assert list(got) == list(want)
    for key in want:
        np.testing.assert_allclose(got[key].numpy(), want[key].numpy(), rtol=1e-6, atol=1e-7, err_msg=key)
    theirs, ours = theirs.double(), ours.double()
    drawn = np.random.default_rng(case)
    inputs = [made(kind, shape, drawn) for kind, shape in shapes]
    for training in (True, False):
        for a, b in zip(run(torch, ours, inputs, training), run(oracle, theirs, inputs, training), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling(nn, torch, dims):
    """What a pooling module leaves, put back where it was."""
    values = np.random.default_rng(dims).standard_normal((2, 3, *(5,) * dims))
    found = []
    for lib in (torch, oracle):
        x = lib.tensor(values.tolist(), dtype=lib.float64, requires_grad=True)
        pool = getattr(lib.nn, f"MaxPool{dims}d")(3, 2, return_indices=True)
        unpool = getattr(lib.nn, f"MaxUnpool{dims}d")(3, 2)
        y = unpool(*pool(x), output_size=list(x.shape))
        y.cos().sum().backward()
        sizes = f"kernel_size={(3,) * dims}, stride={(2,) * dims}, padding={(0,) * dims}"
        assert repr(unpool) == f"MaxUnpool{dims}d({sizes})"
        found.append([y.detach().numpy(), x.grad.numpy(), np.array(unpool(*pool(x)).shape)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("impossible_is_zero", [False, True])
def test_ctc_loss(nn, torch, reduction, impossible_is_zero):
    """Padded targets and joined ones, of different lengths; the last is longer than its input allows."""
    drawn = np.random.default_rng(0)
    scores, targets = drawn.standard_normal((9, 4, 5)), drawn.integers(1, 5, (4, 6))
    lengths, sizes = (9, 7, 1, 4), (6, 3, 0, 6)
    joined = [label for row, size in zip(targets.tolist(), sizes, strict=True) for label in row[:size]]
    for labels in (targets.tolist(), joined):
        found = []
        for lib in (torch, oracle):
            x = lib.tensor(scores.tolist(), dtype=lib.float64, requires_grad=True)
            loss = lib.nn.CTCLoss(0, reduction, impossible_is_zero)
            y = loss(x.log_softmax(2), lib.tensor(labels), lib.tensor(lengths), lib.tensor(sizes))
            (y * lib.arange(1.0, 5.0) if reduction == "none" else y).sum().backward()
            found.append([y.detach().numpy(), x.grad.numpy()])
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
