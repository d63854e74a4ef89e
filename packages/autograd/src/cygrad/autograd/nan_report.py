"""What find_nan() reports."""

from dataclasses import dataclass

__all__ = ["NanReport", "Values"]


@dataclass(frozen=True)
class Values:
    """What a tensor held: `low` and `high` are of the finite values, None if there are none."""

    role: str
    dtype: object
    shape: tuple
    low: object
    high: object
    nan: int
    inf: int

    def __str__(self):
        text = f"{self.role}: {self.dtype} {list(self.shape)}"
        if self.low is not None:
            text += f", {self.low:.6g}" if self.low == self.high else f", from {self.low:.6g} to {self.high:.6g}"
        counted = ((self.nan, "nan"), (self.inf, "inf"))
        return text + "".join(f", {n} {word}" for n, word in counted if n)


@dataclass(frozen=True)
class NanReport:
    """The first operation that gave NaN.

    Attributes
    ----------
    phase : str
        ``"forward"`` or ``"backward"``.
    operation : str
        The operation, or the node of the graph whose backward ran.
    origin : bool
        Whether it made the NaN. If not, it was in what the operation was given, and no operation that was watched made
        it.
    inputs, results : tuple of Values
    line, forward_line : str or None
        Where the user's program ran it; for a node, where it made the node.
    message : str
    """

    phase: str
    operation: str
    origin: bool
    inputs: tuple
    results: tuple
    line: object
    forward_line: object
    message: str

    def __str__(self):
        return self.message
