"""The routes of the service."""

import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from everlearn import __version__
from everlearn.classifier.journal import JournalFullError
from everlearn.service import schemas
from everlearn.service.connection import while_connected
from everlearn.service.guard import Guard
from everlearn.service.learning import Learning
from everlearn.service.metrics import Metrics
from everlearn.service.predicting import BusyError, NothingLearnedError, Predicting

PAGE = Path(__file__).parent / "page"
LARGEST_ID = 2**63 - 1

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorResponse, "description": description}
    for status, description in {
        400: "The body is not JSON.",
        401: "A token is needed.",
        413: "The request is too large.",
        415: "The body is not declared as JSON.",
        421: "The request is for another host.",
        422: "Something in the request is missing, wrong, too long or unknown.",
        429: "Too much is waiting; Retry-After says when to come back.",
    }.items()
}


def create_app(learning: Learning, most_waiting: int, token: str | None = None, host: str = "127.0.0.1") -> FastAPI:
    """The service over a learning thread, which it starts and, at the end, lets finish.

    Without a token only requests to this machine's own names are answered; `host`, which it is served on, is one.
    """
    predicting = Predicting(lambda: learning.snapshot)
    metrics = Metrics(learning)
    kinds = _LabelKind(learning)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        learning.start()
        predicting.start()
        yield
        predicting.stop()
        learning.stop()
        await run_in_threadpool(learning.join)

    app = FastAPI(
        title="everlearn",
        version=__version__,
        description="A text classifier that keeps learning.",
        lifespan=lifespan,
        docs_url=None,  # these pages would be loaded from elsewhere
        redoc_url=None,
        responses=ERRORS,
    )
    app.add_middleware(Guard, token=token, host=host, count=metrics.count)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    _handle_errors(app)

    @app.post("/examples", status_code=202, responses={507: {"model": schemas.ErrorResponse}})
    async def learn(request: schemas.ExamplesRequest) -> schemas.ExamplesResponse:
        """Learn examples. When this answers, they are on the disk, and each will be learned exactly once."""
        if learning.failure:
            raise HTTPException(503, f"nothing more is learned ({learning.failure}): see the service's log.")
        if len(request.examples) > most_waiting:  # to come back later would not help
            raise HTTPException(413, f"no more than {most_waiting:,} examples may wait: send fewer at a time.")
        if learning.backlog + len(request.examples) > most_waiting:
            wait = math.ceil(min(60, max(1, learning.backlog / 2 / max(learning.rate, 1))))
            raise HTTPException(
                429, f"{learning.backlog:,} examples are waiting to be learned: try again.", {"Retry-After": str(wait)}
            )
        pairs = [(example.text, example.label) for example in request.examples]
        kinds.check([label for _, label in pairs])
        try:
            ids = await run_in_threadpool(learning.journal.append, pairs)
        except JournalFullError as error:
            raise HTTPException(
                507, f"nothing can be written down ({error}), so nothing was taken: make room on the disk."
            ) from error
        learning.wake()
        metrics.accepted.inc(len(ids))
        return schemas.ExamplesResponse(ids=ids, backlog=learning.backlog)

    @app.get("/examples/{number}", responses={404: {"model": schemas.ErrorResponse}})
    async def example(number: int) -> schemas.ExampleResponse:
        """Whether an example has been learned yet."""
        if not 1 <= number <= learning.journal.last:
            raise HTTPException(404, "there is no example of this number.")
        return schemas.ExampleResponse(id=number, learned=number <= learning.position)

    @app.post("/predictions", responses={409: {"model": schemas.ErrorResponse}})
    async def predict(request: schemas.PredictionsRequest, connection: Request) -> schemas.PredictionsResponse:
        """Predict the labels of texts, with what is known at this moment."""
        start = time.perf_counter()
        try:
            answers = await while_connected(connection, predicting.predict(request.texts))
        except BusyError as error:
            raise HTTPException(429, "too many texts are waiting: try again.", {"Retry-After": "1"}) from error
        except NothingLearnedError as error:
            raise HTTPException(409, "nothing has been learned yet: send some examples first.") from error
        metrics.seconds.observe(time.perf_counter() - start)
        metrics.predictions.inc(len(answers))
        return schemas.PredictionsResponse(predictions=[schemas.Prediction(**answer) for answer in answers])

    @app.get("/model")
    async def model() -> schemas.ModelResponse:
        """What the model knows and what it is doing."""
        return _describe(learning)

    @app.get("/health", responses={503: {"model": schemas.HealthResponse}})
    async def health(response: Response) -> schemas.HealthResponse:
        """Whether the service is well."""
        if learning.failure:
            response.status_code = 503
            return schemas.HealthResponse(status="failed", problem=learning.failure)
        if learning.save_failure:
            return schemas.HealthResponse(status="degraded", problem=learning.save_failure)
        return schemas.HealthResponse(status="ok")

    @app.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Numbers for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    return app


class _LabelKind:
    """Labels are all texts or all numbers; the first example that is taken decides, and the model's own before it."""

    def __init__(self, learning: Learning) -> None:
        waiting = learning.journal.read(learning.position, 1)
        self._kind = learning.classifier.label_kind or (type(waiting[0].label) if waiting else None)

    def check(self, labels: Sequence[str | int]) -> None:
        kinds = {type(label) for label in labels} | ({self._kind} if self._kind else set())
        if len(kinds) > 1:
            raise HTTPException(422, "labels have to be all texts or all whole numbers, as in the model.")
        (self._kind,) = kinds


def _describe(learning: Learning) -> schemas.ModelResponse:
    classifier, facts = learning.classifier, learning.facts
    return schemas.ModelResponse(
        method=classifier.method,
        encoder=classifier.encoder,
        examples=facts.examples,
        labels=[schemas.LabelCount(label=label, examples=count) for label, count in facts.counts.items()],
        memory_entries=facts.memory_entries,
        memory_capacity=classifier.memory_capacity,
        backlog=learning.backlog,
        learning=learning.busy,
        examples_per_second=learning.rate,
        accuracy=facts.accuracy,
        accuracy_curve=[schemas.Point(examples=examples, accuracy=share) for examples, share in facts.curve],
        recent=[schemas.RecentExample(**recent) for recent in facts.recent],
        retention=[schemas.Retained(**row) for row in facts.retention],
        created=classifier.created_,
        updated=facts.updated,
    )


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return JSONResponse({"error": "the body is not valid JSON."}, 400)
        # Where it is and what is wrong, but not what was sent: that may be of any size and need not even be text.
        place = ".".join(str(part) for part in first["loc"] if part != "body")[:200]
        place = place.encode("utf-8", "replace").decode()
        reason = first["msg"].removeprefix("Value error, ")
        return JSONResponse({"error": f"{place or 'the body'}: {reason}"}, 422)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        detail = "the body is not valid JSON." if "parsing the body" in str(error.detail) else str(error.detail)
        return JSONResponse({"error": detail}, error.status_code, headers=error.headers)
