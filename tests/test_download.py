import gzip
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from everlearn.errors import UserError
from everlearn.streams import download, textcls
from everlearn.streams.base import StreamConfig

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


class ConnectError(Exception):
    """As the hub's transport raises it: no OSError."""


class FakeHub:
    """Answers as the hub's client does, from a folder with one subfolder for each repository."""

    def __init__(self, folder):
        self.folder = folder
        self.downloaded = []
        self.fail_at = None

    def list_repo_files(self, repository, *, repo_type, revision):
        assert repo_type == "dataset"
        folder = self.folder / repository / revision
        return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]

    def hf_hub_download(self, repository, name, *, repo_type, revision, local_dir):
        if len(self.downloaded) == self.fail_at:
            raise ConnectError("[Errno -2] Name or service not known")
        self.downloaded.append(name)
        target = Path(local_dir) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.folder / repository / revision / name, target)
        return str(target)

    def module(self):
        return SimpleNamespace(HfApi=lambda: self, hf_hub_download=self.hf_hub_download)


def write_parquet(hub, name, file, rows):
    source = download.SOURCES[name]
    path = hub.folder / source.repository / source.revision / file
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = zip((source.label, *source.parts), zip(*rows, strict=True), strict=True)
    parquet.write_table(pyarrow.table({column: list(values) for column, values in columns}), path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    hub = FakeHub(tmp_path / "hub")
    for name, source in download.SOURCES.items():
        parts = [f"Part {number}" for number in range(len(source.parts))]
        rows = [(source.first_label + place, *(f"{part} of {place}" for part in parts)) for place in range(4)]
        converted = source.revision != "main"
        for split in ("train", "test"):
            file = f"default/{split}/0000.parquet" if converted else f"default/{split}-00000-of-00001.parquet"
            write_parquet(hub, name, file, rows)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub.module())
    return hub


@pytest.fixture
def out(tmp_path):
    return tmp_path / "data" / "textcls"


def get(out):
    said = []
    download.get("textcls", out, said.append)
    return said


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_ten_files_that_the_stream_can_read(hub, out):
    get(out)
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{name}.{split}.jsonl.gz" for name in textcls.SETS for split in ("train", "test")
    )
    benchmark = textcls.load(StreamConfig(stream="textcls", data=out, val_size=0))
    assert [len(task.train) for task in benchmark.tasks] == [4] * 5
    assert {example.label for example in benchmark.tasks[3].train} == {0, 1, 2, 3}


def test_text_parts_are_joined_as_the_csv_layout_does(hub, out):
    get(out)
    assert read(out / "amazon.train.jsonl.gz")[1] == {"text": "Part 0 of 1. Part 1 of 1", "label": 1}
    assert read(out / "yahoo.test.jsonl.gz")[2] == {"text": "Part 0 of 2 Part 1 of 2 Part 2 of 2", "label": 2}
    assert read(out / "yelp.test.jsonl.gz")[3] == {"text": "Part 0 of 3", "label": 3}


def test_the_parts_of_a_split_are_put_together_and_other_files_left_alone(hub, out):
    write_parquet(hub, "yelp", "default/train-00001-of-00002.parquet", [(4, "größer\nline two")])
    write_parquet(hub, "yelp", "default/validation-00000-of-00001.parquet", [(0, "not this")])
    write_parquet(hub, "amazon", "default/partial-train/0000.parquet", [(1, "not", "this")])
    get(out)
    assert read(out / "yelp.train.jsonl.gz")[-1] == {"text": "größer\nline two", "label": 4}
    assert len(read(out / "yelp.train.jsonl.gz")) == 5
    assert len(read(out / "amazon.train.jsonl.gz")) == 4


def test_rows_with_an_empty_field_are_dropped_and_counted(hub, out):
    rows = [(0, "title", "text"), (1, "", "text"), (1, "title", None), (1, " ", "text")]
    write_parquet(hub, "dbpedia", "default/train-00000-of-00001.parquet", rows)
    said = get(out)
    assert read(out / "dbpedia.train.jsonl.gz") == [{"text": "title. text", "label": 0}]
    assert any("1 rows, 3 with an empty field left out" in line for line in said)


def test_finished_files_are_not_fetched_again(hub, out):
    get(out)
    (out / "ag.test.jsonl.gz").unlink()
    hub.downloaded.clear()
    said = get(out)
    assert len(hub.downloaded) == 1
    assert "yelp.train.jsonl.gz is there already" in said


def test_an_interrupted_download_is_explained_and_goes_on(hub, out):
    hub.fail_at = 3
    with pytest.raises(UserError, match="check the network and run the command again") as caught:
        get(out)
    assert "\n" not in str(caught.value)
    assert len(list(out.glob("*.jsonl.gz"))) == 3
    hub.fail_at = None
    get(out)
    assert len(hub.downloaded) == 10


@pytest.mark.parametrize("error", [ConnectError("no route"), ConnectionError("offline\nmode"), OSError("")])
def test_no_network(hub, out, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(hub, "list_repo_files", fail)
    with pytest.raises(UserError, match=r"could not get \S+ from the Hugging Face hub \(") as caught:
        get(out)
    assert "\n" not in str(caught.value)
    assert not list(out.glob("*.jsonl.gz"))


def test_a_conversion_that_fails_leaves_no_finished_file(hub, out):
    write_parquet(hub, "ag", "default/train-00000-of-00001.parquet", [(0, "fine"), (4, "no such class")])
    with pytest.raises(UserError, match="has a label 4"):
        get(out)
    assert not (out / "ag.train.jsonl.gz").exists()


def test_changed_columns_are_explained(hub, out):
    source = download.SOURCES["ag"]
    path = hub.folder / source.repository / "main" / "default" / "train-00000-of-00001.parquet"
    parquet.write_table(pyarrow.table({"label": [0], "body": ["x"]}), path)
    with pytest.raises(UserError, match="has no column 'text'"):
        get(out)


def test_changed_files_are_explained(hub, out):
    shutil.rmtree(hub.folder / download.SOURCES["ag"].repository)
    with pytest.raises(UserError, match="has no parquet files for train"):
        get(out)


def test_an_unwritable_folder_is_explained(hub, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot make the folder"):
        get(tmp_path / "file" / "out")


@pytest.mark.parametrize("package", ["huggingface_hub", "pyarrow.parquet"])
def test_a_missing_package_is_explained_before_anything_is_downloaded(hub, out, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"install it with `pip install 'everlearn\[hub\]'`"):
        get(out)
    assert not hub.downloaded


def test_unknown_data(out):
    with pytest.raises(UserError, match="unknown data 'textcl': did you mean 'textcls'"):
        download.get("textcl", out, print)
