"""Arrays to the device that computes on them, without waiting for it, and the queue in which it computes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt
import torch


def on_device(array: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """The array as a tensor on the device. A GPU takes it when it gets there; the program goes on at once."""
    tensor = torch.from_numpy(array)
    # Only from pinned memory can a GPU copy by itself.
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def put(array: npt.NDArray[Any], tensor: torch.Tensor) -> None:
    """The array into a tensor of its size that is on a GPU already, without waiting for it."""
    tensor.copy_(torch.from_numpy(array).pin_memory(), non_blocking=True)


_OF_THIS_THREAD = threading.local()


def recording_queue() -> torch.cuda.Stream:
    """The queue in which this thread records what a GPU is to do.

    One for each thread: PyTorch has thirty-two queues, and hands them out again when more are asked for. What one
    thread records must not be another's own queue.
    """
    if not hasattr(_OF_THIS_THREAD, "recording"):
        _OF_THIS_THREAD.recording = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    queue: torch.cuda.Stream = _OF_THIS_THREAD.recording
    return queue


@contextmanager
def own_queue() -> Iterator[None]:
    """Let a GPU take this thread's work beside that of other threads, instead of all in one queue."""
    if not torch.cuda.is_available():
        yield
        return
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        yield
