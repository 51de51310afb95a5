"""What a run is computed with: the processor, the versions of what decides about numbers, and the state of the code."""

import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import torch
import transformers


def computed_with(device: torch.device) -> dict[str, str | None]:
    """The processor that computes on this device, versions, and the commit where everlearn runs from a checkout."""
    return {
        "processor": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "commit": commit(),
    }


@lru_cache(maxsize=1)
def processor() -> str:
    """The CPU's name, which Linux keeps in a file."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of this code, marked where it was changed since; None where it is installed as a package."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        asked = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
