"""The messages of event files: one function for each kind of thing that TensorBoard shows."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from cygrad import Tensor

__all__ = [
    "array_of",
    "audio",
    "custom_scalars",
    "grid",
    "histogram",
    "hparams",
    "image",
    "mesh",
    "picture",
    "pr_curve",
    "pr_curve_of",
    "scalar",
    "tensor",
    "text",
    "video",
]


def array_of(value: Any) -> np.ndarray:
    """A tensor, NumPy array, number or sequence as an array; halves as float32."""
    if isinstance(value, Tensor):
        value = value.detach()
        return (value.float() if value.dtype.itemsize == 2 and value.is_floating_point() else value).numpy()
    if isinstance(value, str):
        raise NotImplementedError(f"a number, tensor or array is wanted, got the text {value!r}")
    return np.asarray(value)


def _shaped(*sizes: int) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def _for_plugin(name: str, content: bytes = b"") -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))


def _one(**value: Any) -> Summary:
    return Summary(value=[Summary.Value(**value)])


def scalar(tag: str, value: Any, as_tensor: bool = False, double: bool = False) -> Summary:
    """A number; as a tensor of dtype float or double in the newer form."""
    array = array_of(value)
    if array.size != 1:
        raise AssertionError(f"{tag}: Tensor should contain one element (0 dimensions). Was given size: {array.size}")
    number = float(array.reshape(()))
    if not as_tensor:
        return _one(tag=tag, simple_value=number)
    proto = TensorProto(double_val=[number], dtype="DT_DOUBLE") if double else TensorProto(
        float_val=[number], dtype="DT_FLOAT"
    )
    return _one(tag=tag, tensor=proto, metadata=_for_plugin("scalars"))


def tensor(tag: str, value: Tensor) -> Summary:
    """All elements of a tensor."""
    kinds = {
        "torch.float32": ("DT_FLOAT", "float_val"),
        "torch.float64": ("DT_DOUBLE", "double_val"),
        "torch.float16": ("DT_HALF", "half_val"),
        "torch.bfloat16": ("DT_BFLOAT16", "half_val"),
        "torch.uint8": ("DT_UINT8", "int_val"),
        "torch.int8": ("DT_INT8", "int_val"),
        "torch.int16": ("DT_INT16", "int_val"),
        "torch.int32": ("DT_INT32", "int_val"),
        "torch.int64": ("DT_INT64", "int64_val"),
        "torch.bool": ("DT_BOOL", "bool_val"),
    }
    if not isinstance(value, Tensor):
        raise TypeError(f"{tag}: a Tensor is wanted, not {type(value).__name__}")
    if str(value.dtype) not in kinds:
        raise ValueError(f"{tag} has unsupported tensor dtype {value.dtype}")
    word, field = kinds[str(value.dtype)]
    flat = value.detach().flatten()
    if field == "half_val":
        import cygrad

        flat = flat.view(cygrad.int16).int() & 0xFFFF
    proto = TensorProto(dtype=word, tensor_shape=_shaped(*value.shape), **{field: flat.tolist()})
    return _one(tag=tag, tensor=proto, metadata=_for_plugin("tensor"))


# ---- histograms


def _default_limits() -> np.ndarray:
    """Bins that grow by a tenth, from 1e-12 to 1e20, to both sides of 0."""
    limits = []
    limit = 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return np.array([*(-v for v in reversed(limits)), 0.0, *limits])


def histogram(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Summary:
    """How many values lie in which bin; `bins` as for NumPy, or "tensorflow" for TensorFlow's own."""
    flat = array_of(values).reshape(-1).astype(np.float64)
    if not flat.size:
        raise ValueError(f"{tag}: The input has no element.")
    if isinstance(bins, str) and bins == "tensorflow":
        bins = _default_limits()
    counts, limits = np.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _coarser(counts, limits, len(counts) // max_bins)
    full = np.flatnonzero(counts)
    if not full.size:
        raise ValueError(f"{tag}: no value lies inside the bins")
    first, last = int(full[0]), int(full[-1])
    # TensorBoard knows right limits only: an empty bin at the left gives the first one its left limit.
    counts = np.concatenate([[0], counts[first : last + 1]])
    proto = HistogramProto(
        min=flat.min(),
        max=flat.max(),
        num=flat.size,
        sum=flat.sum(),
        sum_squares=flat.dot(flat),
        bucket_limit=limits[first : last + 2].tolist(),
        bucket=counts.tolist(),
    )
    return _one(tag=tag, histo=proto)


def _coarser(counts: np.ndarray, limits: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    starts = np.arange(0, len(counts), factor)
    return np.add.reduceat(counts, starts), np.append(limits[starts], limits[-1])


# ---- pictures and sounds


def grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Images of shape (N, C, H, W), C 1 or 3, side by side as one of shape (3, rows * H, columns * W)."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise AssertionError(f"images of shape (N, 1 or 3, H, W) are wanted, got {images.shape}")
    count, _, height, width = images.shape
    columns = min(count, columns)
    rows = -(-count // columns)
    canvas = np.zeros((3, rows * height, columns * width), dtype=images.dtype)
    for i in range(count):
        y, x = divmod(i, columns)
        canvas[:, y * height : (y + 1) * height, x * width : (x + 1) * width] = images[i]
    return canvas


def _upright(array: np.ndarray, order: str) -> np.ndarray:
    """An array whose dimensions are named by letters, as (H, W, C) with three colours or four."""
    order = order.upper()
    if len(set(order)) != len(order) or not set(order) <= set("NCHW") or not set("HW") <= set(order):
        raise AssertionError(f"dataformats={order!r}: H, W, C and N are wanted, each at most once, with H and W")
    if array.ndim != len(order):
        raise AssertionError(f"size of input tensor and input format are different: shape {array.shape}, {order}")
    if "N" in order:
        if "C" not in order:
            array, order = array[None], "C" + order
        array = grid(array.transpose([order.index(letter) for letter in "NCHW"]))
        return array.transpose(1, 2, 0)
    if "C" not in order:
        array, order = array[None], "C" + order
    array = array.transpose([order.index(letter) for letter in "HWC"])
    return np.repeat(array, 3, 2) if array.shape[2] == 1 else array


def picture(array: np.ndarray) -> bytes:
    """An image of shape (H, W, C), of bytes or of numbers from 0 to 1, as PNG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(_bytes(array)).save(file, format="PNG")
    return file.getvalue()


def _bytes(array: np.ndarray) -> np.ndarray:
    scaled = array.astype(np.float32) * (1 if array.dtype == np.uint8 else 255)
    return scaled.clip(0, 255).astype(np.uint8)


def image(
    tag: str,
    value: Any,
    order: str,
    boxes: tuple[Any, Sequence[str] | None] | None = None,
    factor: float = 1,
) -> Summary:
    """One image, or several in a grid; `order` names the dimensions. With boxes and their labels, and larger."""
    array = _upright(array_of(value), order)
    if boxes is not None:
        array = _with_boxes(array, *boxes, factor)
    height, width, colours = array.shape
    proto = Summary.Image(height=height, width=width, colorspace=colours, encoded_image_string=picture(array))
    return _one(tag=tag, image=proto)


def _with_boxes(array: np.ndarray, boxes: Any, labels: Sequence[str] | None, factor: float) -> np.ndarray:
    """An image of shape (H, W, C) with red boxes, made larger."""
    from PIL import Image, ImageDraw

    edges = array_of(boxes).reshape(-1, 4) if array_of(boxes).size == 0 else array_of(boxes)
    if edges.ndim != 2 or edges.shape[1] != 4:
        raise ValueError(f"boxes of shape (N, 4) are wanted, got {edges.shape}")
    labels = [""] * len(edges) if labels is None else [labels] if isinstance(labels, str) else labels
    if len(labels) != len(edges):
        raise ValueError(f"Number of labels must be equal to number of boxes: got {len(labels)} and {len(edges)}")
    canvas = Image.fromarray(_bytes(array))
    draw = ImageDraw.Draw(canvas)
    for (left, upper, right, lower), label in zip(edges.tolist(), labels, strict=True):
        corners = [(left, upper), (left, lower), (right, lower), (right, upper), (left, upper)]
        draw.line(corners, width=2, fill="red")
        if label:
            draw.text((left + 3, upper + 2), label, fill="red")
    size = int(canvas.width * factor), int(canvas.height * factor)
    return np.asarray(canvas.resize(size, Image.Resampling.LANCZOS))


def video(tag: str, value: Any, rate: float) -> Summary:
    """Films of shape (N, T, C, H, W) in a grid, as an animated picture."""
    from PIL import Image

    films = array_of(value)
    if films.ndim != 5 or films.shape[2] not in (1, 3) or not films.size:
        raise ValueError(f"{tag}: films of shape (N, T, 1 or 3, H, W) are wanted, got {films.shape}")
    if not rate > 0:
        raise ValueError(f"{tag}: fps must be greater than 0, got {rate}")
    frames = [Image.fromarray(_bytes(grid(films[:, i]).transpose(1, 2, 0))) for i in range(films.shape[1])]
    file = io.BytesIO()
    frames[0].save(
        file, format="GIF", save_all=True, append_images=frames[1:], duration=max(1, round(1000 / rate)), loop=0
    )
    proto = Summary.Image(
        height=frames[0].height, width=frames[0].width, colorspace=3, encoded_image_string=file.getvalue()
    )
    return _one(tag=tag, image=proto)


def mesh(tag: str, vertices: Any, colours: Any, faces: Any, settings: dict[str, Any] | None) -> Summary:
    """Points in space, their colours, and triangles between them: a tensor each."""
    from tensorboard.plugins.mesh import metadata as mesh_metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    kinds = (MeshPluginData.VERTEX, vertices), (MeshPluginData.FACE, faces), (MeshPluginData.COLOR, colours)
    given = {kind: array_of(part) for kind, part in kinds if part is not None}
    for array in given.values():
        if array.ndim != 3 or array.shape[2] != 3:
            raise ValueError(f"{tag}: vertices, colors and faces of shape (N, *, 3) are wanted, got {array.shape}")
    bits = mesh_metadata.get_components_bitmask(list(given))
    text = json.dumps(settings or {}, sort_keys=True)
    values = [
        Summary.Value(
            tag=mesh_metadata.get_instance_name(tag, kind),
            tensor=TensorProto(
                dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(), tensor_shape=_shaped(*array.shape)
            ),
            metadata=mesh_metadata.create_summary_metadata(
                tag, None, kind, bits, list(array.shape), None, json_config=text
            ),
        )
        for kind, array in given.items()
    ]
    return Summary(value=values)


def audio(tag: str, value: Any, rate: int) -> Summary:
    """Sound of one channel with amplitudes from -1 to 1; what is beyond is cut."""
    samples = array_of(value).squeeze()
    if samples.ndim != 1:
        raise AssertionError(f"{tag}: input tensor should be 1 dimensional, got shape {samples.shape}")
    waves = (samples.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setnchannels(1)
        target.setsampwidth(2)
        target.setframerate(rate)
        target.writeframes(waves.tobytes())
    sound = Summary.Audio(
        sample_rate=rate,
        num_channels=1,
        length_frames=len(waves),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _one(tag=tag, audio=sound)


# ---- text, curves, settings


def text(tag: str, words: str) -> Summary:
    """Text, which TensorBoard reads as Markdown."""
    proto = TensorProto(dtype="DT_STRING", string_val=[words.encode()], tensor_shape=_shaped(1))
    plugin = _for_plugin("text", TextPluginData(version=0).SerializeToString())
    return _one(tag=f"{tag}/text_summary", tensor=proto, metadata=plugin)


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> Summary:
    """Precision and recall at so many thresholds from 0 to 1, at most 127."""
    thresholds = min(thresholds, 127)
    labels, predictions = array_of(labels).astype(np.float64), array_of(predictions)
    weights = np.float64(1) if weights is None else array_of(weights)
    buckets = np.floor(predictions * (thresholds - 1)).astype(np.int32)

    def beyond(share: np.ndarray) -> np.ndarray:
        """Weight of the samples with `share` at each threshold and above."""
        found, _ = np.histogram(buckets, thresholds, (0, thresholds - 1), weights=share * weights)
        return found[::-1].cumsum()[::-1]

    right, wrong = beyond(labels), beyond(1 - labels)
    least = 1e-7
    missed = right[0] - right
    precision, recall = right / np.maximum(least, right + wrong), right / np.maximum(least, right + missed)
    return pr_curve_of([right, wrong, wrong[0] - wrong, missed, precision, recall], tag, thresholds)


def pr_curve_of(rows: Sequence[Any], tag: str, thresholds: int) -> Summary:
    """Counts (right, wrong, rightly and wrongly left out), precision and recall at so many thresholds, at most 127."""
    thresholds = min(thresholds, 127)
    rows = np.stack([array_of(row) for row in rows])
    proto = TensorProto(dtype="DT_FLOAT", float_val=rows.reshape(-1).tolist(), tensor_shape=_shaped(*rows.shape))
    content = PrCurvePluginData(version=0, num_thresholds=thresholds).SerializeToString()
    return _one(tag=tag, tensor=proto, metadata=_for_plugin("pr_curves", content))


def custom_scalars(layout: dict[str, dict[str, Sequence[Any]]]) -> Summary:
    """Charts of several scalars: category -> title -> ["Multiline", tags] or ["Margin", [value, lower, upper]]."""
    categories = []
    for category, charts in layout.items():
        shown = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"{title}: a margin chart has the tags of value, lower and upper, got {tags}")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                shown.append(layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series])))
            else:
                shown.append(layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags)))
        categories.append(layout_pb2.Category(title=category, chart=shown))
    content = layout_pb2.Layout(category=categories).SerializeToString()
    proto = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
    return _one(tag="custom_scalars__config__", tensor=proto, metadata=_for_plugin("custom_scalars"))


def hparams(settings: dict[str, Any], metrics: dict[str, Any], choices: dict[str, list[Any]]) -> list[Summary]:
    """The three messages of a run's settings: what there is, the values, and that the run has ended."""
    start = plugin_data_pb2.SessionStartInfo()
    infos = []
    for name, value in settings.items():
        if value is None:
            continue
        value = value.item() if isinstance(value, Tensor) else value
        if not isinstance(value, (bool, int, float, str)):
            kind = type(value).__name__
            raise ValueError(f"{name}: value should be one of int, float, str, bool, or torch.Tensor, got {kind}")
        field = "string" if isinstance(value, str) else "bool" if isinstance(value, bool) else "number"
        setattr(start.hparams[name], f"{field}_value", value)
        kind = {"string": "STRING", "bool": "BOOL", "number": "FLOAT64"}[field]
        info = api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(f"DATA_TYPE_{kind}"))
        if name in choices:
            for choice in choices[name]:
                setattr(info.domain_discrete.values.add(), f"{field}_value", choice)
        infos.append(info)
    found = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metrics]
    contents = (
        (metadata.EXPERIMENT_TAG, {"experiment": api_pb2.Experiment(hparam_infos=infos, metric_infos=found)}),
        (metadata.SESSION_START_INFO_TAG, {"session_start_info": start}),
        (metadata.SESSION_END_INFO_TAG, {"session_end_info": plugin_data_pb2.SessionEndInfo(
            status=api_pb2.Status.Value("STATUS_SUCCESS"))}),
    )
    messages = []
    for tag, content in contents:
        data = plugin_data_pb2.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
        messages.append(_one(tag=tag, metadata=_for_plugin(metadata.PLUGIN_NAME, data.SerializeToString())))
    return messages
