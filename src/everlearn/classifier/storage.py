"""The folder of a model: settings, checkpoints of safetensors and JSON, and a model card."""

import fcntl
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everlearn import __version__, checkpoint
from everlearn.classifier.card import model_card
from everlearn.errors import UserError
from everlearn.run_folder import write_text

if TYPE_CHECKING:
    from everlearn.classifier.classifier import LifelongClassifier

CONFIG, CARD, CHECKPOINTS, LOCK = "config.json", "README.md", "checkpoints", ".lock"
FORMAT = 1
"""Grows when a newer version writes something that an older one cannot read."""
SHARED = (CONFIG, CARD, f"{CHECKPOINTS}/**")
"""What is part of the model; a service keeps its journal beside it."""


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model."""
    return (folder / CONFIG).is_file()


def save(classifier: "LifelongClassifier", folder: Path, extra: dict[str, Any] | None = None) -> Path:
    """Write a model; `extra` is kept with it for whoever feeds it and comes back from `load`."""
    _make(folder)
    params = classifier.get_params(deep=False)
    config = {"format": FORMAT, "everlearn": __version__, "params": {**params, "settings": params["settings"] or {}}}
    try:
        text = json.dumps(config, indent=2) + "\n"
    except TypeError as error:
        raise UserError(f"the settings cannot be written as JSON ({error}): use plain numbers and texts.") from error
    state = {"classifier": classifier.state(), "extra": extra or {}}
    checkpoint.save(
        folder / CHECKPOINTS,
        classifier.examples_,
        state,
        advice="make room and save again, what was saved before is whole",
        # What had to be forgotten must not live on in an older checkpoint.
        kept=1 if classifier.forgotten_ else checkpoint.KEPT,
    )
    write_text(folder / CONFIG, text)
    write_text(folder / CARD, model_card(classifier))
    return folder


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The parameters and the state of the model in a folder, and what was given to `save` as `extra`."""
    config = _read_config(folder)
    saved = checkpoint.load_newest(folder / CHECKPOINTS, warnings.warn)
    if saved is None:
        raise UserError(f"the model in {folder} is damaged, no checkpoint in it is whole: take it from a backup.")
    state = saved[1]
    return config["params"], state["classifier"], state["extra"]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep everyone else from writing to a model while this process does."""
    _make(folder)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"another process is learning with the model {folder}: stop it, or wait for it.") from error
        yield
    finally:
        os.close(descriptor)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = sorted(path.name for path in folder.iterdir()) if not is_model(folder) else []
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be used: {error.strerror}.") from error
    own = (CARD, CHECKPOINTS, LOCK)
    strange = [name for name in foreign if name not in own and not name.startswith((CONFIG, "journal."))]
    if strange:
        raise UserError(f"the folder {folder} holds other files ({', '.join(strange[:3])}): choose a new one.")


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        version = config["format"]
        if set(config["params"]) and version <= FORMAT:
            return dict(config)
    except FileNotFoundError as error:
        raise UserError(f"there is no model in {folder}: check the path, or make one with everlearn learn.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}): take the model from a backup.") from error
    raise UserError(f"the model in {folder} was written by a newer everlearn ({config.get('everlearn')}): update it.")
