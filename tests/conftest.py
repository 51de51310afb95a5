"""Settings that must hold before torch is imported, and the fixtures that several test files share."""

import os
import sys
from collections.abc import Callable

# One core a worker: threads that fight for it are slower, and sums that are split among threads differ in the last bit.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Nothing here may depend on a network.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

from everlearn import cli
from everlearn.encoders import Encoder
from everlearn.streams import Benchmark
from support import MethodFactory, build_method, small_benchmark, tiny_encoder

torch.set_num_threads(1)

CommandLine = Callable[..., tuple[int | str, str, str]]


@pytest.fixture
def encoder() -> Encoder:
    """The tiny encoder, which every call builds anew with the same weights."""
    return tiny_encoder()


@pytest.fixture
def benchmark_of_three() -> Benchmark:
    """Three tasks of two classes each; every class has words of its own."""
    return small_benchmark()


@pytest.fixture
def make_method() -> MethodFactory:
    """Builds a method by name from fresh parts; keyword arguments are its settings."""
    return build_method


@pytest.fixture
def everlearn(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in this process: exit code, stdout and stderr of a command."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> tuple[int | str, str, str]:
        monkeypatch.setattr(sys, "argv", ["everlearn", *map(str, arguments)])
        capfd.readouterr()
        try:
            cli.main()
            code: int | str = 0
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    return call
