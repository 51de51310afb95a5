"""A small recipe on the made-up relations, and what the tests of sweeps do with it."""

import json
from pathlib import Path
from typing import Any

import yaml

from everlearn.progress import Screen
from everlearn.sweep.folder import SweepFolder
from everlearn.sweep.recipe import read_recipe
from everlearn.sweep.sweep import Means, Sweep

SAMPLE = Path(__file__).parent.parent / "recipes" / "sample" / "fewrel"

RECIPE: dict[str, Any] = {
    "title": "A small sweep",
    "shows": "That sweeps work.",
    "tables": {
        "relations": {
            "settings": {
                "stream": "fewrel",
                "data": str(SAMPLE),
                "encoder": "tiny",
                "device": "cpu",
                "max_length": 64,
                "lr": 1e-3,
                "meta_lr": 1e-3,
                "replay_interval": 16,
                "replay_rate": 0.25,
                "checkpoint_every": 16,
            },
            "seeds": [42, 43],
            "orders": [1],
            "rows": [
                {"name": "SEQ", "method": "seq", "paper": "48.1 ± 3.2"},
                {"name": "OML-ER", "method": "oml-er", "paper": "69.5 ± 0.5", "expected": "not measured yet"},
            ],
            "compare": [{"rows": ["OML-ER", "SEQ"], "paper_p": 0.006}],
        }
    },
}


class Listener(Screen):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def write_recipe(path: Path, content: dict[str, Any] | None = None) -> Path:
    path.write_text(yaml.safe_dump(content or RECIPE, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def make_sweep(recipe: Path, out: Path, **means: Any) -> tuple[Sweep, Listener]:
    screen = Listener()
    return Sweep(read_recipe(recipe), SweepFolder(out), Means(jobs=2, **means), screen), screen


def results_in(out: Path) -> dict[str, Any]:
    """The results by the name of their run, without the time they took and how many went on at once."""
    found = {}
    for path in sorted((out / "runs").glob("*/result.json")):
        result = json.loads(path.read_text())
        for phase in ("train", "watch", "test"):
            del result["ledger"][phase]["seconds"], result["ledger"][phase]["phases"]
        del result["computed_with"]["runs_at_once"]
        found[path.parent.name] = result
    return found
