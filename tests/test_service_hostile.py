"""Requests that mean harm, or come from a broken client: refused with a sentence, and at nobody's cost."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from everlearn.classifier.journal import JournalFullError
from everlearn.service import bodies
from running_service import Client, service
from test_service import JSON, wait_for

BODY = b'{"texts": ["a"]}'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service that knows nothing: what is well asked is answered with 409."""
    with service(tmp_path_factory.mktemp("hostile") / "model") as (client, _):
        yield client


def raw(client: Client, *lines: str, body: bytes = b"") -> tuple[int, str]:
    """Send a request as it is; the status, and all that came."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return int(answer.split()[1]), answer


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset*=utf-8''utf-8; charset*0*=utf-8''a",
        f"application/json; charset*{'9' * 4400}=x",
        "application/json; a*0=x; a*=y",
    ],
)
def test_content_types_that_break_parsers(client: Client, kind: str):
    assert client.send("POST", "/predictions", BODY, {"Content-Type": kind})[0] == 415


@pytest.mark.parametrize("name", ["Content-Type", "Authorization"])
def test_headers_that_must_be_there_once(client: Client, name: str):
    value = {"Content-Type": "application/json", "Authorization": "Bearer a"}[name]
    lines = ("POST /predictions HTTP/1.1", "Host: localhost", f"Content-Length: {len(BODY)}")
    status, answer = raw(client, *lines, f"{name}: {value}", f"{name}: {value}", body=BODY)
    assert status == 400
    assert f"the header {name.lower()} was sent more than once" in answer


def test_bodies_in_pieces_and_requests_in_a_row(client: Client):
    head = ("POST /predictions HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    assert raw(client, *head, "Transfer-Encoding: chunked", body=pieces)[0] == 409
    assert raw(client, *head, "Transfer-Encoding: chunked", body=b"zz\r\n")[0] == 400
    first = "\r\n".join([*head, f"Content-Length: {len(BODY)}", "", BODY.decode()]) + "GET /examples/9 HTTP/1.1"
    assert raw(client, first, "Host: localhost")[1].count("HTTP/1.1 40") == 2


def test_compressed_bodies_are_refused(client: Client):
    status, _, answer = client.send("POST", "/predictions", BODY, {**JSON, "Content-Encoding": "gzip"})
    assert (status, answer["error"]) == (415, "the body must not be compressed.")


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/examples", b'{"examples": [{"text": "a", "label": "x", "label": "y"}]}', 400, "names a field twice"),
        ("/examples", b'{"examples": [{"text": "a", "label": NaN}]}', 400, "not valid JSON"),
        ("/predictions", '{"texts": ["a"]}'.encode("utf-16"), 400, "JSON in UTF-8"),
        ("/predictions", b'{"texts": ["\xed\xa0\x80"]}', 400, "JSON in UTF-8"),
        ("/predictions", b"\xef\xbb\xbf" + BODY, 409, "nothing has been learned"),
        ("/predictions", b'{"texts": ["\\u0000\\u200b"]}', 422, "texts.0: is empty."),
        ("/predictions", b'{"texts": [' + b"[]," * 999 + b"1]}", 422, "texts.0: has to be a text."),
        ("/examples", b'{"examples": [1]}', 422, "examples.0: has to be an object."),
        ("/examples", b'{"examples": [{"text": "a"}]}', 422, "examples.0.label: is missing."),
        ("/examples", b'{"examples": [{"text": "a", "label": "b", "c": 1}]}', 422, "examples.0.c: is not known here."),
        ("/examples", b'{"examples": [{"text": "a", "label": "\\u200b"}]}', 422, "examples.0.label: is empty."),
        (
            "/examples",
            b'{"examples": [{"text": "a", "label": "x\\u001b[2J"}]}',
            422,
            "label: holds a control character",
        ),
        ("/examples", b'{"examples": [{"text": "a", "label": "\\ud800"}]}', 422, "label: holds half a character"),
        (
            "/examples",
            b'{"examples": [{"text": "a", "label": {"a": 1}}]}',
            422,
            "examples.0.label: has to be a text or a whole number.",
        ),
        (
            "/examples",
            b'{"examples": [{"text": "a", "label": 9007199254740992}]}',
            422,
            "examples.0.label: has to be at most 9007199254740991.",
        ),
        (
            "/examples",
            json.dumps({"examples": [{"text": "a", "label": "b" * 201}]}).encode(),
            422,
            "examples.0.label: has more than 200 characters.",
        ),
    ],
)
def test_bodies_with_two_readings_or_none(client: Client, path: str, body: bytes, status: int, message: str):
    found, _, answer = client.send("POST", path, body, JSON)
    assert (found, message in answer["error"]) == (status, True), answer


def test_paths_and_methods(client: Client):
    for path in ("/model/", "/page", "/page/", "//evil.example/model/", "/page/%00", "/page/..%2fapp.py", "/%ff"):
        status, headers, answer = client.send("GET", path)
        assert (status, answer) == (404, {"error": "there is nothing at this path."})
        assert "location" not in headers
    assert client.send("PUT", "/model", b"{}", JSON)[2] == {"error": "PUT is not possible here: use GET."}
    for path in ("/", "/health", "/model", "/page/app.js"):
        status, headers, content = client.send("HEAD", path)
        assert (status, content) == (200, "")
        assert int(headers["content-length"]) > 0
    odd = client.send("GET", "/page/app.js", headers={"Range": "bytes=b-a", "If-Modified-Since": "rubbish"})
    assert odd[0] == 200
    assert client.send("GET", "/?content=taken&kind=text/plain")[1]["content-type"].startswith("text/html")


def test_a_body_that_does_not_come_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "LONGEST_READ", 0.3)
    head = ("POST /predictions HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 99")
    status, answer = raw(client, *head, body=BODY)
    assert (status, "the body took longer than" in answer) == (408, True)


def test_a_body_that_ends_early_is_nobodys(client: Client):
    head = (
        "POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(head.encode() + BODY)
    wait_for(lambda: 'path="other",status="499"' in client.get("/metrics")[1])


def test_all_bodies_together_are_bounded(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bodies, "MOST_HELD", 1_000)
    head = (
        "POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 990\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(head.encode() + b" " * 989)

        def refused() -> bool:
            status, headers, _ = client.send("POST", "/predictions", BODY, JSON)
            return status == 429 and headers["retry-after"] == "1"

        wait_for(refused)
    wait_for(lambda: client.send("POST", "/predictions", BODY, JSON)[0] == 409)


def test_what_breaks_inside_is_said_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with service(tmp_path / "model") as (client, learning):
        monkeypatch.setattr(learning, "facts", None)
        status, headers, answer = client.send("GET", "/model")
        assert (status, answer["error"]) == (500, "something is wrong in the service: its log says what.")
        assert headers["cache-control"] == "no-store"
        monkeypatch.undo()
        assert 'path="/model",status="500"} 1.0' in client.get("/metrics")[1]


def test_what_is_wrong_is_said_to_those_with_the_token_only(tmp_path: Path):
    with service(tmp_path / "model", token="secret") as (client, learning):
        learning.save_failure = "/data/model: the disk is full"
        assert client.get("/health") == (200, {"status": "degraded", "problem": "/data/model: the disk is full"})
        client.token = None
        assert client.get("/health") == (200, {"status": "degraded", "problem": None})


def test_an_example_that_was_not_taken_does_not_decide_the_kind_of_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with service(tmp_path / "model") as (client, learning):

        def full(*_: object) -> None:
            raise JournalFullError("full")

        with monkeypatch.context() as patch:
            patch.setattr(learning.journal, "append", full)
            assert client.post("/examples", {"examples": [{"text": "a", "label": "b"}]})[0] == 507
        assert client.teach(("a", 1)) == [1]


def test_requests_at_the_same_time_do_not_pass_the_bound_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with service(tmp_path / "model", most_waiting=10) as (client, learning):
        monkeypatch.setattr(learning, "_learn_portion", lambda: False)
        original, together = learning.journal.append, threading.Barrier(2)

        def slow(pairs: list[tuple[str, str | int]]) -> list[int]:
            try:
                together.wait(0.5)
            except threading.BrokenBarrierError:
                together.reset()
            return original(pairs)

        monkeypatch.setattr(learning.journal, "append", slow)
        statuses: list[int] = []

        def teach() -> None:
            examples = [{"text": "a", "label": "b"}] * 6
            statuses.append(client.post("/examples", {"examples": examples})[0])

        threads = [threading.Thread(target=teach) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [202, 429, 429, 429]
        monkeypatch.undo()
