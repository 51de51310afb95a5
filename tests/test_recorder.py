"""When the numbers of a run are read from the device that computed them, and what is made of them."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from everlearn.config import Config
from everlearn.errors import UserError
from everlearn.progress import Screen
from everlearn.recorder import Recorder
from everlearn.run import run
from support import small_benchmark


def small_config(method: str, **settings: Any) -> Config:
    return Config.build({"stream": "textcls", "method": method, "encoder": "tiny", "batch_size": 4, **settings})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Everything that is read from a tensor, which would wait for a GPU."""
    found: list[Any] = []
    for name in ("__float__", "__bool__", "item", "tolist"):
        original = getattr(torch.Tensor, name)

        def read(self: torch.Tensor, original: Any = original) -> Any:
            found.append(original(self))
            return found[-1]

        monkeypatch.setattr(torch.Tensor, name, read)
    return found


def test_the_means_are_those_of_each_number_read_by_itself_but_all_are_read_at_once(reads: list[Any]):
    recorder = Recorder(None, every=100)
    losses = torch.rand(25, generator=torch.Generator().manual_seed(0))
    replays = torch.rand(25, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    means = None
    for step in range(25):
        observations = {"loss": losses[step], "readable": 0.1 * step}
        means = recorder.observe(
            4 * (step + 1), {**observations, "replay_loss": replays[step]} if step % 5 else observations
        )
        assert (means is None) == (step < 24)
    assert len(reads) == 1
    own = {
        "loss": [float(loss) for loss in losses],
        "readable": [0.1 * step for step in range(25)],
        "replay_loss": [float(loss) for step, loss in enumerate(replays) if step % 5],
    }
    assert means == {name: math.fsum(values) / len(values) for name, values in own.items()}


def test_numbers_that_nobody_wants_are_not_read(reads: list[Any]):
    recorder = Recorder(None, every=10, watched=False)
    for step in range(100):
        assert recorder.observe(4 * step, {"loss": torch.tensor(1.0)}) is None
    assert not reads
    recorder.evaluated(400, {"accuracy": 0.5, "per_task": {}})
    assert len(reads) == 1


def test_numbers_that_are_written_are_read_though_nobody_watches(tmp_path: Path):
    run(small_config("seq", log_every=8), tmp_path / "out", benchmark=small_benchmark())
    lines = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    assert sum('"loss"' in line for line in lines) >= 5


@pytest.mark.parametrize("watched", [True, False])
def test_a_loss_that_is_no_longer_finite_ends_the_run(watched: bool):
    recorder = Recorder(None, every=10, watched=watched)
    losses = [1.0] * 30
    losses[7] = math.nan

    def learn() -> None:
        for step, loss in enumerate(losses):
            recorder.observe(4 * step, {"loss": torch.tensor(loss)})
        recorder.evaluated(120, {"accuracy": 0.5, "per_task": {}})

    with pytest.raises(UserError, match="no longer a finite number"):
        learn()


def test_a_quiet_run_without_a_folder_reads_no_loss_on_the_way(monkeypatch: pytest.MonkeyPatch):
    wanted = []
    made = Recorder.__init__

    def init(self: Recorder, folder: Any, every: int, watched: bool = True) -> None:
        wanted.append(watched or folder is not None)
        made(self, folder, every, watched)

    monkeypatch.setattr(Recorder, "__init__", init)
    for quiet in (True, False):
        run(small_config("seq"), screen=Screen(quiet=quiet), benchmark=small_benchmark())
    assert wanted == [False, True]
