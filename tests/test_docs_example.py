"""The worked example of docs/adding-a-method.md runs exactly as it stands there, and keeps to the methods' contract."""

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from everlearn.config import Config
from everlearn.methods import METHODS, Method
from everlearn.run import run
from test_method_contract import Contract, Expected

PAGE = Path(__file__).parent.parent / "docs" / "adding-a-method.md"

ROWS = [
    ("apple pear plum cherry", "fruit", "food"),
    ("bread butter cheese flour", "pantry", "food"),
    ("engine wheel brake clutch", "car", "travel"),
    ("rail station platform ticket", "train", "travel"),
]


@pytest.fixture
def nearest_mean(monkeypatch: pytest.MonkeyPatch) -> type[Method]:
    """The class that the page's only Python block defines, registered for the time of a test."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "nearest_mean"}
    exec(compile(code, str(PAGE), "exec"), namespace)
    method: type[Method] = namespace["NearestMean"]
    monkeypatch.setitem(METHODS, method.name, method)
    return method


@pytest.mark.usefixtures("nearest_mean")
class TestNearestMean(Contract):
    expected: ClassVar = {
        "nearest-mean": Expected(
            unfit={"ranking": "it takes one feature an example, and ranking makes one for each of its candidates"}
        )
    }


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    lines = ["text,label,task"]
    for words, label, task in ROWS:
        word = words.split()
        lines += [f"{word[i % 4]} {word[(i + 1) % 4]} {word[i * 3 % 4]} {i},{label},{task}" for i in range(20)]
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "stream": "file",
        "data": data,
        "task_column": "task",
        "encoder": "tiny",
        "batch_size": 8,
        "checkpoint_every": 16,
    }


def test_the_example_learns_without_forgetting(nearest_mean: type[Method], settings: dict[str, Any]) -> None:
    result = run(Config.build({**settings, "method": nearest_mean.name}))
    assert result["accuracy"] > 0.6  # four classes: chance is 0.25
    assert result["ledger"]["train"]["tokens_forward"] > 0
    assert result["ledger"]["test"]["tokens_forward"] > 0
    assert result["ledger"]["train"]["tokens_backward"] == 0


def test_the_example_resumes(
    nearest_mean: type[Method], settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config.build({**settings, "method": nearest_mean.name})
    whole = run(config)
    seen = 0

    def interrupted(self: Method, batch: Any, original: Any = nearest_mean.observe) -> Any:
        nonlocal seen
        seen += 1
        if seen == 5:
            raise KeyboardInterrupt
        return original(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(nearest_mean, "observe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "out")
    resumed = run(config, tmp_path / "out", resume=True)
    for key in ("accuracy", "per_task", "curve", "matrix"):
        assert resumed[key] == whole[key]
