"""The folder of a run: whose it is, what it holds, and how files get there whole."""

import hashlib
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

CHECKSUMS = "checksums.json"
SUMMED = ("config.yaml", "ledger.json", "result.json")
"""The files of a finished run that stay as they are: whoever edits one of them makes another result of it."""


class RunFolder:
    """What one run writes.

    `config.yaml`, `metrics.jsonl`, `ledger.json`, `checksums.json`, `result.json`, `tensorboard/` and `checkpoints/`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.tensorboard = path / "tensorboard"
        self.checkpoints = path / "checkpoints"
        self._config = path / "config.yaml"
        self._result = path / "result.json"
        self._sums: dict[str, str] = {}

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
        self._write(self._config, yaml.safe_dump(config.flat(), sort_keys=False))

    def finished(self) -> dict[str, Any] | None:
        """The result, if the run has ended."""
        if not self._result.is_file():
            return None
        if flaw := damage(self.path):
            raise UserError(f"{self._result} is damaged ({flaw}): delete it and go on with --resume.")
        result: dict[str, Any] = json.loads(self._result.read_text(encoding="utf-8"))
        return result

    def finish(self, result: dict[str, Any]) -> None:
        """Write what came out. `result.json` comes last: it says that the run is complete."""
        self._write(self.path / "ledger.json", json.dumps(result["ledger"], indent=2) + "\n")
        whole = json.dumps(result, indent=2) + "\n"
        sums = {**self._sums, self._result.name: _checksum(whole.encode())}
        write_text(self.path / CHECKSUMS, json.dumps(sums, indent=2) + "\n")
        write_text(self._result, whole)

    def _write(self, path: Path, text: str) -> None:
        self._sums[path.name] = _checksum(text.encode())
        write_text(path, text)


def damage(folder: Path) -> str | None:
    """What is wrong with the files of a finished run, going by the checksums it wrote; None where nothing is."""
    try:
        expected = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{CHECKSUMS} is missing"
    except (OSError, ValueError, RecursionError):
        return f"{CHECKSUMS} cannot be read"
    for name in SUMMED:
        try:
            found = _checksum((folder / name).read_bytes())
        except OSError:
            return f"{name} cannot be read"
        if not isinstance(expected, dict) or expected.get(name) != found:
            return f"{name} does not match its checksum"
    return None


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
