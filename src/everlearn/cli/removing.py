"""The command that makes a model forget."""

from pathlib import Path
from typing import Annotated

import typer

from everlearn.classifier import LifelongClassifier, storage
from everlearn.classifier.files import labels_like
from everlearn.classifier.journal import JOURNAL, Journal
from everlearn.cli.app import MODELS, app
from everlearn.cli.models import Model, TextColumn, TextFormat, read_texts
from everlearn.errors import UserError
from everlearn.methods import find_method
from everlearn.progress import Screen
from everlearn.service.learning import Learning


@app.command(rich_help_panel=MODELS)
def forget(
    model: Model,
    file: Annotated[
        Path | None,
        typer.Argument(help="texts to forget: CSV, TSV, JSONL or .txt file; - for one text a line, piped in"),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Label to forget with all of its examples; may be repeated.")
    ] = None,
    text_column: TextColumn = "text",
    form: TextFormat = None,
) -> None:
    """Remove labels or texts from a model and from everything in its folder."""
    if not label and file is None:
        raise UserError("say what is to be forgotten: --label LABEL, or a file of texts.")
    texts = [text for text in read_texts(file, text_column, form) if text] if file else []
    screen = Screen()
    with storage.locked(model):
        classifier = LifelongClassifier.load(model)
        if (model / JOURNAL).is_file():
            _learn_what_waits(classifier, model)
        removed = sum(classifier.forget(own) for own in labels_like(classifier, label or []))
        removed += classifier.forget_texts(texts) if texts else 0
        storage.keep(classifier, model)
    screen.say(f"{model}: {removed:,} examples removed, {len(classifier.classes_):,} labels left")
    if not find_method(classifier.method).takes_back:
        screen.say(
            f"{classifier.method} cannot take back what it learned from them, its weights may still carry traces: "
            "where that is not acceptable, train a new model without them"
        )


def _learn_what_waits(classifier: LifelongClassifier, model: Path) -> None:
    """What was sent to the service and not learned yet may be among what is to be forgotten."""
    journal = Journal(model / JOURNAL)
    try:
        learning = Learning(model, classifier, journal)
        learning.stop()
        learning.run()
        if problem := learning.failure or learning.save_failure:
            raise UserError(f"what waits in {model} could not be learned, so nothing was forgotten: {problem}.")
    finally:
        journal.close()
