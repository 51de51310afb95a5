"""Arrays to the device that computes on them, without waiting for it, and the queue in which it computes."""

import threading
import weakref
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


MOST_RECORDING_QUEUES = 32
"""PyTorch makes so many queues of a kind, and then hands out the first ones again."""
_HANDING_OUT = threading.Lock()
_idle_queues: list[torch.cuda.Stream] = []
_queues_made = 0


class RecordingQueue:
    """A queue of a GPU in which nothing else is recorded while this lives.

    Libraries keep room to work in for each queue, and recordings remember where it was: two encoders that recorded in
    one queue would share it, and when one of them goes, PyTorch takes it away from both.
    """

    def __init__(self) -> None:
        global _queues_made
        with _HANDING_OUT:
            if not _idle_queues:
                if _queues_made == MOST_RECORDING_QUEUES:
                    raise RuntimeError(f"{MOST_RECORDING_QUEUES} encoders record already")
                # Of the other kind than those that `own_queue` hands out.
                _idle_queues.append(torch.cuda.Stream(priority=-1))  # type: ignore[no-untyped-call]
                _queues_made += 1
            self.stream = _idle_queues.pop()
        weakref.finalize(self, _idle_queues.append, self.stream)


@contextmanager
def own_queue() -> Iterator[None]:
    """Let a GPU take this thread's work beside that of other threads, instead of all in one queue."""
    if not torch.cuda.is_available():
        yield
        return
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        yield
