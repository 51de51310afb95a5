"""Requests that nobody would send: whatever comes, no 5xx and no traceback."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from running_service import Client, service

REQUESTS = int(os.environ.get("EVERLEARN_FUZZ_REQUESTS", "400"))

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
# Close to what is meant: the right fields with anything in them, and sometimes more fields.
nearly_example = st.fixed_dictionaries({"text": st.text() | anything, "label": st.text() | st.integers() | anything})
nearly = st.one_of(
    st.fixed_dictionaries({"examples": st.lists(nearly_example | anything, max_size=5) | anything}),
    st.fixed_dictionaries({"texts": st.lists(st.text() | anything, max_size=5) | anything}),
    st.dictionaries(st.sampled_from(["texts", "examples", "text", "label", "token"]), anything),
    anything,
)
bodies = nearly.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=200)
broken = st.tuples(bodies, st.integers(0, 200)).map(lambda pair: pair[0][: pair[1]])
paths = st.sampled_from(["/examples", "/predictions", "/model", "/health", "/metrics", "/", "/page/app.js"]) | st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=30
).map(lambda text: "/" + text)
kinds = st.sampled_from(["application/json", "application/json; charset=utf-8", "text/plain", "", "application/json;x"])
methods = st.sampled_from(["POST"] * 6 + ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with service(tmp_path_factory.mktemp("fuzz") / "model") as (client, _):
        client.teach(("the of", "a"), ("it for", "b"))
        yield client


@settings(
    max_examples=REQUESTS, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(method=methods, path=paths, body=bodies | broken, kind=kinds)
def test_whatever_is_sent_is_answered(client: Client, method: str, path: str, body: bytes, kind: str):
    status, _, answer = client.send(method, path, body, {"Content-Type": kind})
    assert status < 500, answer
    if status >= 400 and method != "HEAD":
        assert isinstance(answer, dict)
        assert set(answer) == {"error"}
        assert "Traceback" not in answer["error"]


def test_it_is_well_afterwards(client: Client):
    assert client.get("/health") == (200, {"status": "ok", "problem": None})
    number = client.teach(("the of", "a"))[0]
    client.wait_until_learned(number)
    status, answer = client.post("/predictions", {"texts": ["the of"]})
    assert status == 200
    valid: list[Any] = answer["predictions"]
    assert len(valid) == 1
