"""What figures are measured on: the machine, its versions, and how much it can compute at most."""

import os
import platform
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import linear

import everlearn
from everlearn.encoders import PRECISIONS, onednn
from everlearn.encoders.onednn import LinearByOneDnn


def machine(device: torch.device, precision: str = "fp32") -> dict[str, Any]:
    """What the figures were measured on, and what everlearn computed in."""
    on_gpu = device.type == "cuda"
    return {
        "kind": device.type,
        "device": torch.cuda.get_device_name(device) if on_gpu else processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "everlearn": everlearn.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda if on_gpu else None,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "precision": precision,
        "peak_flops": peak_flops(device, precision),
    }


def commit() -> str | None:
    """The version of this code, where git knows it."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


def processor() -> str:
    """The CPU's name, which Linux keeps in a file."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


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
