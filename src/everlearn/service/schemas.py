"""What requests and responses look like, and the limits that requests keep to."""

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, FailFast, Field, StringConstraints, Tag

from everlearn.classifier.inputs import LARGEST_NUMBER, holds_control_character

LONGEST_TEXT = 20_000
LONGEST_LABEL = 200
MOST_EXAMPLES = 1_000
MOST_TEXTS = 256
LARGEST_BODY = 8 * 1024 * 1024

UNSEEN = ("Cc", "Cf", "Zl", "Zp", "Zs")
"""Kinds of characters that show nothing: control, format and space."""
TEXT_LABEL, NUMBER_LABEL = "text", "number"


def _visible(value: str) -> str:
    if all(unicodedata.category(character) in UNSEEN for character in value):
        raise ValueError("is empty")
    return value


def _one_line(value: str) -> str:
    if holds_control_character(value):
        raise ValueError("holds a control character, such as a line break")
    return value


def _kind(label: Any) -> str | None:
    if isinstance(label, str):
        return TEXT_LABEL
    return NUMBER_LABEL if isinstance(label, int) and not isinstance(label, bool) else None


Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_visible)]
TextLabel = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_LABEL), AfterValidator(_visible), AfterValidator(_one_line)
]
NumberLabel = Annotated[int, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
AnyLabel = Annotated[
    Annotated[TextLabel, Tag(TEXT_LABEL)] | Annotated[NumberLabel, Tag(NUMBER_LABEL)],
    Discriminator(_kind, custom_error_type="label_type", custom_error_message="has to be a text or a whole number"),
]


class Request(BaseModel):
    """Unknown fields are mistakes, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LabelledText(Request):
    """An example to learn."""

    text: Text
    label: AnyLabel


class ExamplesRequest(Request):
    """Examples to learn, in this order."""

    examples: Annotated[list[LabelledText], Field(min_length=1, max_length=MOST_EXAMPLES), FailFast()]


class ExamplesResponse(BaseModel):
    """The examples are on the disk and will be learned."""

    ids: list[int]
    backlog: int


class ExampleResponse(BaseModel):
    """Whether an example has been learned."""

    id: int
    learned: bool


class PredictionsRequest(Request):
    """Texts to predict the labels of."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS), FailFast()]


class Ranked(BaseModel):
    """A label and how likely it is, not calibrated; null where the method gives labels only."""

    label: str | int
    probability: float | None


class Prediction(Ranked):
    """The label chosen, and the next best ones."""

    ranking: list[Ranked]


class PredictionsResponse(BaseModel):
    """A prediction for each text, in order."""

    predictions: list[Prediction]


class Point(BaseModel):
    """Accuracy on what arrived before so many examples had been learned."""

    examples: int
    accuracy: float


class RecentExample(BaseModel):
    """An example that was just learned, and what was predicted for it before."""

    id: int
    text: str
    label: str | int
    predicted: str | int | None


class Retained(BaseModel):
    """How well examples in the memory are still known."""

    label: str | int
    now: float
    best: float


class LabelCount(BaseModel):
    """A label and how many of its examples have been learned."""

    label: str | int
    examples: int


class ModelResponse(BaseModel):
    """What the model knows and what it is doing."""

    method: str
    encoder: str
    examples: int
    labels: list[LabelCount]
    memory_entries: int
    memory_capacity: int | None
    backlog: int
    learning: bool
    examples_per_second: float
    accuracy: float | None
    accuracy_curve: list[Point]
    recent: list[RecentExample]
    retention: list[Retained]
    created: str
    updated: str


class HealthResponse(BaseModel):
    """Whether the service is well; `problem` says what is wrong, where the token was given or none is needed."""

    status: Literal["ok", "degraded", "failed"]
    problem: str | None = None


class ErrorResponse(BaseModel):
    """What was wrong with a request, and what to do."""

    error: str
