"""What OpenAPI says of the service, against what the service does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from prometheus_client.parser import text_string_to_metric_families

from everlearn.errors import UserError
from running_service import Client, service
from test_service import JSON, pairs, wait_for

TEACHING = json.dumps({"examples": [{"text": "the of", "label": "a"}]}).encode()
ASKING = b'{"texts": ["the of"]}'


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def declared(schema: dict[str, Any], method: str, path: str, answer: tuple[int, dict[str, str], Any]) -> int:
    """The status of an answer, which has to be declared with every header of its own."""
    status, headers, content = answer
    response = schema["paths"][path][method.lower()]["responses"][str(status)]
    special = {"retry-after", "www-authenticate"} & set(headers)
    assert special == {name.lower() for name in response.get("headers", {})}, (path, status)
    (kind,) = response["content"]
    assert headers["content-type"] == kind
    if kind == "application/json":
        name = response["content"][kind]["schema"]["$ref"].rpartition("/")[2]
        assert set(content) == set(schema["components"]["schemas"][name]["properties"]), (path, status)
    return status


def test_the_token_is_declared_where_it_is_needed(tmp_path: Path):
    with service(tmp_path / "model", token="secret") as (client, _):
        schema = client.get("/openapi.json")[1]
        client.token = None
        assert [(one["type"], one["scheme"]) for one in schema["components"]["securitySchemes"].values()] == [
            ("http", "bearer")
        ]
        (scheme,) = schema["components"]["securitySchemes"]
        for method, path, operation in operations(schema):
            needed = operation.get("security", []) == [{scheme: []}]
            assert needed == ("401" in operation["responses"]) == (path != "/health"), path
            answer = client.send(method, path.replace("{number}", "1"), b"{}", JSON)
            assert needed == (declared(schema, method, path, answer) == 401)


def test_without_a_token_none_is_declared(tmp_path: Path):
    with service(tmp_path / "model") as (client, _):
        schema = client.get("/openapi.json")[1]
        assert "securitySchemes" not in schema["components"]
        assert not [path for _, path, operation in operations(schema) if "security" in operation]
        for method, path, operation in operations(schema):
            assert "401" not in operation["responses"]
            elsewhere = client.send(method, path.replace("{number}", "1"), headers={"Host": "evil.example"})
            assert declared(schema, method, path, elsewhere) == 421


def test_every_answer_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with service(tmp_path / "model", most_waiting=20) as (client, learning):
        schema = client.get("/openapi.json")[1]

        def teach(body: bytes = TEACHING, **headers: str) -> int:
            return declared(schema, "POST", "/examples", client.send("POST", "/examples", body, {**JSON, **headers}))

        def ask(body: bytes = ASKING, **headers: str) -> int:
            found = client.send("POST", "/predictions", body, {**JSON, **headers})
            return declared(schema, "POST", "/predictions", found)

        def get(path: str, declared_as: str | None = None) -> int:
            return declared(schema, "GET", declared_as or path, client.send("GET", path))

        assert [ask(), ask(b"{"), ask(b"{}"), ask(**{"Content-Type": "text/plain"})] == [409, 400, 422, 415]
        assert [teach(b"{"), teach(b"{}"), teach(**{"Content-Encoding": "gzip"})] == [400, 422, 415]
        assert teach(json.dumps({"examples": [{"text": "a", "label": "b"}] * 21}).encode()) == 413
        assert teach() == 202
        client.wait_until_learned(1)
        assert ask() == 200
        assert [get(f"/examples/{number}", "/examples/{number}") for number in ("1", "2", "x")] == [200, 404, 422]
        assert [get(path) for path in ("/model", "/health", "/metrics")] == [200] * 3
        client.wait_until_learned(client.teach(*pairs(20))[-1])
        monkeypatch.setattr(learning, "wake", lambda: None)

        def broken(*_: object) -> None:
            raise UserError("the loss is no longer a finite number")

        monkeypatch.setattr(learning.classifier, "partial_fit", broken)
        teach()
        wait_for(lambda: learning.failure)
        assert [teach(), get("/health")] == [503, 503]


def test_the_metrics_are_what_prometheus_reads(tmp_path: Path):
    def metrics(client: Client) -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(client.get("/metrics")[1])
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    with service(tmp_path / "model") as (client, _):
        before = metrics(client)
        nothing = ("everlearn_arrivals_accuracy",), ("everlearn_forgotten",)
        assert all(before[name] != before[name] for name in nothing), "what is not measured yet is not zero"
        assert before["everlearn_memory_capacity",] == 10_000
        client.wait_until_learned(client.teach(*pairs(40))[-1])
        client.post("/predictions", {"texts": ["the of", "to in"]})
        client.get("/examples/1")
        client.get("/examples/2")
        client.get("/made/up")
        after = metrics(client)
        assert after["everlearn_requests_total", "/examples", "202", "POST"] == 1
        assert after["everlearn_requests_total", "/examples/{number}", "200", "GET"] >= 2
        assert after["everlearn_requests_total", "404", "GET", "other"] == 1
        assert after["everlearn_examples_learned",] == after["everlearn_examples_accepted_total",] == 40
        assert after["everlearn_predictions_total",] == 2
        assert 0 <= after["everlearn_arrivals_accuracy",] <= 1
        assert after["everlearn_learning_rate",] > 0
