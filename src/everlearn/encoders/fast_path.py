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
from everlearn.encoders.graphs import ForwardPass, FullPass, Recorder
from everlearn.encoders.packing import Packed, Shape, pack
from everlearn.encoders.twin import Twin, flat_gradient
from everlearn.transfer import on_device

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
        self._gradient: torch.Tensor | None = None
        self._recorder = Recorder() if self._device.type == "cuda" else None
        self._forward_passes: dict[Shape, ForwardPass] = {}
        self._full_passes: dict[Shape, FullPass] = {}
        self._occurred: Counter[tuple[str, Shape]] = Counter()
        self._pending: Callable[[], _BackwardPass | None] = lambda: None

    def forward(self, sequences: Sequences) -> torch.Tensor:
        """Features without a graph."""
        shape = Shape.of(sequences.tokens.lengths)
        self._record("forward", self._record_forward, shape.rounded(), sequences)
        if recorded := self._forward_passes.get(shape.rounded()):
            return recorded.forward(self._packed(sequences, shape.rounded()))[: len(sequences)]
        return self.twin.features(self._packed(sequences, shape))

    def forward_for_backward(self, sequences: Sequences) -> tuple[torch.Tensor, _BackwardPass]:
        """Features, and what turns their gradient into that of all weights, laid flat."""
        shape = Shape.of(sequences.tokens.lengths)
        self._record("full", self._record_full, shape.rounded(), sequences)
        recorded = self._full_passes.get(shape.rounded())
        # What a recorded pass keeps for its backward pass is overwritten by the next one: they go one at a time.
        if recorded and self._pending() is None:
            features = recorded.forward(self._packed(sequences, shape.rounded()))[: len(sequences)]
            backward = _BackwardPass(recorded.backward)
            self._pending = weakref.ref(backward)
            return features, backward
        weights = self.twin.differentiable_weights()
        with torch.enable_grad():
            features = self.twin.features(self._packed(sequences, shape), weights)
        return features.detach(), _BackwardPass(lambda upstream: flat_gradient(features, weights, upstream))

    def unflatten(self, gradient: torch.Tensor) -> Sequence[torch.Tensor]:
        """A flat gradient as one fp32 tensor for each weight."""
        # A copy even where it is fp32 already: the next backward pass writes where this one did.
        own = gradient.to(torch.float32, copy=True)
        parts: Sequence[torch.Tensor] = _unflatten_dense_tensors(own, self.twin.weights)  # type: ignore[no-untyped-call]
        return parts

    def _record(
        self, kind: str, record: Callable[[Recorder, Packed], None], shape: Shape, sequences: Sequences
    ) -> None:
        """Record a pass over this shape if it keeps occurring, and if this encoder can be recorded."""
        self._occurred[kind, shape] += 1
        wanted = self._occurred[kind, shape] == 1 + RECORDED_AFTER and shape.tokens <= LONGEST_RECORDED
        if self._recorder is None or not wanted:
            return
        try:
            record(self._recorder, self._packed(sequences, shape))
        except RuntimeError as error:
            self._recorder = None
            _log.warning("this encoder goes on without CUDA graphs (%s)", str(error).splitlines()[0])

    def _record_forward(self, recorder: Recorder, example: Packed) -> None:
        self._forward_passes[example.shape] = ForwardPass(self.twin, example, recorder)

    def _record_full(self, recorder: Recorder, example: Packed) -> None:
        # All backward passes leave their gradient in the same place.
        if self._gradient is None:
            self._gradient = torch.cat([weight.reshape(-1) for weight in self.twin.weights])
        self._full_passes[example.shape] = FullPass(self.twin, example, recorder, self._gradient)

    def _packed(self, sequences: Sequences, shape: Shape) -> Packed:
        return Packed(shape, on_device(pack(sequences, shape, self._first_position), self._device))


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
