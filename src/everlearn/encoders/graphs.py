"""Passes through a twin, recorded as CUDA graphs: one launch instead of hundreds."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from everlearn.batches import Integers
from everlearn.encoders.packing import Packed
from everlearn.encoders.twin import Twin
from everlearn.transfer import RecordingQueue, put

_ONE_AT_A_TIME = threading.Lock()


class Recorder:
    """Records passes; all recordings share the memory they work in."""

    def __init__(self) -> None:
        self._queue = RecordingQueue()
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], None]) -> "Recording":
        """What the work does; each replay leaves its results where they were left the first time."""
        graph, stream = torch.cuda.CUDAGraph(), self._queue.stream
        stream.wait_stream(torch.cuda.current_stream())
        with _undisturbed(), torch.cuda.stream(stream):
            try:
                # Other threads may go on using the device meanwhile.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                work()
                graph.capture_end()
            except BaseException:
                _give_up(graph, self._pool)
                raise
        torch.cuda.current_stream().wait_stream(stream)
        return Recording(graph, self._queue)


class Recording:
    """A graph, and the queue it was recorded in, which is handed on only when the graph is gone."""

    def __init__(self, graph: torch.cuda.CUDAGraph, queue: RecordingQueue) -> None:
        self._graph = graph
        self._queue = queue  # let go of after the graph: attributes go in the order they came

    def replay(self) -> None:
        """Do what was recorded."""
        self._graph.replay()


def _give_up(graph: torch.cuda.CUDAGraph, pool: tuple[int, int]) -> None:
    """End a recording that failed, so that the device can go on being used without recordings.

    Where the end of a recording fails too, PyTorch's allocator and its generator still take it to be under way: the one
    would give nothing back from then on, the other would draw no more numbers.
    """
    with suppress(RuntimeError):
        graph.capture_end()
        return
    device = torch.cuda.current_device()
    # What `torch.cuda.use_mem_pool` calls at its end; there is no other way to tell the allocator.
    if hasattr(torch._C, "_cuda_endAllocateToPool") and hasattr(torch._C, "_cuda_releasePool"):
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device, pool)
            torch._C._cuda_releasePool(device, pool)
    generator = torch.cuda.default_generators[device]
    if hasattr(generator, "graphsafe_set_state"):
        with suppress(RuntimeError):
            fresh = torch.Generator(generator.device)
            fresh.set_state(generator.get_state())
            generator.graphsafe_set_state(fresh.graphsafe_get_state())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Python's collector might find a graph that is no longer needed: destroying it would spoil the recording."""
    with _ONE_AT_A_TIME:
        collecting = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collecting:
                gc.enable()


class ForwardPass:
    """The forward pass over one shape, without gradients."""

    def __init__(self, twin: Twin, example: Packed, recorder: Recorder) -> None:
        self._inputs = example
        self._forward = recorder.record(lambda: self._compute(twin))

    def _compute(self, twin: Twin) -> None:
        with torch.no_grad():
            self._features = twin.features(self._inputs)

    def forward(self, packed: Integers) -> torch.Tensor:
        """Features of other sequences of the same shape."""
        put(packed, self._inputs.buffer)
        self._forward.replay()
        return self._features.clone()


class FullPass(ForwardPass):
    """The forward pass and the backward pass that belongs to it; the next forward pass overwrites what it needs."""

    def __init__(self, twin: Twin, example: Packed, recorder: Recorder, gradient: torch.Tensor) -> None:
        """The backward pass leaves the gradient of the weights in `gradient`."""
        self._gradient = gradient
        super().__init__(twin, example, recorder)
        self._upstream = torch.zeros_like(self._features)
        self._backward = recorder.record(lambda: self._pass.backward(self._upstream))

    def _compute(self, twin: Twin) -> None:
        self._pass = twin.pass_with_gradient(self._inputs, twin.learned, self._gradient)
        self._features = self._pass.features

    def backward(self, upstream: torch.Tensor) -> torch.Tensor:
        """The gradient of the weights."""
        self._upstream[: len(upstream)] = upstream
        self._upstream[len(upstream) :] = 0
        self._backward.replay()
        return self._gradient.clone()  # the next backward pass writes to the same place
