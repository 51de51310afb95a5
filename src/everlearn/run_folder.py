"""The folder of a run: whose it is, what it holds, and how files get there whole."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from everlearn.config import Config, read_config
from everlearn.errors import UserError

PARTIAL = ".partial"
"""The ending of a file that is still being written, or was when the run was killed."""


class RunFolder:
    """`config.yaml`, `metrics.jsonl`, `result.json`, `ledger.json`, `tensorboard/` and `checkpoints/` of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.tensorboard = path / "tensorboard"
        self.checkpoints = path / "checkpoints"
        self._config = path / "config.yaml"
        self._result = path / "result.json"

    def check(self, config: Config, resume: bool) -> None:
        """Refuse a folder that holds anything but this very run, or holds it without being asked to go on."""
        try:
            if not self.path.exists():
                return
            if not self.path.is_dir():
                raise UserError(f"the output folder {self.path} is a file: choose another name.")
            # A kill while the very first file was written leaves a part of it, which is nobody's.
            holds = [path.name for path in self.path.iterdir() if not path.name.endswith(PARTIAL)]
        except OSError as error:
            raise UserError(f"the output folder {self.path} cannot be used: {error.strerror}.") from error
        if not holds:
            return
        if not self._config.is_file():
            raise UserError(f"the output folder {self.path} holds other files: choose an empty or a new one.")
        differences = Config.build(read_config(self._config)).differences(config)
        if differences:
            raise UserError(
                f"the output folder {self.path} holds another run ({'; '.join(differences)}): "
                "choose another folder, or the same settings."
            )
        if not resume:
            raise UserError(f"the output folder {self.path} already holds this run: pass --resume to go on with it.")

    def create(self, config: Config) -> None:
        """Make the folder this run's own."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"the output folder {self.path} cannot be made: {error.strerror}.") from error
        write_text(self._config, yaml.safe_dump(config.flat(), sort_keys=False))

    def finished(self) -> dict[str, Any] | None:
        """The result, if the run has ended."""
        if not self._result.is_file():
            return None
        try:
            result: dict[str, Any] = json.loads(self._result.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{self._result} is damaged: delete it and go on with --resume.") from error
        return result

    def finish(self, result: dict[str, Any]) -> None:
        """Write what came out. `result.json` comes last: it says that the run is complete."""
        write_text(self.path / "ledger.json", json.dumps(result["ledger"], indent=2) + "\n")
        write_text(self._result, json.dumps(result, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write beside and rename into place, so that nobody ever sees half a file."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise UserError(f"could not write {path}: {error.strerror}.") from error
