"""Operations of layers as nodes of ONNX: activations, convolutions, pooling, norms, attention, recurrence."""

import math

import numpy as np

import cygrad
from cygrad.tools._onnx_trace import MODULES, ExportError, Traced, call, composed, nodes


def _in_place(input, made, inplace):
    return input.become(made) if inplace else made


def _sizes(value, dims):
    return list(value) if isinstance(value, (list, tuple)) else [value] * dims


# ---- activations
@nodes("leaky_relu")
def _leaky_relu(t, y, input, negative_slope=0.01, inplace=False):
    _no_writing("leaky_relu", inplace)
    return t.add("LeakyRelu", [input], alpha=float(negative_slope))


def _no_writing(name, inplace):
    if inplace:
        raise ExportError(f"{name} with inplace=True cannot be exported: make it with inplace=False")


@composed("relu_")
def _relu_(input):
    return _relu(input, inplace=True)


@composed("relu")
def _relu(input, inplace=False):
    made = Traced(input.trace, input.trace.add("Relu", [input]), input.value.relu())
    return _in_place(input, made, inplace)


@composed("relu6")
def _relu6(input, inplace=False):
    return _in_place(input, input.clamp(0, 6), inplace)


@composed("hardtanh")
def _hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return _in_place(input, input.clamp(min_val, max_val), inplace)


@composed("hardsigmoid")
def _hardsigmoid(input, inplace=False):
    return _in_place(input, (input + 3).clamp(0, 6) / 6, inplace)


@composed("hardswish")
def _hardswish(input, inplace=False):
    return _in_place(input, input * ((input + 3).clamp(0, 6) / 6), inplace)


@composed("silu")
def _silu(input, inplace=False):
    return _in_place(input, input * input.sigmoid(), inplace)


@composed("mish")
def _mish(input, inplace=False):
    return _in_place(input, input * _softplus(input).tanh(), inplace)


@composed("gelu")
def _gelu(input, approximate="none"):
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)
        return 0.5 * input * (1 + inner.tanh())
    return 0.5 * input * (1 + (input * math.sqrt(0.5)).erf())


@composed("softplus")
def _softplus(input, beta=1, threshold=20):
    scaled = input * beta
    soft = (1 + (-scaled.abs()).exp()).log() + scaled.clamp(min=0)
    return cygrad.where(scaled > threshold, input, soft / beta)


@composed("logsigmoid")
def _logsigmoid(input):
    return -_softplus(-input)


@composed("glu")
def _glu(input, dim=-1):
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


@composed("tanhshrink")
def _tanhshrink(input):
    return input - input.tanh()


@composed("softmin")
def _softmin(input, dim=None, _stacklevel=3, dtype=None):
    return (-input).softmax(dim)


@nodes("elu")
def _elu(t, y, input, alpha=1.0, inplace=False):
    _no_writing("elu", inplace)
    return t.add("Elu", [input], alpha=float(alpha))


@nodes("celu")
def _celu(t, y, input, alpha=1.0, inplace=False):
    _no_writing("celu", inplace)
    return t.add("Celu", [input], alpha=float(alpha))


@nodes("selu")
def _selu(t, y, input, inplace=False):
    _no_writing("selu", inplace)
    return t.add("Selu", [input])


@nodes("prelu")
def _prelu(t, y, input, weight):
    slopes = t.name_of(weight)
    if weight.numel() > 1:
        slopes = t.add("Reshape", [slopes, t.integers(-1, *(1,) * (input.dim() - 2))])
    return t.add("PRelu", [input, slopes])


@nodes("softmax")
def _softmax(t, y, input, dim=None, _stacklevel=3, dtype=None):
    return t.add("Softmax", [t.name_of(input, y.dtype)], axis=_dim_of("softmax", dim))


@nodes("log_softmax")
def _log_softmax(t, y, input, dim=None, _stacklevel=3, dtype=None):
    return t.add("LogSoftmax", [t.name_of(input, y.dtype)], axis=_dim_of("log_softmax", dim))


def _dim_of(name, dim):
    if dim is None:
        raise ExportError(f"{name} without a dim cannot be exported")
    return dim


