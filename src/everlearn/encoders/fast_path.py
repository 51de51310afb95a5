"""The fast way through an encoder on a GPU: packed sequences, bf16, passes recorded as CUDA graphs.

To autograd it is one function from the encoder's fp32 weights to features, so that methods, fast weights and
optimisers need not know of it. Results equal those of the plain way up to rounding.
"""

import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from everlearn.batches import Integers, Sequences
from everlearn.encoders.flat import Skeleton
from everlearn.encoders.graphs import ForwardPass, FullPass, Recorder
from everlearn.encoders.packing import Packed, Shape, pack
from everlearn.encoders.twin import Twin
from everlearn.errors import first_line
from everlearn.transfer import on_device

TOKENS_AT_ONCE = 65536
"""Most tokens in one pass without gradients; memory grows with it, speed no longer does."""
LONGEST_RECORDED = 16384
"""Passes over more tokens keep the GPU busy without being recorded."""
RECORDED_AFTER = 1
"""Recording takes longer than a few passes: a shape has to occur more often than this."""
RECORDING_DEVICES = ("cuda",)
"""Where passes can be recorded."""

_log = logging.getLogger("everlearn")


class FastPath:
    """Features of sequences, computed by a twin of the encoder, which is made when it is first needed."""

    def __init__(
        self, pooling: str, first_position: int, dtype: torch.dtype = torch.bfloat16, recordable: bool = True
    ) -> None:
        self._pooling = pooling
        self._first_position = first_position
        self._dtype = dtype
        self._recordable = recordable
        self._passes: _Passes | None = None
        self._one_at_a_time = threading.Lock()

    def __deepcopy__(self, memo: dict[int, object]) -> "FastPath":
        """A copy of an encoder gets a twin and recordings of its own, unless recording has failed already."""
        recordable = self._passes.recordable if self._passes else self._recordable
        return FastPath(self._pooling, self._first_position, self._dtype, recordable)

    @property
    def recordings(self) -> int:
        """How many passes were recorded so far."""
        return self._passes.recordings if self._passes else 0

    def __call__(
        self, skeleton: Skeleton, learned: torch.Tensor, kept: torch.Tensor, sequences: Sequences
    ) -> torch.Tensor:
        """One feature vector for each sequence, differentiable in the weights that learn."""
        with self._one_at_a_time:
            if self._passes is None:
                twin = Twin(skeleton, learned, kept, self._pooling, self._dtype)
                self._passes = _Passes(twin, self._first_position, self._recordable)
        if torch.is_grad_enabled() and learned.requires_grad:
            features: torch.Tensor = _Features.apply(self._passes, sequences, learned)  # type: ignore[no-untyped-call]
            return features
        with torch.no_grad():
            return self._passes.forward(learned, sequences)


class _Features(torch.autograd.Function):
    """The twin's features as a function of the encoder's weights."""

    @staticmethod
    def forward(ctx: Any, passes: "_Passes", sequences: Sequences, learned: torch.Tensor) -> torch.Tensor:
        features, ctx.backward_pass = passes.forward_for_backward(learned, sequences)
        return features

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        gradient = ctx.backward_pass.run(upstream)
        ctx.backward_pass = None
        return None, None, gradient


