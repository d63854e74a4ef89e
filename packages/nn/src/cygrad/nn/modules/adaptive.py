"""A softmax over very many classes, of which most are rare."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.container import ModuleList, Sequential
from cygrad.nn.modules.linear import Linear
from cygrad.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The log-probabilities of the targets, and the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The negative log-likelihood of classes that are sorted by how often they occur.

    Frequent classes are scored by the head, which also scores clusters of rare ones; classes of a cluster are scored
    by a layer of fewer features, for those items only whose target is in it. Grave et al., "Efficient softmax
    approximation for GPUs" (2017).

    Parameters
    ----------
    in_features : int
        Size of the last dimension of the input.
    n_classes : int
        Number of classes.
    cutoffs : sequence of int
        First class of each cluster, in increasing order.
    div_value : float
        Each cluster has so many times fewer features than the one before.
    head_bias : bool
        Whether the head has a bias.
    device, dtype : optional
        Of the parameters.

    Raises
    ------
    ValueError
        If the cutoffs are no increasing integers between 1 and ``n_classes - 1``.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        increasing = all(a < b for a, b in pairwise([0, *cutoffs, n_classes]))
        if not increasing or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                f"value is between 1 and n_classes-1, got {cutoffs} for {n_classes} classes"
            )
        place = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            size = int(in_features // (div_value ** (i + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, size, bias=False, **place), Linear(size, high - low, bias=False, **place)
                )
            )

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for project, score in self.tail:
            project.reset_parameters()
            score.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log-probability of each target and their negative mean, as a named tuple ``(output, loss)``."""
        input, target = self._batch(input_, target_)
        head = F.log_softmax(self.head(input), 1)
        chosen = target.clone()  # the column of the head: the class, or its cluster
        output = input.new_zeros(target.shape[0])
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel():
                inside = F.log_softmax(self.tail[i](input.index_select(0, rows)), 1)
                picked = inside.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, rows, picked)
                chosen = chosen.index_fill(0, rows, self.shortlist_size + i)
        output = output + head.gather(1, chosen.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def _batch(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.dim() != target.dim() + 1:
            raise RuntimeError(
                f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with size "
                f"{input.size()}"
            )
        if target.dim() == 0:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        if input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target.numel() and not (target.min() >= 0 and target.max() < self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        return input, target

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, shape (N, n_classes)."""
        return self._all(input, self.head(input))

    def _all(self, input: Tensor, scores: Tensor) -> Tensor:
        head = F.log_softmax(scores, 1)
        out = input.new_empty((head.shape[0], self.n_classes))
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            cluster = head[:, self.shortlist_size + i].unsqueeze(1)
            out[:, low:high] = F.log_softmax(self.tail[i](input), 1) + cluster
        return out

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each item; clusters are looked into for items whose cluster is it only."""
        scores = self.head(input)
        best = scores.argmax(1)
        rare = best >= self.shortlist_size
        if rare.any():
            best[rare] = self._all(input[rare], scores[rare]).argmax(1)
        return best
