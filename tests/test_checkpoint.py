import errno
import json
import math
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from everlearn import checkpoint
from everlearn.errors import UserError
from everlearn.seeding import generator, generator_state, restore_generator

STATE = {"weights": {"a": torch.arange(6.0)}, "lengths": np.arange(3), "count": 1}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def there_and_back(folder, state):
    checkpoint.save(folder, 7, state)
    loaded = checkpoint.load_newest(folder, pytest.fail)
    assert loaded is not None
    position, back = loaded
    assert position == 7
    return back


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def newest(folder):
    return max(folder.iterdir())


def flip_a_byte(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


# --- what goes in comes out


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -3,
        2**127 + 1,
        "",
        "ü €\n\"'",
        {},
        [],
        [[], {}, [None]],
        {"a": {"b": [1, {"c": "d"}]}},
        0.1,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        math.inf,
    ],
    ids=repr,
)
def test_plain_values_come_back_the_same(folder, value):
    back = there_and_back(folder, {"value": value})["value"]
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value)  # tells -0.0 from 0.0


def test_not_a_number_comes_back(folder):
    assert math.isnan(there_and_back(folder, {"value": math.nan})["value"])


def test_a_generator_goes_on_after_its_state_was_saved(folder):
    rng = generator(1, "test")
    rng.random(5)
    rng.integers(7, size=3, dtype=np.int32)  # leaves half a word in the generator, which belongs to its state too
    back = there_and_back(folder, {"rng": generator_state(rng)})
    other = generator(2, "other")
    restore_generator(other, back["rng"])
    assert (other.random(100) == rng.random(100)).all()
    assert (other.integers(7, size=9, dtype=np.int32) == rng.integers(7, size=9, dtype=np.int32)).all()


@pytest.mark.parametrize("shape", [(5,), (2, 3), (0,), (0, 4), ()], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "int64", "float32", "float64", "bool"])
def test_arrays_come_back_with_type_and_shape(folder, dtype, shape):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    back = there_and_back(folder, {"x": array})["x"]
    assert isinstance(back, np.ndarray)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()


def test_arrays_that_are_views_come_back(folder):
    base = np.arange(12, dtype=np.int32).reshape(3, 4)
    read_only = np.frombuffer(b"abc", dtype=np.uint8)
    back = there_and_back(folder, {"t": base.T, "every_other": base[:, ::2], "read_only": read_only})
    assert (back["t"] == base.T).all()
    assert (back["every_other"] == base[:, ::2]).all()
    assert back["read_only"].tobytes() == b"abc"


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8]
)
@pytest.mark.parametrize("shape", [(3, 2), (0,), ()], ids=str)
def test_tensors_come_back_bit_for_bit(folder, dtype, shape):
    tensor = (torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 200).to(dtype)
    back = there_and_back(folder, {"x": tensor})["x"]
    assert isinstance(back, torch.Tensor)
    assert back.dtype == dtype
    assert back.shape == tensor.shape
    assert torch.equal(back, tensor)


def test_tensors_may_share_storage_and_need_not_be_contiguous(folder):
    whole = torch.arange(12.0).reshape(3, 4)
    state = {"whole": whole, "again": whole, "row": whole[1], "turned": whole.T}
    back = there_and_back(folder, state)
    assert all(torch.equal(back[name], state[name]) for name in state)
    back["whole"].zero_()
    assert torch.equal(back["again"], torch.arange(12.0).reshape(3, 4))


def test_parameters_are_saved_without_their_graph(folder):
    weight = torch.nn.Parameter(torch.ones(2))
    back = there_and_back(folder, {"weight": weight})["weight"]
    assert not back.requires_grad
    assert torch.equal(back, weight.detach())


def test_arrays_and_tensors_may_stand_anywhere_in_the_tree(folder):
    state = {"list": [np.arange(2), {"deep": [torch.ones(1), None]}], "3": {"4": np.zeros(1)}}
    back = there_and_back(folder, state)
    assert back["list"][0].tolist() == [0, 1]
    assert torch.equal(back["list"][1]["deep"][0], torch.ones(1))
    assert back["list"][1]["deep"][1] is None
    assert back["3"]["4"].tolist() == [0.0]


