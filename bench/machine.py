"""What figures are measured on: the machine, its versions, and how much it can compute at most."""

import os
import time
from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.functional import linear

import everlearn
from everlearn.encoders import PRECISIONS, onednn
from everlearn.encoders.onednn import LinearByOneDnn
from everlearn.machine import computed_with


def machine(device: torch.device, precision: str = "fp32") -> dict[str, Any]:
    """What the figures were measured on, and what everlearn computed in."""
    known = computed_with(device)
    return {
        "kind": device.type,
        "device": known["processor"],
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "everlearn": everlearn.__version__,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        **{name: known[name] for name in ("torch", "transformers", "python")},
        "precision": precision,
        "peak_flops": peak_flops(device, precision),
    }


def peak_flops(device: torch.device, precision: str) -> float:
    """Operations a second in a large matrix product: what can be had here."""
    size, dtype = 8192 if device.type == "cuda" else 1024, PRECISIONS[precision]
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    with LinearByOneDnn() if device.type == "cpu" and onednn.helps() else nullcontext():
        for _ in range(3):
            linear(a, b)
        wait(device)
        start = time.perf_counter()
        for _ in range(20):
            linear(a, b)
        wait(device)
    return 20 * 2 * size**3 / (time.perf_counter() - start)


def wait(device: torch.device) -> None:
    """Until the device has done what this thread has given it."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
