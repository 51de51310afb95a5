"""What requests and responses look like, and the limits that requests keep to."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

LONGEST_TEXT = 20_000
LONGEST_LABEL = 200
LARGEST_NUMBER = 2**53 - 1
MOST_EXAMPLES = 1_000
MOST_TEXTS = 256
LARGEST_BODY = 8 * 1024 * 1024


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT, strict=True), AfterValidator(_not_blank)]
TextLabel = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_LABEL, strict=True), AfterValidator(_not_blank)
]
NumberLabel = Annotated[int, Field(strict=True, ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
AnyLabel = TextLabel | NumberLabel


class Request(BaseModel):
    """Unknown fields are mistakes, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LabelledText(Request):
    """An example to learn."""

    text: Text
    label: AnyLabel


class ExamplesRequest(Request):
    """Examples to learn, in this order."""

    examples: Annotated[list[LabelledText], Field(min_length=1, max_length=MOST_EXAMPLES)]


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

    texts: Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS)]


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
    """Whether the service is well; `problem` says what is wrong."""

    status: str
    problem: str | None = None


class ErrorResponse(BaseModel):
    """What was wrong with a request, and what to do."""

    error: str