class _BackwardPass:
    """What belongs to one forward pass; while it exists, that pass may still be gone back through."""

    def __init__(self, run: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.run = run


class _Passes:
    """Passes through a twin: recorded ones for shapes that come again, plain ones for the rest."""

    def __init__(self, twin: Twin, first_position: int, recordable: bool) -> None:
        self.twin = twin
        self._first_position = first_position
        self._device = twin.learned.device
        self._gradient: torch.Tensor | None = None
        self.recordable = recordable
        """False once recording has failed."""
        self._recorder: Recorder | None = None
        self._forward_passes: dict[Shape, ForwardPass] = {}
        self._full_passes: dict[Shape, FullPass] = {}
        self._occurred: Counter[tuple[str, Shape]] = Counter()
        self._pending: Callable[[], _BackwardPass | None] = lambda: None
        """A recorded pass that may still be gone back through: until then its weights and what it left stay as is."""
        # Threads may predict with one encoder, and recordings read and write at fixed places. Going back takes no lock:
        # no recording is replayed while a pass is pending, and autograd may go back in a thread that the holder of this
        # lock waits for while it records.
        self._one_at_a_time = threading.Lock()

    @property
    def recordings(self) -> int:
        """How many passes were recorded so far."""
        return len(self._forward_passes) + len(self._full_passes)

    def forward(self, learned: torch.Tensor, sequences: Sequences) -> torch.Tensor:
        """Features without a graph."""
        with self._one_at_a_time:
            return torch.cat(list(self._forward_in_pieces(learned, sequences)))

    def _forward_in_pieces(self, learned: torch.Tensor, sequences: Sequences) -> Iterator[torch.Tensor]:
        free = self._pending() is None
        weights = None if free else learned.to(self.twin.learned.dtype)
        if free:
            self.twin.take_over(learned)
        for piece in _pieces(sequences):
            shape = Shape.of(piece.tokens.lengths)
            self._record("forward", self._record_forward, shape.rounded(), piece)
            recorded = self._forward_passes.get(shape.rounded())
            if recorded and free:
                yield recorded.forward(self._pack(piece, shape.rounded()))[: len(piece)]
            elif weights is None:
                yield self.twin.features(self._packed(piece, shape))
            else:
                yield self.twin.features_with(self._packed(piece, shape), weights)

    def forward_for_backward(self, learned: torch.Tensor, sequences: Sequences) -> tuple[torch.Tensor, _BackwardPass]:
        """Features, and what turns their gradient into that of the weights."""
        with self._one_at_a_time:
            return self._forward_for_backward(learned, sequences)

    def _forward_for_backward(self, learned: torch.Tensor, sequences: Sequences) -> tuple[torch.Tensor, _BackwardPass]:
        shape = Shape.of(sequences.tokens.lengths)
        self._record("full", self._record_full, shape.rounded(), sequences)
        recorded = self._full_passes.get(shape.rounded())
        if recorded and self._pending() is None:
            self.twin.take_over(learned)
            features = recorded.forward(self._pack(sequences, shape.rounded()))[: len(sequences)]
            backward = _BackwardPass(recorded.backward)
            self._pending = weakref.ref(backward)
            return features, backward
        weights = learned.detach().to(self.twin.learned.dtype, copy=True)
        gradient = torch.zeros_like(weights, dtype=torch.float32)
        plain = self.twin.pass_with_gradient(self._packed(sequences, shape), weights, gradient)

        def run(upstream: torch.Tensor) -> torch.Tensor:
            plain.backward(upstream)
            return gradient

        return plain.features, _BackwardPass(run)

    def _record(
        self, kind: str, record: Callable[[Recorder, Packed], None], shape: Shape, sequences: Sequences
    ) -> None:
        """Record a pass over this shape if it keeps occurring, and if this encoder can be recorded."""
        self._occurred[kind, shape] += 1
        wanted = self._occurred[kind, shape] == 1 + RECORDED_AFTER and shape.tokens <= LONGEST_RECORDED
        if not (wanted and self.recordable and self._device.type in RECORDING_DEVICES):
            return
        try:
            self._recorder = self._recorder or Recorder()
            record(self._recorder, self._packed(sequences, shape))
        except (RuntimeError, TypeError, ValueError) as error:
            self.recordable = False
            self._forward_passes.clear()
            self._full_passes.clear()
            _log.warning("this encoder goes on without CUDA graphs (%s)", first_line(error))

    def _record_forward(self, recorder: Recorder, example: Packed) -> None:
        self._forward_passes[example.shape] = ForwardPass(self.twin, example, recorder)

    def _record_full(self, recorder: Recorder, example: Packed) -> None:
        # All backward passes leave their gradient in the same place.
        if self._gradient is None:
            self._gradient = torch.zeros_like(self.twin.learned, dtype=torch.float32)
        self._full_passes[example.shape] = FullPass(self.twin, example, recorder, self._gradient)

    def _pack(self, sequences: Sequences, shape: Shape) -> Integers:
        return pack(sequences, shape, self._first_position)

    def _packed(self, sequences: Sequences, shape: Shape) -> Packed:
        return Packed(shape, on_device(self._pack(sequences, shape), self._device))


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
