"""What is kept is kept whole, what is forgotten is gone, and nobody's place is lost."""

import errno
from pathlib import Path

import pytest

from everlearn import checkpoint
from everlearn.errors import UserError

# Checkpoints


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Killed(BaseException):
    """As good as a kill: nothing in the program catches it."""


@pytest.mark.parametrize("fault", [Killed(), OSError(errno.EIO, "broken")], ids=["killed", "broken"])
def test_a_checkpoint_that_is_written_again_is_there_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
):
    checkpoint.save(tmp_path, 1, {"n": 1})
    rename = Path.rename

    def stops(path: Path, target: Path) -> Path:
        if path.name.endswith(".partial"):
            raise fault
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stops)
        with pytest.raises((Killed, UserError)):
            checkpoint.save(tmp_path, 1, {"n": 2})
    assert checkpoint.load_newest(tmp_path, pytest.fail) == (1, {"n": 1})
    checkpoint.save(tmp_path, 1, {"n": 3})
    assert checkpoint.load_newest(tmp_path, pytest.fail) == (1, {"n": 3})
    assert names(tmp_path) == ["000000000001"]


def test_a_whole_checkpoint_of_a_higher_number_is_not_deleted(tmp_path: Path):
    checkpoint.save(tmp_path, 9, {"n": 9})
    checkpoint.save(tmp_path, 2, {"n": 2})
    assert checkpoint.load_newest(tmp_path, pytest.fail) == (9, {"n": 9})
