"""How a run survives: folders of safetensors and JSON, written beside and renamed into place, with checksums."""

import errno
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from everlearn.errors import UserError

KEPT = 2
"""Checkpoints that stay: the newest, and one before it in case the newest is damaged."""

ASIDE = ".replaced"
"""Ends the name of a checkpoint while another of its number takes its place; until then it is the one to load."""

_ARRAY, _TENSOR = "__array__", "__tensor__"


RESUME = "make room and go on with --resume, which starts from what was saved before"


def save(folder: Path, position: int, state: dict[str, Any], advice: str = RESUME, kept: int = KEPT) -> Path:
    """Write `state` (nested dicts and lists of plain values, arrays and tensors) as the checkpoint of `position`."""
    final = folder / f"{position:012d}"
    partial, aside = folder / f"{final.name}.partial", folder / f"{final.name}{ASIDE}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob("*.partial"):
            shutil.rmtree(leftover)
        partial.mkdir()
        _write(partial, state)
        if final.exists():
            shutil.rmtree(aside, ignore_errors=True)
            final.rename(aside)
        partial.rename(final)
        _sync(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
        raise UserError(f"could not write a checkpoint in {folder}: {reason}; {advice}.") from error
    newest_first = _newest_first(folder)
    # What was set aside has been replaced. And one that is damaged was passed over: it must not outlive good ones.
    others = [path for path in newest_first if path != final and not path.name.endswith(ASIDE)]
    newer = [path for path in others if _number(path) > position and _is_whole(path)]
    older = (path for path in others if _number(path) < position and _is_whole(path))
    staying = {final, *newer, *itertools.islice(older, kept - 1)}
    for old in newest_first:
        if old not in staying:
            shutil.rmtree(old)
    return final


def newest(folder: Path) -> int:
    """The highest position that has a checkpoint, whole or not; 0 where there is none."""
    return max(map(_number, _newest_first(folder)), default=0)


def glimpse(folder: Path) -> dict[str, Any] | None:
    """The plain values of the newest checkpoint, without its arrays; None where there is none or it is damaged."""
    found = _newest_first(folder)
    return _plain_values(found[0]) if found else None


def discard(folder: Path, outdated: Callable[[dict[str, Any], dict[str, Any] | None], bool]) -> None:
    """Delete older checkpoints that are outdated by the newest, going by the plain values of both."""
    latest, found = glimpse(folder), _newest_first(folder)
    if latest is None:
        return
    old = [path for path in found[1:] if outdated(latest, _plain_values(path))]
    if old and _is_whole(found[0]):
        for path in old:
            shutil.rmtree(path)


def load_newest(folder: Path, notify: Callable[[str], None]) -> tuple[int, dict[str, Any]] | None:
    """The newest checkpoint that is whole, with its position; damaged ones are passed over with a line each."""
    candidates = _newest_first(folder)
    for candidate in candidates:
        try:
            return _number(candidate), _read(candidate)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            instead = "starting from the beginning" if candidate == candidates[-1] else "using the one before it"
            notify(f"checkpoint {candidate} is damaged ({error}): {instead}")
    return None


def _newest_first(folder: Path) -> list[Path]:
    """Checkpoints, and behind each the one it replaces, where a save was interrupted."""
    found = [path for path in folder.glob("*") if path.name.removesuffix(ASIDE).isdigit()]
    return sorted(found, key=lambda path: (_number(path), not path.name.endswith(ASIDE)), reverse=True)


def _plain_values(folder: Path) -> dict[str, Any] | None:
    try:
        tree = json.loads((folder / "state.json").read_text())
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) else None


def _number(path: Path) -> int:
    return int(path.name.removesuffix(ASIDE))


def _is_whole(folder: Path) -> bool:
    try:
        _check(folder)
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _write(folder: Path, state: dict[str, Any]) -> None:
    tensors: dict[str, torch.Tensor] = {}
    tree = _take_apart(state, "", tensors)
    _dump(folder / "state.json", tree)
    try:
        save_file(tensors, folder / "tensors.safetensors")
    except Exception as error:  # safetensors wraps the system's error in one of its own
        full = "No space left" in str(error) or "os error 28" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error
    _sync(folder / "tensors.safetensors")
    _dump(folder / "checksums.json", {name: _checksum(folder / name) for name in ("state.json", "tensors.safetensors")})
    _sync(folder)


def _read(folder: Path) -> dict[str, Any]:
    _check(folder)
    tree = json.loads((folder / "state.json").read_text())
    state: dict[str, Any] = _put_together(tree, load_file(folder / "tensors.safetensors"))
    return state


def _check(folder: Path) -> None:
    for name, expected in json.loads((folder / "checksums.json").read_text()).items():
        if _checksum(folder / name) != expected:
            raise ValueError(f"{name} does not match its checksum")


def _take_apart(node: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    """The tree with every array moved into `tensors` and a reference left in its place."""
    if isinstance(node, torch.Tensor):
        # A copy: safetensors refuses tensors that share storage.
        tensors[path] = node.detach().cpu().contiguous().clone()
        return {_TENSOR: path}
    if isinstance(node, np.ndarray):
        tensors[path] = torch.from_numpy(np.array(node, order="C"))
        return {_ARRAY: path}
    if isinstance(node, dict):
        return {str(key): _take_apart(value, f"{path}/{key}", tensors) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_take_apart(value, f"{path}/{i}", tensors) for i, value in enumerate(node)]
    return node


def _put_together(node: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(node, dict):
        if _TENSOR in node:
            return tensors[node[_TENSOR]]
        if _ARRAY in node:
            return tensors[node[_ARRAY]].numpy()
        return {key: _put_together(value, tensors) for key, value in node.items()}
    if isinstance(node, list):
        return [_put_together(value, tensors) for value in node]
    return node


def _dump(path: Path, value: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Make sure that what was written is on the disk, not only in the system's cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
