"""Commands for a classifier that keeps learning: learn, predict, score, inspect."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from everlearn.classifier import LifelongClassifier, storage
from everlearn.classifier.files import Reporting, labels_like, learn_rows, portions, unfinished_pass
from everlearn.classifier.inputs import MEANINGLESS, SECTIONS
from everlearn.cli.app import MODELS, app
from everlearn.cli.options import given, with_settings
from everlearn.errors import UserError, unknown
from everlearn.progress import Screen
from everlearn.streams.tables import STDIN, Row, Skipped, labelled_rows, lines, records

FORMATS = {"csv": ".csv", "tsv": ".tsv", "jsonl": ".jsonl"}

Model = Annotated[Path, typer.Argument(help="folder of the model")]
TextColumn = Annotated[str, typer.Option(help="Column that holds the text.")]
LabelColumn = Annotated[str, typer.Option(help="Column that holds the label.")]
Format = Annotated[str | None, typer.Option("--format", help="csv, tsv or jsonl; by default what the name says.")]
TextFormat = Annotated[str | None, typer.Option("--format", help="csv, tsv, jsonl or txt (one text a line).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


@dataclass(frozen=True)
class NewModel:
    """The settings that a new model can be given."""

    sections: tuple[type, ...] = SECTIONS
    left_out: tuple[str, ...] = tuple(MEANINGLESS)


NEW_MODEL = NewModel()
STOPPED = 75
"""The exit code of a command that was stopped early and goes on when it is given again (EX_TEMPFAIL)."""


def model_params(chosen: dict[str, Any]) -> dict[str, Any]:
    """Settings as the classifier takes them: its own parameters, and `settings` for the rest."""
    own = LifelongClassifier().get_params()
    params = {name: value for name, value in chosen.items() if name in own}
    rest = {name: value for name, value in chosen.items() if name not in own}
    return {**params, "settings": rest} if rest else params


@app.command(rich_help_panel=MODELS)
@with_settings(*NEW_MODEL.left_out, only=NEW_MODEL.sections, defaults=False)
def learn(
    model: Model,
    file: Annotated[Path, typer.Argument(help="CSV, TSV or JSONL file of labelled texts; - for what is piped in")],
    text_column: TextColumn = "text",
    label_column: LabelColumn = "label",
    form: Format = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice, for a new model.")] = None,
    **options: Any,
) -> None:
    """Make a model, or let it go on learning, from a file. Safe to interrupt: the same command goes on."""
    screen = Screen()
    chosen = {**given(None, options), **({} if seed is None else {"seed": seed})}
    with storage.locked(model), _stop_on_signal() as stopped:
        classifier = _opened(model, chosen, screen)
        skipped = Skipped(str(file))
        rows = labelled_rows(file, text_column, label_column, skipped=skipped, suffix=_suffix(file, form))
        again = file.is_file()  # a pipe can be read only once
        total = sum(1 for _ in _rows(file, text_column, label_column, form)) if again else None
        with screen.track("learn", total, 0) as tracker:
            reporting = Reporting(lambda count: tracker.advance(count, None), screen.say, lambda: bool(stopped))
            done = learn_rows(classifier, model, rows, reporting, again)
    screen.say_all(skipped.notes())
    if stopped:
        kept = f"stopped after {done.rows:,} rows and saved" if done.rows else "stopped before the first row"
        screen.say(f"{kept}: the same command goes on from there." if again else f"{kept}.")
        raise typer.Exit(STOPPED)
    if not done.rows:
        raise UserError(f"{file} has no row with a text and a label: check the columns and the file.")
    screen.say(f"{model}: {classifier.examples_:,} examples learned, {len(classifier.classes_):,} labels")


@app.command(rich_help_panel=MODELS)
def predict(
    model: Model,
    file: Annotated[Path, typer.Argument(help="CSV, TSV, JSONL or .txt file; - for one text a line, piped in")],
    text_column: TextColumn = "text",
    form: TextFormat = None,
) -> None:
    """Predict the label of each text: a line of JSON for each row, as they come, null where it is blank."""
    snapshot = LifelongClassifier.load(model).snapshot()
    for texts in portions(read_texts(file, text_column, form), 1 if file == STDIN else 64):
        written = [text for text in texts if text]
        answers = iter(snapshot.ranked(written, 1) if written else [])
        for text in texts:
            label, share = None, None
            if text:
                (best,) = next(answers)
                label, share = best.label, None if best.probability is None else round(best.probability, 4)
            print(json.dumps({"label": label, "probability": share, "text": text}, ensure_ascii=False), flush=True)


@app.command(rich_help_panel=MODELS)
def score(
    model: Model,
    file: Annotated[Path, typer.Argument(help="CSV, TSV or JSONL file of labelled texts; - for what is piped in")],
    text_column: TextColumn = "text",
    label_column: LabelColumn = "label",
    form: Format = None,
    as_json: Json = False,
) -> None:
    """Measure how many texts of a file a model predicts right, by label."""
    classifier = LifelongClassifier.load(model)
    rows = list(_rows(file, text_column, label_column, form))
    if not rows:
        raise UserError(f"{file} has no row with a text and a label: check the columns and the file.")
    labels = labels_like(classifier, [row.label for row in rows])
    predicted = classifier.snapshot().predict([row.text for row in rows])
    hits: dict[Any, list[bool]] = {}
    for label, chosen in zip(labels, predicted, strict=True):
        hits.setdefault(label, []).append(label == chosen)
    shares = {label: sum(own) / len(own) for label, own in sorted(hits.items())}
    accuracy = sum(map(sum, hits.values())) / len(rows)
    if as_json:
        print(json.dumps({"accuracy": accuracy, "examples": len(rows), "labels": shares}, indent=2))
        return
    table = Table("label", "examples", "right", box=None, pad_edge=False)
    for label, share in shares.items():
        table.add_row(escape(str(label)), f"{len(hits[label]):,}", f"{share:.1%}")
    Console().print(table)
    Console().print(f"accuracy {accuracy:.1%} over {len(rows):,} examples")


@app.command("inspect", rich_help_panel=MODELS)
def inspect_model(model: Model, as_json: Json = False) -> None:
    """Show what a model knows: labels, counts, memory, age and size."""
    classifier = LifelongClassifier.load(model)
    memory = classifier.learner_.memory
    size = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
    facts = {
        "method": classifier.method,
        "encoder": classifier.encoder + (", frozen" if classifier.freeze_encoder else ", trained along"),
        "examples": classifier.examples_,
        "memory": {"entries": len(memory), "capacity": classifier.memory_capacity, "policy": classifier.memory},
        "forgotten": classifier.forgotten_,
        "unfinished_rows": unfinished_pass(classifier).rows,
        "created": classifier.created_,
        "updated": classifier.updated_,
        "bytes": size,
        "labels": classifier.counts_,
    }
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    bound = "no bound" if classifier.memory_capacity is None else f"at most {classifier.memory_capacity:,}"
    for name, value in (
        ("method", facts["method"]),
        ("encoder", facts["encoder"]),
        ("examples learned", f"{classifier.examples_:,}"),
        ("in memory", f"{len(memory):,} ({classifier.memory}, {bound})"),
        ("created", classifier.created_),
        ("last learned", classifier.updated_),
        ("size on disk", f"{size / 1e6:,.1f} MB"),
        ("labels", f"{len(classifier.classes_):,}"),
    ):
        table.add_row(f"[bold]{name}[/bold]", escape(str(value)))
    for label, count in classifier.counts_.items():
        table.add_row("", escape(f"{label}: {count:,}"))
    Console().print(table)


def _opened(model: Path, chosen: dict[str, Any], screen: Screen) -> LifelongClassifier:
    """The model, made where there is none; settings are for new models only."""
    if not storage.is_model(model):
        return LifelongClassifier(**model_params(chosen)).begin()
    classifier = LifelongClassifier.load(model)
    current = {**classifier.learner_.config.flat()}
    for name, value in chosen.items():
        if current[name] != value:
            raise UserError(f"{model} was made with {name} {current[name]}: leave the option out, or make a new model.")
    screen.say(f"going on with {model}: {classifier.examples_:,} examples learned so far")
    if rows := unfinished_pass(classifier).rows:
        screen.say(f"{rows:,} rows of an interrupted pass are skipped where the file begins with them")
    return classifier


def _suffix(file: Path, form: str | None) -> str | None:
    if form is None and file == STDIN:
        return FORMATS["jsonl"]
    if form is not None and form not in FORMATS:
        raise unknown("format", form, FORMATS)
    return FORMATS[form] if form else None


def _rows(file: Path, text: str, label: str, form: str | None) -> Iterator[Row]:
    return labelled_rows(file, text, label, skipped=Skipped(str(file)), suffix=_suffix(file, form))


def read_texts(file: Path, column: str, form: str | None) -> Iterator[str]:
    """The texts of a file as they come; empty where a row has none."""
    if form == "txt" or (form is None and (file == STDIN or file.suffix == ".txt")):
        return (line.strip() for line in lines(file))
    return (values[0] for _, values in records(file, [column], _suffix(file, form)))


@contextmanager
def _stop_on_signal() -> Iterator[list[int]]:
    """A list that fills when the user or the system asks to stop; what is under way is finished and saved first."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
