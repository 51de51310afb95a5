"""Requests that nobody would send: whatever comes, no 5xx and no traceback."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from hypothesis import HealthCheck, given, settings

from running_service import Client, service
from strange_requests import StrangeRequest, strange_requests

REQUESTS = 400


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with service(tmp_path_factory.mktemp("fuzz") / "model") as (client, _):
        client.teach(("the of", "a"), ("it for", "b"))
        yield client


@settings(
    max_examples=REQUESTS, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(request=strange_requests)
def test_whatever_is_sent_is_answered(client: Client, request: StrangeRequest):
    status, _, answer = client.send(request.method, request.path, request.body, {"Content-Type": request.kind})
    assert status < 500, answer
    if status >= 400 and request.method != "HEAD":
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
