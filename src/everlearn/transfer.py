"""Arrays to the device that computes on them, without waiting for it, and the queue in which it computes."""

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


@contextmanager
def own_queue() -> Iterator[None]:
    """Let a GPU take this thread's work beside that of other threads, instead of all in one queue."""
    if not torch.cuda.is_available():
        yield
        return
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        yield
