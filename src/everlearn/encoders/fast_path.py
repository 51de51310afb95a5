"""The fast way through an encoder on a GPU: packed sequences, bf16, passes recorded as CUDA graphs.

To autograd it is one function from the encoder's fp32 weights to features, so that methods, fast weights and
optimisers need not know of it. Results equal those of the plain way up to rounding.
"""

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._utils import _unflatten_dense_tensors

from everlearn.batches import Sequences
from everlearn.encoders.graphs import RecordedPass
from everlearn.encoders.packing import Packed, Shape, pack
from everlearn.encoders.twin import Twin

TOKENS_AT_ONCE = 65536
"""Most tokens in one pass without gradients; memory grows with it, speed no longer does."""
LONGEST_RECORDED = 16384
"""Passes over more tokens keep the GPU busy without being recorded."""
RECORDED_AFTER = 1
"""Recording takes longer than a few passes: a shape has to occur more often than this."""

_log = logging.getLogger("everlearn")


class FastPath:
    """Features of sequences, computed by a twin of the encoder, which is made when it is first needed."""

    def __init__(self, pooling: str, first_position: int, dtype: torch.dtype = torch.bfloat16) -> None:
        self._pooling = pooling
        self._first_position = first_position
        self._dtype = dtype
        self._passes: _Passes | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> "FastPath":
        """A copy of an encoder gets a twin and recordings of its own."""
        return FastPath(self._pooling, self._first_position, self._dtype)

    def __call__(self, model: nn.Module, sequences: Sequences) -> torch.Tensor:
        """One feature vector for each sequence, differentiable in the weights the model has at this moment."""
        if self._passes is None:
            self._passes = _Passes(Twin(model, self._pooling, self._dtype), self._first_position)
            self._slots = [_slot(model, name) for name, _ in model.named_parameters()]
        weights = [parameters[name] for parameters, name in self._slots]
        self._passes.twin.take_over(weights)
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            features: torch.Tensor = _Features.apply(self._passes, sequences, *weights)  # type: ignore[no-untyped-call]
            return features
        with torch.no_grad():
            return torch.cat([self._passes.forward(piece) for piece in _pieces(sequences)])


class _Features(torch.autograd.Function):
    """The twin's features as a function of the encoder's weights."""

    @staticmethod
    def forward(ctx: Any, passes: "_Passes", sequences: Sequences, *weights: torch.Tensor) -> torch.Tensor:
        ctx.passes = passes
        features, ctx.backward_pass = passes.forward_for_backward(sequences)
        return features

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        gradient = ctx.backward_pass.run(upstream)
        ctx.backward_pass = None
        return None, None, *ctx.passes.unflatten(gradient)


class _BackwardPass:
    """What belongs to one forward pass; while it exists, that pass may still be gone back through."""

    def __init__(self, run: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.run = run


class _Passes:
    """Passes through a twin: recorded ones for shapes that come again, plain ones for the rest."""

    def __init__(self, twin: Twin, first_position: int) -> None:
        self.twin = twin
        self._first_position = first_position
        self._device = twin.weights[0].device
        self._records = self._device.type == "cuda"
        self._pool = torch.cuda.graph_pool_handle() if self._records else None
        self._recorded: dict[tuple[Shape, bool], RecordedPass] = {}
        self._occurred: Counter[tuple[Shape, bool]] = Counter()
        self._gradient: torch.Tensor | None = None
        """Where recorded backward passes leave the gradient of all weights, laid flat."""
        self._pending: Callable[[], _BackwardPass | None] = lambda: None

    def forward(self, sequences: Sequences) -> torch.Tensor:
        """Features without a graph."""
        shape = Shape.of(sequences.tokens.lengths)
        if recorded := self._find(shape.rounded(), sequences, gradients=False):
            return recorded.forward(self._pack(sequences, shape.rounded()))[: len(sequences)]
        return self.twin.features(self._packed(sequences, shape))

    def forward_for_backward(self, sequences: Sequences) -> tuple[torch.Tensor, _BackwardPass]:
        """Features, and what turns their gradient into that of all weights, laid flat."""
        shape = Shape.of(sequences.tokens.lengths)
        # What a recorded pass keeps for its backward pass is overwritten by the next one: they go one at a time.
        if self._pending() is None and (recorded := self._find(shape.rounded(), sequences, gradients=True)):
            features = recorded.forward(self._pack(sequences, shape.rounded()))[: len(sequences)]
            backward = _BackwardPass(recorded.backward)
            self._pending = weakref.ref(backward)
            return features, backward
        with torch.enable_grad():
            features = self.twin.features(self._packed(sequences, shape))
        return features.detach(), _BackwardPass(lambda upstream: self.twin.flat_gradient(features, upstream))

    def unflatten(self, gradient: torch.Tensor) -> Sequence[torch.Tensor]:
        """A flat gradient as one fp32 tensor for each weight."""
        # A copy even where it is fp32 already: the next backward pass writes where this one did.
        own = gradient.to(torch.float32, copy=True)
        parts: Sequence[torch.Tensor] = _unflatten_dense_tensors(own, self.twin.weights)  # type: ignore[no-untyped-call]
        return parts

    def _find(self, shape: Shape, sequences: Sequences, gradients: bool) -> RecordedPass | None:
        """The recorded pass for this shape; None where it is better, or necessary, to go without."""
        if not self._records or shape.tokens > LONGEST_RECORDED:
            return None
        self._occurred[shape, gradients] += 1
        if (shape, gradients) not in self._recorded and self._occurred[shape, gradients] > RECORDED_AFTER:
            self._record(shape, sequences, gradients)
        return self._recorded.get((shape, gradients))

    def _record(self, shape: Shape, sequences: Sequences, gradients: bool) -> None:
        if gradients and self._gradient is None:
            self._gradient = torch.cat([weight.detach().reshape(-1) for weight in self.twin.weights])
        example = self._packed(sequences, shape)
        try:
            recorded = RecordedPass(self.twin, example, self._gradient if gradients else None, self._pool)
        except RuntimeError as error:
            self._records = False
            _log.warning("this encoder goes on without CUDA graphs (%s)", str(error).splitlines()[0])
        else:
            self._recorded[shape, gradients] = recorded

    def _pack(self, sequences: Sequences, shape: Shape) -> torch.Tensor:
        packed = torch.from_numpy(pack(sequences, shape, self._first_position))
        return packed.pin_memory() if self._device.type == "cuda" else packed

    def _packed(self, sequences: Sequences, shape: Shape) -> Packed:
        return Packed(shape, self._pack(sequences, shape).to(self._device, non_blocking=True))


def _slot(model: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Where a module keeps a parameter: what stands there changes while fast weights take its place."""
    path, _, own = name.rpartition(".")
    return model.get_submodule(path)._parameters, own


def _pieces(sequences: Sequences) -> Iterator[Sequences]:
    """Consecutive parts with no more tokens than go through at once."""
    ends = sequences.tokens.ends
    if ends[-1] <= TOKENS_AT_ONCE:
        yield sequences
        return
    start = 0
    while start < len(sequences):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + TOKENS_AT_ONCE, side="right")))
        yield sequences.take(range(start, stop))
        start = stop