@composed("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
def _dropout(input, p=0.5, training=True, inplace=False):
    if training and p:
        raise ExportError("dropout while training cannot be exported: call it with training=self.training")
    return input


# ---- maps
@nodes("linear")
def _linear(t, y, input, weight, bias=None):
    if input.dim() == 2:
        return t.add("Gemm", [input, weight, bias], transB=1)
    turned = t.add("Transpose", [weight], perm=[1, 0])
    product = t.add("MatMul", [input, turned])
    return product if bias is None else t.add("Add", [product, bias])


@nodes("embedding")
def _embedding(t, y, input, weight, padding_idx=None, max_norm=None, *others, **more):
    if max_norm is not None:
        raise ExportError("embedding with max_norm cannot be exported: it writes to the weight")
    return t.add("Gather", [weight, input], axis=0)


def _convolution(dims):
    def add(t, y, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if input.dim() != dims + 2:
            raise ExportError("a convolution without a batch dimension cannot be exported")
        steps, spread = _sizes(stride, dims), _sizes(dilation, dims)
        if isinstance(padding, str):
            whole = [d * (k - 1) for d, k in zip(spread, weight.shape[2:], strict=True)]
            whole = [0] * dims if padding == "valid" else whole
            pads = [n // 2 for n in whole] + [n - n // 2 for n in whole]
        else:
            pads = _sizes(padding, dims) * 2
        return t.add("Conv", [input, weight, bias], strides=steps, pads=pads, dilations=spread, group=groups)

    return add


def _transposed(dims):
    def add(t, y, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        if input.dim() != dims + 2:
            raise ExportError("a convolution without a batch dimension cannot be exported")
        return t.add(
            "ConvTranspose", [input, weight, bias], strides=_sizes(stride, dims), pads=_sizes(padding, dims) * 2,
            output_padding=_sizes(output_padding, dims), group=groups, dilations=_sizes(dilation, dims),
        )  # fmt: skip

    return add


# ---- pooling
def _max_pool(dims):
    def add(t, y, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            raise ExportError("max_pool with return_indices=True cannot be exported")
        kernel = _sizes(kernel_size, dims)
        return t.add(
            "MaxPool", [input], kernel_shape=kernel, strides=_sizes(stride or kernel, dims),
            pads=_sizes(padding, dims) * 2, dilations=_sizes(dilation, dims), ceil_mode=int(ceil_mode),
        )  # fmt: skip

    return add


def _avg_pool(dims):
    def add(
        t, y, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        if divisor_override is not None:
            raise ExportError("avg_pool with divisor_override cannot be exported")
        kernel = _sizes(kernel_size, dims)
        return t.add(
            "AveragePool", [input], kernel_shape=kernel, strides=_sizes(stride or kernel, dims),
            pads=_sizes(padding, dims) * 2, ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad),
        )  # fmt: skip

    return add


def _adaptive(dims, kind):
    def add(t, y, input, output_size, return_indices=False):
        if return_indices:
            raise ExportError("adaptive_max_pool with return_indices=True cannot be exported")
        sizes, results = input.shape[-dims:], y.shape[-dims:]
        if all(n == 1 for n in results):
            return t.add(f"Global{kind}", [input])
        if any(n % m for n, m in zip(sizes, results, strict=True)):
            raise ExportError(
                f"adaptive pooling from {tuple(sizes)} to {tuple(results)} cannot be exported: not divisible"
            )
        kernel = [n // m for n, m in zip(sizes, results, strict=True)]
        return t.add(kind, [input], kernel_shape=kernel, strides=kernel)

    return add


for _dims in (1, 2, 3):
    nodes(f"conv{_dims}d")(_convolution(_dims))
    nodes(f"conv_transpose{_dims}d")(_transposed(_dims))
    nodes(f"max_pool{_dims}d")(_max_pool(_dims))
    nodes(f"avg_pool{_dims}d")(_avg_pool(_dims))
    nodes(f"adaptive_avg_pool{_dims}d")(_adaptive(_dims, "AveragePool"))
    nodes(f"adaptive_max_pool{_dims}d")(_adaptive(_dims, "MaxPool"))


@nodes("pad")
def _pad(t, y, input, pad, mode="constant", value=None):
    kinds = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in kinds:
        raise ExportError(f"padding of mode {mode!r} cannot be exported")
    before, after = [0] * input.dim(), [0] * input.dim()
    for k in range(len(pad) // 2):
        before[-1 - k], after[-1 - k] = pad[2 * k], pad[2 * k + 1]
    fill = t.name_of(value or 0, y.dtype) if mode == "constant" else None
    return t.add("Pad", [input, t.integers(*before, *after), fill], mode=kinds[mode])


@nodes("interpolate", "upsample")
def _interpolate(
    t, y, input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
    antialias=False,
):  # fmt: skip
    if antialias or mode not in ("nearest", "linear", "bilinear", "trilinear"):
        raise ExportError(f"interpolate of mode {mode!r}, antialias={antialias} cannot be exported")
    dims = input.dim() - 2
    sizes, scales = t.integers(*y.shape[2:]), None
    if scale_factor is not None and not recompute_scale_factor:  # then places follow from it, not from the sizes
        factors = np.array(_sizes(scale_factor, dims), dtype=np.float32)
        if [int(n * f) for n, f in zip(input.shape[2:], factors, strict=True)] != list(y.shape[2:]):
            raise ExportError(f"interpolate by {scale_factor} cannot be exported: in float32 the size would be another")
        sizes, scales = None, t.constant(factors)
    given = "asymmetric" if mode == "nearest" else "align_corners" if align_corners else "pytorch_half_pixel"
    return t.add(
        "Resize", [input, None, scales, sizes], mode="nearest" if mode == "nearest" else "linear",
        coordinate_transformation_mode=given, nearest_mode="floor", axes=list(range(2, input.dim())),
    )  # fmt: skip


@nodes("pixel_shuffle")
def _pixel_shuffle(t, y, input, upscale_factor):
    return t.add("DepthToSpace", [input], blocksize=upscale_factor, mode="CRD")


# ---- norms
@nodes("batch_norm")
def _batch_norm(t, y, input, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training or mean is None:
        raise ExportError("batch_norm by the batch's own statistics cannot be exported")
    weight = np.ones(len(mean), dtype=mean.numpy().dtype) if weight is None else weight
    bias = np.zeros(len(mean), dtype=mean.numpy().dtype) if bias is None else bias
    scale, shift = (t.constant(v) if isinstance(v, np.ndarray) else v for v in (weight, bias))
    return t.add("BatchNormalization", [input, scale, shift, mean, var], epsilon=float(eps))


@nodes("layer_norm")
def _layer_norm(t, y, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)
    scale = t.constant(np.ones(shape, dtype=input.value.numpy().dtype)) if weight is None else weight
    return t.add("LayerNormalization", [input, scale, bias], axis=-len(shape), epsilon=float(eps))


@composed("group_norm")
def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    batch, channels = input.shape[:2]
    grouped = input.reshape(batch, num_groups, -1)
    away = grouped - grouped.mean(-1, keepdim=True)
    made = (away / ((away * away).mean(-1, keepdim=True) + eps).sqrt()).reshape(input.shape)
    return _scaled(made, weight, bias, (channels, *(1,) * (input.dim() - 2)))


@composed("instance_norm")
def _instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if not use_input_stats:
        raise ExportError("instance_norm by running statistics cannot be exported")
    return _group_norm(input, input.shape[1], weight, bias, eps)


@composed("rms_norm")
def _rms_norm(input, normalized_shape, weight=None, eps=None):
    shape = tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)
    eps = cygrad.finfo(input.dtype).eps if eps is None else eps
    mean = (input * input).mean(tuple(range(-len(shape), 0)), keepdim=True)
    return _scaled(input / (mean + eps).sqrt(), weight, None, shape)


def _scaled(x, weight, bias, shape):
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


@composed("normalize")
def _normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    if p != 2:
        raise ExportError(f"normalize with p={p} cannot be exported, 2 can")
    return input / (input * input).sum(dim, keepdim=True).sqrt().clamp(min=eps)


# ---- attention
@composed("scaled_dot_product_attention")
def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p or enable_gqa:
        raise ExportError("attention with dropout or enable_gqa cannot be exported")
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = cygrad.ones(query.shape[-2], key.shape[-2], dtype=cygrad.bool).tril()
    if attn_mask is not None:
        scores = cygrad.where(attn_mask, scores, -math.inf) if attn_mask.dtype == cygrad.bool else scores + attn_mask
    return scores.softmax(-1) @ value


def _multihead(module, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, *, is_causal=False,
               average_attn_weights=True):  # fmt: skip
    """`MultiheadAttention` of sequences in a batch, without the rarer options."""
    if key_padding_mask is not None or module.bias_k is not None or module.add_zero_attn or query.dim() != 3:
        raise ExportError(
            "MultiheadAttention with a padding mask, bias_k, add_zero_attn or no batch cannot be exported"
        )
    if module.in_proj_weight is None:
        weights = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
    else:
        weights = module.in_proj_weight.detach().chunk(3)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.detach().chunk(3)
    linear = cygrad.nn.functional.linear
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    if not module.batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    heads, batch, length = module.num_heads, q.shape[0], q.shape[1]
    q, k, v = (x.reshape(batch, x.shape[1], heads, -1).transpose(1, 2) for x in (q, k, v))
    if attn_mask is not None and attn_mask.dtype == cygrad.bool:
        attn_mask = cygrad.logical_not(attn_mask)  # here True stands for what is left out
    if attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.reshape(batch, heads, *attn_mask.shape[1:])
    causal = is_causal and attn_mask is None
    made = _attention(q, k, v, attn_mask, is_causal=causal).transpose(1, 2).reshape(batch, length, -1)
    if need_weights:
        raise ExportError(
            "MultiheadAttention with need_weights=True cannot be exported: call it with need_weights=False"
        )
    made = linear(made, module.out_proj.weight, module.out_proj.bias)
    return (made if module.batch_first else made.transpose(0, 1)), None


MODULES["MultiheadAttention"] = _multihead


# ---- recurrence
def _recurrent(kind, gates, order):
    """`LSTM`, `GRU` or `RNN`: one node for each layer. Gates stand in another order in ONNX."""

    def run(module, input, hx=None):
        if input.dim() != 3 or getattr(module, "proj_size", 0):
            raise ExportError(f"{kind} without a batch dimension, or with proj_size, cannot be exported")
        if module.training and module.dropout:
            raise ExportError(f"{kind} with dropout while training cannot be exported")
        both = 2 if module.bidirectional else 1
        steps = input.transpose(0, 1) if module.batch_first else input
        states = hx if isinstance(hx, tuple) else () if hx is None else (hx,)
        with cygrad.no_grad():
            value, last = type(module).forward(module, _plain(input), _plain(hx))
        trace, finals = input.trace, []
        for layer in range(module.num_layers):
            packed = [
                _packed(module, trace, layer, part, gates, order, both) for part in ("weight_ih", "weight_hh", "bias")
            ]
            starts = [
                trace.add("Slice", [s, *(trace.integers(v) for v in (layer * both, (layer + 1) * both, 0))])
                for s in states
            ]
            outputs = trace.add(
                kind, [steps, *packed, None, *starts], outputs=3 if kind == "LSTM" else 2,
                hidden_size=module.hidden_size, direction="bidirectional" if both == 2 else "forward",
                linear_before_reset=1 if kind == "GRU" else None,
                activations=["Relu"] * both if module.mode == "RNN_RELU" else None,
            )  # fmt: skip
            finals.append(outputs[1:])
            joined = trace.add("Transpose", [outputs[0]], perm=[0, 2, 1, 3])
            steps = trace.add("Reshape", [joined, trace.integers(0, 0, -1)])
        if module.batch_first:
            steps = trace.add("Transpose", [steps], perm=[1, 0, 2])
        several = last if isinstance(last, tuple) else (last,)
        ends = [
            Traced(trace, trace.add("Concat", list(names), axis=0), v)
            for names, v in zip(zip(*finals, strict=True), several, strict=True)
        ]
        return Traced(trace, steps, value), tuple(ends) if isinstance(last, tuple) else ends[0]

    return run


def _plain(value):
    if isinstance(value, Traced):
        return value.value
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _packed(module, trace, layer, part, gates, order, both):
    """The weights or biases of a layer, for both directions, gates in ONNX's order."""
    rows = []
    for suffix in ("", "_reverse")[:both]:
        names = [part] if part != "bias" else ["bias_ih", "bias_hh"]
        if part == "bias" and not module.bias:
            return None
        arrays = [getattr(module, f"{name}_l{layer}{suffix}").detach().numpy() for name in names]
        blocks = [np.split(array, gates) for array in arrays]
        rows.append(np.concatenate([block[k] for block in blocks for k in order]))
    return trace.constant(np.stack(rows))


MODULES["LSTM"] = _recurrent("LSTM", 4, (0, 3, 1, 2))
MODULES["GRU"] = _recurrent("GRU", 3, (1, 0, 2))
MODULES["RNN"] = _recurrent("RNN", 1, (0,))


def _pooling_module(name):
    """Some modules hold their function since the class was made, where no stand-in reaches it."""

    def run(module, input):
        options = (module.kernel_size, module.stride, module.padding, module.ceil_mode, module.count_include_pad)
        return call(name, getattr(cygrad.nn.functional, name), (input, *options, module.divisor_override), {})

    return run


MODULES["AvgPool2d"] = _pooling_module("avg_pool2d")
MODULES["AvgPool3d"] = _pooling_module("avg_pool3d")
