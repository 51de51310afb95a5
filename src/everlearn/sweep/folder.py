"""The folder of a sweep: the recipe it belongs to, a folder for each run, and which results in it can be trusted."""

import fcntl
import json
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml

from everlearn.config import Config, read_config
from everlearn.errors import UserError
from everlearn.report.results import ResultDict
from everlearn.run_folder import CHECKSUMS, PARTIAL, damage, write_text
from everlearn.streams import benchmark_name
from everlearn.sweep.plan import PlannedRun, portable
from everlearn.sweep.recipe import Recipe

KEPT = ("config.yaml", "result.json", "ledger.json", "metrics.jsonl", CHECKSUMS)
"""What is kept of a finished run beside its TensorBoard events."""


class DamagedError(Exception):
    """A result that must not be averaged."""


class SweepFolder:
    """`recipe.yaml`, `runs/` with a folder for each run, and `logs/` of the workers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.yaml"
        self.runs = path / "runs"
        self.logs = path / "logs"
        self.given_up = self.logs / "given-up"
        """A file for each trial of a search that cannot work."""

    @classmethod
    def existing(cls, path: Path) -> "SweepFolder":
        """The folder of a sweep that has been begun; any other is refused."""
        folder = cls(path)
        if not folder.recipe.is_file():
            raise UserError(
                f"{path} is not the folder of a sweep: pass the one that was given to `everlearn sweep --out`."
            )
        return folder

    def of(self, run: PlannedRun) -> Path:
        """The folder of a run."""
        return self.runs / run.name

    @contextmanager
    def claimed(self, recipe: Recipe, names: Collection[str]) -> Iterator[None]:
        """Make the folder this recipe's, and keep other sweeps out meanwhile.

        One that holds runs which the recipe does not have (`names`) is refused.
        """
        self._check(recipe, names)
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            lock = (self.logs / "lock").open("w")
        except OSError as error:
            raise UserError(f"the output folder {self.path} cannot be used: {error.strerror}.") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(f"another sweep is at work in {self.path}: wait for it, or stop it.") from error
            write_text(self.recipe, yaml.safe_dump(_resolved(recipe), sort_keys=False, allow_unicode=True))
            yield

    def _check(self, recipe: Recipe, names: Collection[str]) -> None:
        try:
            if self.path.exists() and not self.path.is_dir():
                raise UserError(f"the output folder {self.path} is a file: choose another name.")
            there = {path.name for path in self.path.iterdir()} if self.path.exists() else set()
            # A kill before the recipe was written leaves the empty folders of a sweep.
            if not self.recipe.is_file() and there - {self.runs.name, self.logs.name, f"{self.recipe.name}{PARTIAL}"}:
                raise UserError(f"the output folder {self.path} holds other files: choose an empty or a new one.")
            held = {path.name for path in self.runs.iterdir()} if self.runs.exists() else set()
        except OSError as error:
            raise UserError(f"the output folder {self.path} cannot be used: {error.strerror}.") from error
        foreign = sorted(name for name in held - set(names) if not name.endswith(PARTIAL))
        if foreign:
            raise UserError(
                f"the output folder {self.path} belongs to another recipe, or to this one with other settings: it "
                f"holds {len(foreign)} runs that {recipe.source.path} does not have, such as {foreign[0]}; choose "
                "another folder, or delete these runs."
            )

    def result(self, run: PlannedRun) -> ResultDict | None:
        """The result of a run that has ended, None for one that has not; `DamagedError` if it cannot be trusted."""
        folder = self.of(run)
        if not (folder / "result.json").is_file():
            return None
        if flaw := damage(folder):
            raise DamagedError(flaw)
        stored, wanted = read_config(folder / "config.yaml"), portable(run.config)
        changed = [name for name, value in stored.items() if name in wanted and wanted[name] != value]
        if changed:
            raise DamagedError(f"it was computed with another {', '.join(changed)}")
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if flaw := _flaw(result, run.config, stored.get("data")):
            raise DamagedError(flaw)
        return cast(ResultDict, result)

    def discard(self, run: PlannedRun) -> None:
        """Remove a run, so that it is computed again."""
        shutil.rmtree(self.of(run))

    def set_aside(self, run: PlannedRun) -> Path:
        """Move a finished run whose result cannot be trusted out of the way; where it is now, for whoever wants it."""
        aside = self.logs / "damaged" / run.name
        shutil.rmtree(aside, ignore_errors=True)
        aside.parent.mkdir(parents=True, exist_ok=True)
        return self.of(run).rename(aside)

    def give_up(self, run: PlannedRun, reason: str) -> None:
        """Note that a trial cannot work, so that a search which is gone on with does not try it again."""
        self.given_up.mkdir(exist_ok=True)
        write_text(self.given_up / run.name, f"{reason}\n")

    def was_given_up(self, run: PlannedRun) -> bool:
        """Whether that was noted."""
        return (self.given_up / run.name).is_file()

    def take_over(self, run: PlannedRun, other: "SweepFolder") -> None:
        """Copy a finished run from another sweep."""
        partial = self.runs / f"{run.name}{PARTIAL}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for name in KEPT:
            if (other.of(run) / name).is_file():
                shutil.copyfile(other.of(run) / name, partial / name)
        shutil.rmtree(self.of(run), ignore_errors=True)
        partial.rename(self.of(run))

    def can_go_on(self, run: PlannedRun) -> bool:
        """Whether what is there of an unfinished run was begun with these settings and this place of the data."""
        try:
            begun = Config.build(read_config(self.of(run) / "config.yaml"))
        except UserError:
            return False
        return not begun.differences(run.config)


def _flaw(result: dict[str, Any], config: Config, data: str | None) -> str | None:
    """Why a whole result cannot be averaged, if so; `data` is where its data lay, which may have moved since."""
    missing = sorted(ResultDict.__required_keys__ - result.keys())
    if missing:  # an older version wrote it
        return f"result.json lacks {', '.join(missing)}"
    said = {
        "method": config.method.method,
        "stream": benchmark_name(config.stream.stream, Path(data) if data else None),
        "order": config.stream.order,
        "encoder": config.encoder.encoder,
        "seed": config.run.seed,
        "split": config.stream.split,
    }
    for name, value in said.items():
        if result[name] != value:
            return f"result.json says {name} {result[name]!r}, not {value!r}"
    for accuracy in (result["accuracy"], *result["per_task"].values()):
        if not 0 <= accuracy <= 1:  # nor is a NaN
            return f"result.json holds the accuracy {accuracy!r}"
    return None


def _resolved(recipe: Recipe) -> dict[str, Any]:
    """The recipe with its chosen settings written into the rows: the folder must not depend on other files."""
    content = dict(recipe.source.content)
    content["tables"] = {}
    for table in recipe.tables:
        written = {key: v for key, v in recipe.source.content["tables"][table.name].items() if key != "chosen"}
        rows = zip(written["rows"], table.rows, strict=True)
        written["rows"] = [{**entry, **row.own} for entry, row in rows]
        content["tables"][table.name] = written
    return content
