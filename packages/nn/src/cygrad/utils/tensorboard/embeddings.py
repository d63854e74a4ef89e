"""Files of TensorBoard's projector: points, their labels and pictures."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from cygrad.utils.files import replacing
from cygrad.utils.tensorboard.summaries import array_of, grid, picture

__all__ = ["write_embedding"]


def write_embedding(
    config: ProjectorConfig,
    folder: str,
    points: Any,
    labels: Sequence[Any] | None,
    pictures: Any,
    step: int,
    tag: str,
    header: Sequence[str] | None,
) -> None:
    """Write the files of an embedding below a run's folder, and name them in its configuration."""
    points = array_of(points)
    pictures = None if pictures is None else array_of(pictures)
    if points.ndim != 2:
        raise AssertionError(f"mat should be 2D, a row for each data point, got shape {points.shape}")
    for name, values in (("labels", labels), ("images", pictures)):
        if values is not None and len(values) != len(points):
            raise AssertionError(f"#{name} should equal with #data points: got {len(values)} and {len(points)}")
    if labels is not None and header and len(header) != len(labels[0]):
        raise AssertionError("len of header must be equal to the number of columns in metadata")
    below = f"{step:05d}/{quote(tag, safe='')}"
    os.makedirs(os.path.join(folder, below), exist_ok=True)
    info = config.embeddings.add(tensor_name=f"{tag}:{step:05d}", tensor_path=f"{below}/tensors.tsv")
    _write(folder, info.tensor_path, _table(row.tolist() for row in points))
    if labels is not None:
        info.metadata_path = f"{below}/metadata.tsv"
        _write(folder, info.metadata_path, _table([header, *labels] if header else [[label] for label in labels]))
    if pictures is not None:
        info.sprite.image_path = f"{below}/sprite.png"
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
        _write(folder, info.sprite.image_path, _sprite(pictures))
    _write(folder, "projector_config.pbtxt", text_format.MessageToString(config).encode())


def _table(rows: Any) -> bytes:
    return "".join("\t".join(str(value) for value in row) + "\n" for row in rows).encode()


def _sprite(pictures: np.ndarray) -> bytes:
    """All pictures in a square of rows and columns, as the projector wants them."""
    tiled = grid(pictures, math.ceil(math.sqrt(len(pictures)))).transpose(1, 2, 0)
    height, width, _ = tiled.shape
    square = np.zeros((max(height, width), max(height, width), 3), dtype=tiled.dtype)
    square[:height, :width] = tiled
    return picture(square)


def _write(folder: str, name: str, content: bytes) -> None:
    with replacing(os.path.join(folder, name), "a file of the projector") as part, open(part, "wb") as file:
        file.write(content)