def test_saving_does_not_change_what_is_saved(folder):
    state = {"x": torch.arange(3.0), "pair": (1, 2), "y": np.arange(3)}
    checkpoint.save(folder, 1, state)
    assert state["pair"] == (1, 2)
    assert torch.equal(state["x"], torch.arange(3.0))
    assert state["y"].tolist() == [0, 1, 2]


# --- what lies on the disk


def test_a_checkpoint_holds_json_and_safetensors_only(folder):
    path = checkpoint.save(folder, 5, STATE)
    assert names(path) == ["checksums.json", "state.json", "tensors.safetensors"]
    assert all(json.loads((path / name).read_text()) for name in ("checksums.json", "state.json"))


def test_the_last_two_are_kept(folder):
    for position in (100, 200, 300, 1000):
        checkpoint.save(folder, position, STATE)
    assert names(folder) == ["000000000300", "000000001000"]


def test_newest_means_most_examples_even_with_more_digits(folder):
    for position in (999_999, 1_000_000):
        checkpoint.save(folder, position, {"at": position})
    assert checkpoint.load_newest(folder, pytest.fail) == (1_000_000, {"at": 1_000_000})


def test_a_checkpoint_can_be_written_again(folder):
    checkpoint.save(folder, 1, {"n": 1})
    checkpoint.save(folder, 1, {"n": 2})
    assert checkpoint.load_newest(folder, pytest.fail) == (1, {"n": 2})
    assert names(folder) == ["000000000001"]


def test_leftovers_of_an_interrupted_save_are_ignored_and_then_removed(folder):
    checkpoint.save(folder, 1, {"n": 1})
    leftover = folder / "000000000002.partial"
    shutil.copytree(newest(folder), leftover)
    assert checkpoint.load_newest(folder, pytest.fail) == (1, {"n": 1})
    checkpoint.save(folder, 3, {"n": 3})
    assert names(folder) == ["000000000001", "000000000003"]


def test_no_folder_and_an_empty_folder_hold_no_checkpoint(folder):
    assert checkpoint.load_newest(folder, pytest.fail) is None
    folder.mkdir()
    assert checkpoint.load_newest(folder, pytest.fail) is None


# --- damage


def flip_in_tensors(path):
    flip_a_byte(path / "tensors.safetensors", -1)


def flip_in_the_header_of_tensors(path):
    flip_a_byte(path / "tensors.safetensors", 3)


def flip_in_state(path):
    flip_a_byte(path / "state.json", -2)


def truncate_state(path):
    os.truncate(path / "state.json", 10)


def truncate_tensors(path):
    os.truncate(path / "tensors.safetensors", 100)


def empty_state(path):
    os.truncate(path / "state.json", 0)


def empty_checksums(path):
    os.truncate(path / "checksums.json", 0)


def checksums_of_another_shape(path):
    (path / "checksums.json").write_text("[]")


def zeroed_checksums(path):
    (path / "checksums.json").write_bytes(b"\0" * 100)


def no_checksums(path):
    (path / "checksums.json").unlink()


def no_tensors(path):
    (path / "tensors.safetensors").unlink()


def nothing_in_it(path):
    shutil.rmtree(path)
    path.mkdir()


def a_file_instead(path):
    shutil.rmtree(path)
    path.write_text("x")


