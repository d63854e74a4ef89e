"""What a run shows and writes while it goes on: a progress bar, a line for each epoch, a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from typing import Any

from cygrad.utils.files import replacing

__all__ = ["Bar", "write_csv"]


class Bar:
    """A progress bar over the batches of an epoch, and a line for each epoch that is done."""

    def __init__(self, epochs: int, loader: Iterable, shown: bool) -> None:
        self._epochs = epochs
        self._loader = loader
        self._shown = shown
        self._bar: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def epoch(self, number: int, done: int) -> None:
        """An epoch begins, of which `done` batches are done already."""
        self._close()
        if self._shown:
            from tqdm import tqdm

            try:
                total = len(self._loader)  # type: ignore[arg-type]
            except TypeError:
                total = None
            label = f"epoch {number}/{self._epochs}"
            self._bar = tqdm(total=total, initial=done, desc=label, unit="batch", leave=False, mininterval=0.2)

    def step(self, batches: int, means: dict[str, float]) -> None:
        """So many batches more are done."""
        if self._bar is not None:
            self._bar.set_postfix_str(_text(means), refresh=False)
            self._bar.update(batches)

    def line(self, row: dict[str, Any]) -> None:
        """The epoch is done."""
        self._close()
        if self._shown:
            from tqdm import tqdm

            values = {name: value for name, value in row.items() if name not in ("epoch", "lr")}
            tqdm.write(f"epoch {row['epoch']:{len(str(self._epochs))}d}/{self._epochs}   {_text(values)}")


def _text(values: dict[str, float]) -> str:
    return "   ".join(f"{name} {value:.4f}" for name, value in values.items())


def write_csv(path: str | os.PathLike, rows: list[dict[str, Any]]) -> None:
    """Replace a CSV file. It is written whole, so that a resumed run repeats no row; floats are exact."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path, "the log") as part, open(part, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)
        file.flush()
