"""Public names, signatures, and texts of modules under many options, beside PyTorch's; what is left out says why."""

import importlib
import inspect
import types
import warnings

import pytest

oracle = pytest.importorskip("torch")

# Names that are PyTorch's own tools, or come from other modules, and are public by accident.
INTERNAL = {
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "DType", "GRID_SAMPLE_INTERPOLATION_MODES",
    "GRID_SAMPLE_PADDING_MODES", "TYPE_CHECKING", "assert_int_or_pair", "boolean_dispatch", "common_types",
    "factory_kwargs", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "grad", "has_torch_function_variadic", "reproducibility_notes", "sparse_support_notes", "tf32_notes",
    "PackedSequence_",
    "bind", "copy_method_params", "get_swap_module_params_on_conversion", "is_opaque_reference_type",
    "is_traceable_wrapper_subclass", "auto", "OpaqueBase", "swap_in_optimizer_params_and_state",
}  # fmt: skip
PLACES = ["nn", "nn.grad", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize",
    "nn.utils.parametrizations",
          "nn.parameter", "optim", "optim.lr_scheduler", "optim.swa_utils"]  # fmt: skip


def public(module):
    """The names of a module that are PyTorch's and meant to be used."""
    for name in dir(module):
        value = getattr(module, name)
        home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        if home is None and callable(value):
            home = "torch"  # compiled
        own = home is not None and home.startswith("torch") and value not in (oracle, oracle.Tensor, oracle.Generator)
        if own and not name.startswith("_") and name not in INTERNAL:
            yield name


@pytest.mark.parametrize("place", PLACES)
def test_every_public_name(torch, place):
    from cygrad._absent import ABSENT

    theirs, ours = importlib.import_module("torch." + place), importlib.import_module("cygrad." + place)
    imported = {"Optimizer"} if place == "optim.lr_scheduler" else set()
    missing = {name for name in public(theirs) if not hasattr(ours,
        name) and f"{place}.{name}" not in ABSENT} - imported
    assert not missing


def test_what_is_absent_is_absent():
    """An entry of the table that came true goes."""
    from cygrad._absent import ABSENT

    wrong = []
    for path in ABSENT:
        place, _, name = ("cygrad." + path).rpartition(".")
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError:
            continue
        if hasattr(module, name):
            wrong.append(path)
    assert not wrong


@pytest.mark.parametrize("path", ["jit", "compile", "distributed", "fx", "sparse_coo_tensor", "quantization",
    "nn.SyncBatchNorm", "nn.parallel.DistributedDataParallel",
                                  "nn.quantized", "nn.functional.scaled_mm", "nn.utils.prune"])  # fmt: skip
def test_what_is_absent_says_why(path):
    place, _, name = ("cygrad." + path).rpartition(".")
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*{path}.* does not exist: "):
        getattr(importlib.import_module(place), name)
    for statement in (f"import cygrad.{path}", f"from {place} import {name}", f"from cygrad.{path} import something"):
        with pytest.raises(ImportError, match=f"cygrad.{path} does not exist: "):
            exec(statement)


def test_other_names_are_as_ever():
    with pytest.raises(AttributeError, match=r"module 'cygrad' has no attribute 'nope'$"):
        importlib.import_module("cygrad").nope  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'cygrad.nope'"):
        importlib.import_module("cygrad.nope")


# ---- signatures
def parameters(function):
    return [(p.name, p.kind, str(p.default).replace("cygrad", "torch") if not callable(p.default) else None)
            for p in inspect.signature(function).parameters.values()]  # fmt: skip


