"""The routes of the service."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from everlearn import __version__
from everlearn.service import interface, schemas
from everlearn.service.connection import while_connected
from everlearn.service.guard import Guard
from everlearn.service.learning import Learning
from everlearn.service.metrics import Metrics
from everlearn.service.predicting import BusyError, NothingLearnedError, Predicting
from everlearn.service.refusing import handle_errors
from everlearn.service.strict_json import StrictRoute
from everlearn.service.taking import Taking

PAGE = Path(__file__).parent / "page"
PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/page/style.css": ("style.css", "text/css"),
    "/page/app.js": ("app.js", "text/javascript"),
    "/page/drawing.js": ("drawing.js", "text/javascript"),
    "/page/service.js": ("service.js", "text/javascript"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
}


def create_app(learning: Learning, most_waiting: int, token: str | None = None, host: str = "127.0.0.1") -> FastAPI:
    """The service over a learning thread, which it starts and, at the end, lets finish.

    Without a token only requests to this machine's own names are answered; `host`, which it is served on, is one.
    """
    predicting = Predicting(lambda: learning.snapshot)
    taking = Taking(learning, most_waiting)
    metrics = Metrics(learning)

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
        redirect_slashes=False,  # to an address that is made of the request's own
    )
    app.router.route_class = StrictRoute
    app.add_middleware(Guard, token=token, host=host, open_paths={*PAGE_FILES, "/health"}, count=metrics.count)
    handle_errors(app)
    _serve_page(app)
    elsewhere = interface.only_here(token)
    secured: dict[str, Any] = {"dependencies": interface.security(token)}

    @app.post("/examples", status_code=202, responses=interface.WRITING | elsewhere, **secured)
    async def learn(request: schemas.ExamplesRequest) -> schemas.ExamplesResponse:
        """Learn examples. When this answers, they are on the disk, and each will be learned exactly once."""
        ids = await taking.take([(example.text, example.label) for example in request.examples])
        metrics.accepted.inc(len(ids))
        return schemas.ExamplesResponse(ids=ids, backlog=learning.backlog)

    @app.get("/examples/{number}", responses=interface.LOOKING_UP | elsewhere, **secured)
    async def example(number: int) -> schemas.ExampleResponse:
        """Whether an example has been learned yet."""
        if not 1 <= number <= learning.journal.last:
            raise HTTPException(404, "there is no example of this number.")
        return schemas.ExampleResponse(id=number, learned=number <= learning.position)

    @app.post("/predictions", responses=interface.ASKING | elsewhere, **secured)
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

    @app.get("/model", responses=interface.ANYWHERE | elsewhere, **secured)
    async def model() -> schemas.ModelResponse:
        """What the model knows and what it is doing."""
        return _describe(learning)

    open_to_all = {status: said for status, said in elsewhere.items() if status != 401}

    @app.get("/health", responses=interface.ANYWHERE | interface.UNWELL | open_to_all)
    async def health(request: Request, response: Response) -> schemas.HealthResponse:
        """Whether the service is well. What is wrong is said only to those who may see the rest."""
        problem = learning.failure or learning.save_failure
        if learning.failure:
            response.status_code = 503
        return schemas.HealthResponse(
            status="failed" if learning.failure else "degraded" if problem else "ok",
            problem=problem if request.state.trusted else None,
        )

    @app.get(
        "/metrics", response_class=Response, responses=interface.METRICS | interface.ANYWHERE | elsewhere, **secured
    )
    async def prometheus() -> Response:
        """Numbers for Prometheus."""
        return Response(metrics.text(), media_type=interface.PROMETHEUS)

    return app


def _serve_page(app: FastAPI) -> None:
    """The page's files, read once: no part of a request is ever a path."""

    def sending(content: bytes, kind: str) -> Callable[[], Response]:
        return lambda: Response(content, media_type=kind)

    for path, (name, kind) in PAGE_FILES.items():
        app.add_api_route(path, sending((PAGE / name).read_bytes(), kind), include_in_schema=False)


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