DAMAGES = [
    flip_in_tensors,
    flip_in_the_header_of_tensors,
    flip_in_state,
    truncate_state,
    truncate_tensors,
    empty_state,
    empty_checksums,
    checksums_of_another_shape,
    zeroed_checksums,
    no_checksums,
    no_tensors,
    nothing_in_it,
    a_file_instead,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_checkpoint_is_passed_over_with_a_line(folder, damage):
    checkpoint.save(folder, 1, STATE)
    checkpoint.save(folder, 2, STATE)
    damage(newest(folder))
    lines = []
    loaded = checkpoint.load_newest(folder, lines.append)
    assert loaded is not None
    assert loaded[0] == 1
    assert torch.equal(loaded[1]["weights"]["a"], STATE["weights"]["a"])
    assert len(lines) == 1
    assert "000000000002 is damaged" in lines[0]
    assert "using the one before it" in lines[0]
    assert "\n" not in lines[0]


def test_no_flipped_bit_anywhere_goes_unnoticed(folder):
    checkpoint.save(folder, 1, {"x": torch.arange(2.0), "n": 1})
    checkpoint.save(folder, 2, {"x": torch.arange(2.0), "n": 2})
    for path in sorted(newest(folder).iterdir()):
        for place in range(path.stat().st_size):
            flip_a_byte(path, place)
            loaded = checkpoint.load_newest(folder, lambda line: None)
            assert loaded is not None, (path, place)
            assert loaded[0] == 1, (path, place)
            flip_a_byte(path, place)
    assert checkpoint.load_newest(folder, pytest.fail)[0] == 2


def test_when_all_are_damaged_there_is_none_and_a_line_for_each(folder):
    for written in [checkpoint.save(folder, position, STATE) for position in (1, 2)]:
        flip_in_tensors(written)
    lines = []
    assert checkpoint.load_newest(folder, lines.append) is None
    assert [place for place in ("002 is damaged", "001 is damaged") if any(place in line for line in lines)] == [
        "002 is damaged",
        "001 is damaged",
    ]
    # There is nothing before the oldest one, so the line must not promise it.
    assert "using the one before it" not in lines[-1]


def test_a_damaged_checkpoint_never_pushes_out_a_good_one(folder):
    """Where all were damaged a run starts over: what it then saves has to stay, though the damaged ones are newer."""
    for position in (80, 90):
        checkpoint.save(folder, position, STATE)
        flip_in_tensors(newest(folder))
    checkpoint.save(folder, 10, {"n": 10})
    assert checkpoint.load_newest(folder, lambda line: None) == (10, {"n": 10})
    checkpoint.save(folder, 20, {"n": 20})
    assert checkpoint.load_newest(folder, lambda line: None) == (20, {"n": 20})


# --- no room


def out_of_space(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def out_of_space_in_safetensors(*args, **kwargs):
    from safetensors import SafetensorError

    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("target", "name", "fail"),
    [
        (checkpoint, "save_file", out_of_space_in_safetensors),
        (checkpoint, "save_file", out_of_space),
        (checkpoint.json, "dump", out_of_space),
        (checkpoint.os, "fsync", out_of_space),
        (checkpoint.Path, "mkdir", out_of_space),
        (checkpoint.Path, "rename", out_of_space),
    ],
    ids=["tensors", "tensors-plain", "json", "fsync", "mkdir", "rename"],
)
def test_a_full_disk_is_one_sentence_and_loses_nothing(folder, monkeypatch, target, name, fail):
    checkpoint.save(folder, 1, STATE)
    with monkeypatch.context() as patch:
        patch.setattr(target, name, fail)
        with pytest.raises(UserError) as caught:
            checkpoint.save(folder, 2, STATE)
    assert "the disk is full" in str(caught.value)
    assert "--resume" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names(folder) == ["000000000001"]
    assert checkpoint.load_newest(folder, pytest.fail)[0] == 1
    checkpoint.save(folder, 2, STATE)  # room was made
    assert checkpoint.load_newest(folder, pytest.fail)[0] == 2


def test_another_fault_of_the_disk_is_named(folder, monkeypatch):
    def broken(*args):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(checkpoint.os, "fsync", broken)
    with pytest.raises(UserError, match="Read-only file system"):
        checkpoint.save(folder, 1, STATE)


# A disk of one megabyte, in a namespace of its own so that nobody else sees it. Not every machine allows that.
SMALL_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = "mount -t tmpfs -o size=1m tmpfs "

FILL = """
import sys, torch
from pathlib import Path
from everlearn import checkpoint
from everlearn.errors import UserError
folder = Path(sys.argv[1])
checkpoint.save(folder, 1, {"x": torch.zeros(150_000)})
try:
    checkpoint.save(folder, 2, {"x": torch.zeros(150_000)})
except UserError as error:
    assert "the disk is full" in str(error), error
else:
    raise SystemExit("it was not full")
assert [p.name for p in folder.iterdir()] == ["000000000001"], list(folder.iterdir())
assert checkpoint.load_newest(folder, print)[0] == 1
"""


def test_a_disk_that_is_really_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        shutil.which("unshare") is None
        or subprocess.run([*SMALL_DISK, f"{MOUNT}'{disk}'"], capture_output=True).returncode
    ):
        pytest.skip("this machine lets no user mount a small disk")
    script = tmp_path / "fill.py"
    script.write_text(FILL)
    command = f"{MOUNT}'{disk}' && exec '{sys.executable}' '{script}' '{disk}/checkpoints'"
    done = subprocess.run([*SMALL_DISK, command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
