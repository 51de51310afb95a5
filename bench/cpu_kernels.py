"""What other kernels than PyTorch's first choice gain for an encoder on this CPU, all in one run.

python bench/cpu_kernels.py --threads 1 --out results/speed/cpu-kernels.json     # about two minutes
"""

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine

from everlearn.batches import Ragged, Sequences
from everlearn.encoders import Encoder, EncoderConfig, load_encoder
from everlearn.encoders.cpu_attention import AttentionInFp32
from everlearn.encoders.onednn import LinearByOneDnn

SHAPES = ((1, 15), (8, 30), (16, 110), (64, 40))
"""Texts and their mean length in tokens."""
REPEATS = 7
WAYS = {
    "fp32, default": ("fp32", nullcontext),
    "fp32, oneDNN": ("fp32", LinearByOneDnn),
    "bf16, default": ("bf16", nullcontext),
    "bf16, attention in fp32": ("bf16", AttentionInFp32),
}
"""What is computed in, and what is entered for it."""


def sequences(texts: int, mean: int) -> Sequences:
    rng = np.random.default_rng(0)
    lengths = rng.normal(mean, 0.3 * mean, texts).clip(4, 400).astype(int)
    return Sequences(Ragged.from_rows([rng.integers(1000, 20_000, length).tolist() for length in lengths]))


def fastest_ms(work: Callable[[], Any]) -> float:
    work()
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return round(1000 * min(seconds), 1)


def measure(encoder: Encoder, given: Sequences) -> dict[str, float]:
    def learn() -> None:
        encoder.weights.grad = None
        encoder(given).square().sum().backward()

    with torch.no_grad():
        forward = fastest_ms(lambda: encoder(given))
    return {"forward_ms": forward, "with_gradients_ms": fastest_ms(learn)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cpu = torch.device("cpu")
    encoders = {precision: load_encoder(EncoderConfig(precision=precision), cpu) for precision in ("fp32", "bf16")}
    rows = []
    for texts, mean in SHAPES:
        row: dict[str, Any] = {"texts": texts, "mean_tokens": mean}
        for name, (precision, way) in WAYS.items():
            encoders[precision]._faster_kernels = way
            row[name] = measure(encoders[precision], sequences(texts, mean))
        rows.append(row)
        print(json.dumps(row), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(torch.device("cpu")), "threads": options.threads, "encoder": "minilm", "rows": rows}
    options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
