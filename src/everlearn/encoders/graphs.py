"""Passes through a twin, recorded as CUDA graphs: one launch instead of hundreds."""

from collections.abc import Callable

import torch

from everlearn.encoders.packing import Packed
from everlearn.encoders.twin import Twin


class Recorder:
    """Records on a stream of its own; all recordings share the memory they work in."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], torch.Tensor]) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        """A graph of what the work does, and the tensor in which each replay leaves its result."""
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            # Other threads may go on using the device meanwhile.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                result = work()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._stream)
        return graph, result


class ForwardPass:
    """The forward pass over one shape."""

    def __init__(self, twin: Twin, example: Packed, recorder: Recorder, weights: torch.Tensor | None = None) -> None:
        self._inputs = example
        with torch.set_grad_enabled(weights is not None):
            self._forward, self._features = recorder.record(lambda: twin.features(example, weights))

    def forward(self, packed: Packed) -> torch.Tensor:
        """Features of other sequences of the same shape."""
        self._inputs.buffer.copy_(packed.buffer)
        self._forward.replay()
        return self._features.detach().clone()


class FullPass(ForwardPass):
    """The forward pass and the backward pass that belongs to it; the next forward pass overwrites what it needs."""

    def __init__(self, twin: Twin, example: Packed, recorder: Recorder, gradient: torch.Tensor) -> None:
        """The backward pass leaves the gradient of the weights in `gradient`."""
        weights = twin.differentiable_weights()
        super().__init__(twin, example, recorder, weights)
        self._upstream = torch.zeros_like(self._features)
        features, upstream = self._features, self._upstream
        self._backward, self._gradient = recorder.record(
            lambda: gradient.copy_(torch.autograd.grad(features, weights, upstream)[0])
        )

    def backward(self, upstream: torch.Tensor) -> torch.Tensor:
        """The gradient of the weights."""
        self._upstream[: len(upstream)] = upstream
        self._upstream[len(upstream) :] = 0
        self._backward.replay()
        return self._gradient
