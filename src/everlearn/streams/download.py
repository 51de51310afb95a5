"""Downloads benchmark data from the Hugging Face hub and writes them as the files that the streams read."""

import gzip
import importlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType

from everlearn.errors import UserError, unknown
from everlearn.streams.cleaning import join
from everlearn.streams.textcls import SETS, DataSet

KNOWN = ("textcls",)

# The hub keeps a copy of every data set as parquet on this branch, also of those that were uploaded as CSV.
CONVERTED = "refs/convert/parquet"


@dataclass(frozen=True)
class Source:
    """Where a data set is on the hub, and which of its columns are the label and the parts of the text."""

    repository: str
    label: str
    parts: tuple[str, ...]
    first_label: int = 0
    revision: str = "main"


SOURCES = {
    # The hub's copy of AGNews has title and description already joined, with a space.
    "ag": Source("fancyzhx/ag_news", "label", ("text",)),
    "amazon": Source(
        "yassiracharki/Amazon_Reviews_for_Sentiment_Analysis_fine_grained_5_classes",
        "class_index",
        ("review_title", "review_text"),
        first_label=1,
        revision=CONVERTED,
    ),
    "dbpedia": Source("fancyzhx/dbpedia_14", "label", ("title", "content")),
    "yahoo": Source(
        "community-datasets/yahoo_answers_topics", "topic", ("question_title", "question_content", "best_answer")
    ),
    "yelp": Source("Yelp/yelp_review_full", "label", ("text",)),
}


def get(name: str, out: Path, report: Callable[[str], None]) -> None:
    """Fetch the data called `name` into the folder `out`; files that are there are not fetched again."""
    if name not in KNOWN:
        raise unknown("data", name, KNOWN)
    # All of them now: a missing package should not show only after gigabytes have been downloaded.
    for package in ("huggingface_hub", "pyarrow.parquet"):
        _import(package)
    out = out.expanduser()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {out}: {error.strerror}; choose another with --out.") from error
    # The downloads stay here until they are converted, so that an interrupted one goes on where it stopped.
    downloads = out / ".downloads"
    for set_name, source in SOURCES.items():
        for split in ("train", "test"):
            target = out / f"{set_name}.{split}.jsonl.gz"
            if target.exists():
                report(f"{target.name} is there already")
            else:
                _fetch(SETS[set_name], source, split, target, downloads, report)
    shutil.rmtree(downloads, ignore_errors=True)


def _fetch(
    data_set: DataSet, source: Source, split: str, target: Path, downloads: Path, report: Callable[[str], None]
) -> None:
    names = _parquet_files(source, split)
    paths = []
    for number, name in enumerate(names, start=1):
        report(f"downloading {target.name}: part {number} of {len(names)} from {source.repository}")
        paths.append(_download(source, name, downloads / data_set.name))
    report(f"converting {target.name}")
    try:
        written, dropped = _convert(data_set, source, paths, target)
    except OSError as error:
        raise UserError(f"could not write {target}: {error}; mend that and run the command again.") from error
    report(f"wrote {target}: {written:,} rows, {dropped:,} with an empty field left out")
    for path in paths:
        path.unlink(missing_ok=True)


def _parquet_files(source: Source, split: str) -> list[str]:
    """The files of a split: `config/train-00000-of-00002.parquet`, or `config/train/0000.parquet` where converted."""
    with _hub_errors(source):
        api = _import("huggingface_hub").HfApi()
        names = api.list_repo_files(source.repository, repo_type="dataset", revision=source.revision)
    paths = [PurePosixPath(name) for name in sorted(names) if name.endswith(".parquet")]
    chosen = [str(path) for path in paths if path.name.startswith(f"{split}-") or path.parent.name == split]
    if not chosen:
        raise UserError(
            f"{source.repository} on the hub has no parquet files for {split}, so it must have changed: "
            "pass the data set's own CSV files with --data instead."
        )
    return chosen


def _download(source: Source, name: str, folder: Path) -> Path:
    place = {"repo_type": "dataset", "revision": source.revision, "local_dir": str(folder)}
    with _hub_errors(source):
        return Path(_import("huggingface_hub").hf_hub_download(source.repository, name, **place))


@contextmanager
def _hub_errors(source: Source) -> Iterator[None]:
    """One sentence instead of the errors of the hub's client."""
    try:
        yield
    except Exception as error:
        # The client passes on the errors of the library that it talks through, which differs between its versions.
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise UserError(
            f"could not get {source.repository} from the Hugging Face hub ({reason}): check the network and run "
            "the command again; it goes on where it stopped."
        ) from error


def _convert(data_set: DataSet, source: Source, paths: Sequence[Path], target: Path) -> tuple[int, int]:
    """Write the rows as JSON lines; count those written, and those dropped for an empty field as the paper does."""
    written = dropped = 0
    unfinished = target.with_name(f"{target.name}.part")
    with gzip.open(unfinished, "wt", encoding="utf-8", compresslevel=6) as file:
        for label, parts in _rows(source, paths):
            place = label - source.first_label
            if not 0 <= place < len(data_set.classes):
                raise UserError(f"{source.repository} on the hub has a label {label}, so it must have changed.")
            if all(part.strip() for part in parts):
                text = join(parts, data_set.separator)
                file.write(json.dumps({"text": text, "label": place}, ensure_ascii=False) + "\n")
                written += 1
            else:
                dropped += 1
    unfinished.replace(target)
    return written, dropped


def _rows(source: Source, paths: Sequence[Path]) -> Iterator[tuple[int, list[str]]]:
    parquet = _import("pyarrow.parquet")
    columns = [source.label, *source.parts]
    for path in paths:
        file = parquet.ParquetFile(path)
        missing = [column for column in columns if column not in file.schema_arrow.names]
        if missing:
            raise UserError(f"{source.repository} on the hub has no column '{missing[0]}', so it must have changed.")
        for batch in file.iter_batches(batch_size=10_000, columns=columns):
            values = batch.to_pydict()
            for label, *parts in zip(*(values[column] for column in columns), strict=True):
                yield int(label), [part or "" for part in parts]


def _import(name: str) -> ModuleType:
    """A module of the extra `hub`, which the rest of everlearn does without."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(
            f"downloading needs the package {error.name}: install it with `pip install 'everlearn[hub]'`."
        ) from error