# More than PyTorch's: a default where PyTorch asks for the argument, positions where it wants names.
OTHERWISE = {"Module.forward", "ModuleList.pop", "Sequential.pop"}
# Steps of PyTorch's own implementation.
STEPS = {
    "LSTM.get_expected_cell_size", "LSTM.check_forward_args", "LSTM.permute_hidden", "MultiheadAttention.merge_masks",
    "RNNBase.check_input", "RNNBase.get_expected_hidden_size", "RNNBase.check_hidden_size",
    "RNNBase.check_forward_args",
    "RNNBase.permute_hidden", "Optimizer.profile_hook_step", "SequentialLR.recursive_undo",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_signatures(place):
    theirs, ours = importlib.import_module("torch." + place), importlib.import_module("cygrad." + place)
    different = []
    for name in public(theirs):
        a, b = getattr(theirs, name), getattr(ours, name, None)
        if not callable(a) or b is None:
            continue
        pairs = [(name, a, b)]
        if isinstance(a, type):
            members = [m for m in vars(a) if callable(getattr(a, m)) and (m == "__init__" or not m.startswith("_"))]
            pairs = [(f"{name}.{m}", getattr(a, m), getattr(b, m, None)) for m in members]
        for path, f, g in pairs:
            try:
                wanted = parameters(f)
            except ValueError:
                continue  # compiled functions tell none
            general = {word for word, _, _ in wanted} <= {"self", "args", "kwargs"}
            if general or path in OTHERWISE | STEPS or isinstance(f, type):
                continue
            if g is None or parameters(g) != wanted:
                different.append((path, wanted, None if g is None else parameters(g)))
    assert not different


# ---- texts
ARGUMENTS = {
    "Bilinear": (2, 3, 4), "Conv1d": (4, 4, 3), "Conv2d": (4, 4, 3), "Conv3d": (4, 4, 3), "ConvTranspose1d": (4, 4, 3),
    "ConvTranspose2d": (4, 4, 3), "ConvTranspose3d": (4, 4, 3), "LazyConv1d": (4, 3), "LazyConv2d": (4, 3),
    "LazyConv3d": (4, 3),
    "LazyConvTranspose1d": (4, 3), "LazyConvTranspose2d": (4, 3), "LazyConvTranspose3d": (4, 3), "Linear": (3, 4),
    "Embedding": (5, 3), "EmbeddingBag": (5, 3), "GroupNorm": (2, 4), "LayerNorm": (4,), "RMSNorm": (4,),
    "Fold": (4, 2),
    "Unfold": (2,), "Threshold": (0.1, 2.0), "PixelShuffle": (2,), "PixelUnshuffle": (2,), "ChannelShuffle": (2,),
    "RNN": (3, 4), "LSTM": (3, 4), "GRU": (3, 4), "RNNCell": (3, 4), "LSTMCell": (3, 4), "GRUCell": (3, 4),
    "MultiheadAttention": (4, 2), "TransformerEncoderLayer": (4, 2), "TransformerDecoderLayer": (4, 2),
    "LinearCrossEntropyLoss": (3, 4), "AdaptiveLogSoftmaxWithLoss": (8, 9, [3]), "Unflatten": (1, (2, 3)),
    "FractionalMaxPool2d": (2, 3), "FractionalMaxPool3d": (2, 3), "LocalResponseNorm": (2,), "LPPool1d": (2, 2),
    "LPPool2d": (2, 2), "LPPool3d": (2, 2), "Transformer": (4, 2, 1, 1, 8),
}  # fmt: skip
VALUES = [True, False, None, 0, 1, 2, 3, 0.25, 2.5, -1, (1, 2), (2, 1, 3), "sum", "none", "mean", "max", "same",
    "valid", "reflect",
          "circular", "replicate", "relu", "gelu", "tanh", "linear", "bilinear", "nearest", "bicubic", "text",
          [1, 2]]  # fmt: skip
WITHOUT = {"Container", "DataParallel", "SyncBatchNorm", "CrossMapLRN2d", "Module", "RNNBase", "RNNCellBase",
    "ModuleList",
           "ModuleDict", "ParameterList", "ParameterDict", "Sequential", "TransformerEncoder",
           "TransformerDecoder"}  # fmt: skip
CLASSES = [name for name in dir(oracle.nn) if isinstance(getattr(oracle.nn, name), type)
           and issubclass(getattr(oracle.nn, name), oracle.nn.Module) and name not in WITHOUT]  # fmt: skip
# PyTorch takes a tuple only.
LENIENT = {("Upsample", "scale_factor"), ("UpsamplingNearest2d", "scale_factor"),
    ("UpsamplingBilinear2d", "scale_factor")}


def text(lib, name, args, options):
    """What an attempt to make a module gives: its text, or the kind of error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(getattr(lib.nn, name)(*args, **options))
        except Exception as error:
            return type(error).__name__


@pytest.mark.parametrize("name", CLASSES)
def test_texts(torch, name):
    theirs = getattr(oracle.nn, name)
    known = inspect.signature(theirs.__init__ if name not in ("RNN", "LSTM", "GRU") else getattr(torch.nn,
        name).__init__)
    words = [p for p in list(known.parameters)[1:] if p not in ("device", "dtype", "args", "kwargs")]
    args = ARGUMENTS.get(name, tuple(3 for p in list(known.parameters.values())[1:]
                                     if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD))  # fmt: skip
    assert text(torch, name, args, {}) == text(oracle, name, args, {})
    different = []
    for place, word in enumerate(words):
        for value in VALUES:
            given, options = (args, {word: value}) if place >= len(args) else (
                (*args[:place], value, *args[place + 1 :]), {})  # fmt: skip
            ours, wanted = text(torch, name, given, options), text(oracle, name, given, options)
            if ours.endswith("Error"):
                continue  # what PyTorch refuses later, in the first call, is refused as well
            if ours != wanted and (name, word) not in LENIENT:
                different.append((word, value, ours, wanted))
    assert not different
