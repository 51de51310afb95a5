"""LifelongClassifier: learns labelled texts as they come, in any portions, with new labels at any time."""

import uuid
from collections import Counter, deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from everlearn.batches import Batch, Floats, Integers
from everlearn.classifier import hub, storage
from everlearn.classifier.estimator import Estimator
from everlearn.classifier.forgetting import Forgetting, HeldOut
from everlearn.classifier.inputs import BadInputError, announced_labels, as_labels, as_texts, checked_params
from everlearn.classifier.labels import Label, Labels
from everlearn.classifier.learner import Learner
from everlearn.classifier.snapshot import Snapshot
from everlearn.config import Config
from everlearn.defaults import CLASSIFIER_METHOD, classifier_defaults
from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.methods import ScoringPredictor, find_method
from everlearn.methods.base import Chosen

MOST_MARKS = 1_000
"""A service saves again and again, and what it keeps must not grow without bound."""


class LifelongClassifier(Estimator):
    """A text classifier that keeps learning.

    Parameters
    ----------
    method: how it learns; any lifelong method by name (`everlearn list methods`).
    encoder: what turns texts into vectors; any Hugging Face encoder by name or folder.
    freeze_encoder: leave the encoder as it is and learn only what stands on it: much faster, and better while data is
        scarce.
    memory, memory_capacity: which examples are kept, to replay and to forget on request, and at most how many.
    max_length: longest text in tokens; longer ones are cut.
    seed, device: seed of every random choice; where to compute (auto, cpu, cuda).
    settings: any other setting of method, memory or encoder by name, such as `{"batch_size": 4, "head_lr": 1e-3}`.

    One thread at a time learns; others wait their turn, and predictions go on with what was known before.
    """

    learner_: Learner
    created_: str
    updated_: str
    examples_: int
    """How many examples have been learned in all, those that were forgotten too."""
    forgotten_: int
    """How many examples have been removed by `forget` and `forget_texts`."""
    places_: dict[str, Any]
    """How far those who feed it have come, such as a service in its journal: saved with it, for them to go on."""
    lineage_: str
    """What it has in common with everything it was before, in any folder, and with its copies."""
    marks_: deque[str]
    """What its latest saves were called that it knows of; another's are not among them."""
    erasure_: str
    """Stands for the last time something was forgotten; what was written before it has to go."""
    _labels: Labels
    _counts: Counter[Label]
    _held_out: HeldOut
    _snapshot: Snapshot | None
    _outdated: bool
    """Whether something was learned since the snapshot."""

    def __init__(
        self,
        method: str = CLASSIFIER_METHOD,
        encoder: str = "minilm",
        freeze_encoder: bool = True,
        memory: str = "reservoir",
        memory_capacity: int | None = 10_000,
        max_length: int = 256,
        seed: int = 42,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.encoder = encoder
        self.freeze_encoder = freeze_encoder
        self.memory = memory
        self.memory_capacity = memory_capacity
        self.max_length = max_length
        self.seed = seed
        self.device = device
        self.settings = settings
        super().__init__()

    # Learning

    def fit(self, texts: Any, labels: Any) -> Self:
        """Start over and learn these examples, in one pass."""
        with self._turn:
            checked, names = self._examples(texts, labels, None)
            self._build()
            return self._learn(checked, names)

    def begin(self) -> Self:
        """Be ready to learn, with nothing learned yet: a model that can be saved and served."""
        self._build()
        return self

    def partial_fit(self, texts: Any, labels: Any, classes: Any = None) -> Self:
        """Learn more examples, in the order given. Labels that were never seen before are welcome.

        Whoever wants a column for labels that are still to come, as scikit-learn's own classifiers have it, names all
        of them as `classes`; others are then refused.
        """
        with self._turn:
            checked, names = self._examples(texts, labels, self.label_kind)
            announced = None if classes is None else announced_labels(classes, names, self.label_kind)
            if not self._is_fitted():
                self._build()
            for label in announced or ():
                self._labels.number(label)
            return self._learn(checked, names)

    def _examples(self, texts: Any, labels: Any, kind: type | None) -> tuple[list[str], list[Label]]:
        checked = as_texts(texts)
        return checked, as_labels(labels, len(checked), kind)

    def _learn(self, texts: list[str], labels: list[Label]) -> Self:
        examples = [Example(text, self._labels.number(label)) for text, label in zip(texts, labels, strict=True)]
        self._outdated = True

        def learned(first: int, stop: int) -> None:
            self._counts.update(labels[first:stop])
            self.examples_ += stop - first

        self.learner_.learn(examples, learned)
        self.updated_ = _now()
        return self

    # Predicting

    def predict(self, texts: Any) -> NDArray[Any]:
        """The label chosen for each text."""
        snapshot = self.snapshot()
        return np.array(snapshot.predict(as_texts(texts)), dtype=np.array(snapshot.classes).dtype)

    def predict_proba(self, texts: Any) -> Floats:
        """A row a text and a column for each of `classes_`; rows add up to one. They are not calibrated."""
        return self.snapshot().probabilities(as_texts(texts))

    def snapshot(self) -> Snapshot:
        """What is known now, for predicting elsewhere while learning goes on here.

        While another thread is at work, this is what was known when somebody last asked.
        """
        last = self._snapshot if self._is_fitted() else None
        if not self._turn.acquire(blocking=last is None):
            assert last is not None
            return last
        try:
            self._check_fitted()
            if not self._labels.known:
                raise NotFittedError("no label is known: learn some examples first.")
            if self._snapshot is None or self._outdated:
                predictor, learner = self.learner_.predictor(), self.learner_
                names = {self._labels.number(name): name for name in self._labels.known}
                counts = {name: self._counts[name] for name in names.values()}
                self._snapshot = Snapshot(predictor, learner.problem, learner.encoder.tokenizer, names, counts)
                self._outdated = False
            return self._snapshot
        finally:
            self._turn.release()

    @property
    def classes_(self) -> NDArray[Any]:
        """Every label learned so far, sorted."""
        self._check_fitted()
        return np.array(self._labels.known)

    @property
    def label_kind(self) -> type | None:
        """Whether labels are strings or whole numbers; None while there are none."""
        return self._labels.kind if self._is_fitted() else None

    @property
    def counts_(self) -> dict[Label, int]:
        """How many examples of each label have been learned."""
        self._check_fitted()
        return {label: self._counts[label] for label in self._labels.known}

    @property
    def held_out_(self) -> int:
        """How many examples are held out to measure with."""
        self._check_fitted()
        return len(self._held_out)

    # Remembering and forgetting

    def hold_out(self, texts: Any, labels: Any) -> Self:
        """Keep examples, never to be learned, to measure `forgetting` with; measures how well they are known now."""
        with self._turn:
            self._check_fitted()
            checked, names = self._examples(texts, labels, self._labels.kind)
            self._held_out.add(self.snapshot().tokenise(checked), names)
            self.forgetting()
            return self

    def forgetting(self) -> Forgetting:
        """How well the labels of the held-out examples are known now, against the best measured so far."""
        with self._turn:
            self._check_fitted()
            if not len(self._held_out):
                raise UserError("nothing has been held out to measure with: give some examples to hold_out first.")
            return self._held_out.measure(self.snapshot())

    def forget(self, label: Label) -> int:
        """Remove a label and all of its examples from the memory; how many examples that were.

        It is never predicted again, unless it is learned anew. Methods that can take back what they learned from the
        examples in the memory do so. Elsewhere weights that were trained on them may still carry traces: where these
        must go too, train a new model without the examples.
        """
        with self._turn:
            self._check_fitted()
            (label,) = as_labels([label], 1, self.label_kind)
            if label not in self._labels:
                raise BadInputError(f"there is no label {label!r} to forget.")
            if not isinstance(self.snapshot().predictor, ScoringPredictor):
                raise UserError(
                    f"{self.params_['method']} cannot leave a label out of its predictions: remove its texts with "
                    "forget_texts, or choose another method."
                )
            number = self._labels.number(label)
            removed = self._discard(lambda batch: np.flatnonzero(batch.labels == number))
            removed += self._held_out.discard(self._held_out.rows_of(label))
            if number in self.learner_.problem.labels:  # not while all of its examples were still waiting
                self.learner_.method.forget(number)
            self._labels.forget(label)
            del self._counts[label]
            self.places_.pop(storage.WATCHED, None)  # it names labels
            return self._forgotten(removed)

    def forget_texts(self, texts: Any) -> int:
        """Remove these texts from the memory, wherever they wait and where they are held out; how many were found.

        Texts are found by their tokens, so letters that the encoder does not tell apart and what lies behind
        `max_length` make no difference. Weights may still carry traces, see `forget`.
        """
        with self._turn:
            self._check_fitted()
            tokens = self.learner_.encoder.tokenizer(as_texts(texts))
            wanted = {tokens[row].tobytes() for row in range(len(tokens))}

            def chosen(batch: Batch) -> Integers:
                own = batch.tokens
                return np.array([row for row in range(len(own)) if own[row].tobytes() in wanted], dtype=np.int64)

            removed = self._discard(chosen)
            removed += self._held_out.discard(chosen(self._held_out.batch).tolist())
            return self._forgotten(removed)

    def _discard(self, chosen: Chosen) -> int:
        """Let go of examples that were learned or wait to be, and count them no longer."""
        gone = self.learner_.discard(chosen)
        for number in gone.tolist():
            name = self._labels.name(number)
            if name is not None:
                self._counts[name] -= 1
        return len(gone)

    def _forgotten(self, removed: int) -> int:
        self.forgotten_ += removed
        # Even where nothing was found: an older checkpoint may hold what the memory has lost since.
        self.erasure_ = uuid.uuid4().hex
        self._snapshot = None
        return removed

    # Keeping

    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder: safetensors, JSON, the memory and a model card. Never leaves half a model.

        A model that is there is replaced, unless it has learned more since this one was loaded from it.
        """
        with self._turn:
            self._check_fitted()
            with storage.locked(Path(folder)):
                return storage.keep(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "LifelongClassifier":
        """The model in a folder that `save` wrote; it goes on learning as if it had never stopped."""
        saved = storage.load(Path(folder))
        classifier = cls(**saved["params"])
        classifier._build()
        classifier.restore(saved["classifier"])
        classifier.places_ = saved["places"]
        classifier.marks_.append(saved["mark"])
        classifier.lineage_, classifier.erasure_ = saved["lineage"], saved["erasure"]
        return classifier

    def push_to_hub(self, name: str, private: bool = True) -> str:
        """Put the model on the Hugging Face hub, with its memory, as `owner/name`; its address."""
        with self._turn:
            self._check_fitted()
            return hub.push(self, name, private)

    def state(self) -> dict[str, Any]:
        """Everything that changes while it learns, as nested dicts of plain values, arrays and tensors."""
        return {
            "labels": self._labels.state(),
            "counts": list(self._counts.items()),
            "examples": self.examples_,
            "forgotten": self.forgotten_,
            "held_out": self._held_out.state(),
            "learner": self.learner_.state(),
            "times": [self.created_, self.updated_],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a saved classifier stood."""
        self._labels.restore(state["labels"])
        self._counts = Counter(dict(state["counts"]))
        self.examples_, self.forgotten_ = state["examples"], state["forgotten"]
        self._held_out.restore(state["held_out"])
        self.learner_.restore(state["learner"])
        self.created_, self.updated_ = state["times"]
        self._snapshot = None

    def _build(self) -> None:
        params = checked_params(self.get_params(deep=False))
        settings = params["settings"] or {}
        kind = find_method(self.method)
        if not kind.lifelong:
            raise BadInputError(f"{self.method} needs all data at once: choose a lifelong method.")
        if kind.freezes_encoder and not self.freeze_encoder:
            raise BadInputError(
                f"{self.method} leaves the encoder as it is: to train it along, choose another method, such as replay."
            )
        given = {name: value for name, value in params.items() if name != "settings"}
        defaults = classifier_defaults(self.method, self.freeze_encoder)
        labels = Labels()
        self.learner_ = Learner(Config.build({**defaults, **given, **settings}), labels.spoken)
        self.params_, self._labels = params, labels
        self._counts = Counter()
        self._held_out = HeldOut(self.learner_.tokenise([]))
        self._snapshot, self._outdated = None, True
        self.examples_ = self.forgotten_ = 0
        self.lineage_, self.erasure_ = uuid.uuid4().hex, ""
        self.places_, self.marks_ = {}, deque(maxlen=MOST_MARKS)
        self.created_ = self.updated_ = _now()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
