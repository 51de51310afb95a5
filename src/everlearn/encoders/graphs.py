"""Passes through a twin, recorded as CUDA graphs: one launch instead of hundreds."""

from collections.abc import Callable
from typing import Any

import torch

from everlearn.encoders.packing import Packed
from everlearn.encoders.twin import Twin


class RecordedPass:
    """The forward pass over one shape and, where gradients are needed, the backward pass."""

    def __init__(self, twin: Twin, example: Packed, gradient: torch.Tensor | None, pool: Any) -> None:
        """Record on an example; a backward pass leaves the gradient of all weights, laid flat, in `gradient`."""
        self._inputs = example
        self._gradient = gradient
        with torch.set_grad_enabled(gradient is not None):
            # Once without recording: libraries set themselves up at their first call.
            features = twin.features(example)
            if gradient is not None:
                twin.flat_gradient(features, torch.zeros_like(features))
            self._forward, recorded = _record(lambda: twin.features(example), pool)
        self._features = recorded.detach()
        if gradient is not None:
            self._upstream = torch.zeros_like(self._features)
            self._backward, _ = _record(lambda: twin.flat_gradient(recorded, self._upstream, out=gradient), pool)

    def forward(self, packed: torch.Tensor) -> torch.Tensor:
        """Features; what the backward pass needs stays in place until the next forward pass."""
        self._inputs.buffer.copy_(packed, non_blocking=True)
        self._forward.replay()
        return self._features.clone()

    def backward(self, upstream: torch.Tensor) -> torch.Tensor:
        """The gradient of all weights, laid flat."""
        assert self._gradient is not None, "recorded without a backward pass"
        self._upstream[: len(upstream)] = upstream
        self._upstream[len(upstream) :] = 0
        self._backward.replay()
        return self._gradient


def _record(work: Callable[[], torch.Tensor], pool: Any) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # Other threads may go on using the device meanwhile.
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            result = work()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, result
