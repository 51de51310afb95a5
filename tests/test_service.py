"""The service: what it takes, what it answers, what it refuses."""

import http.client
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from fastapi import FastAPI

from everlearn import LifelongClassifier
from everlearn.classifier import storage
from everlearn.classifier.journal import JOURNAL, Journal
from everlearn.errors import UserError
from everlearn.service import learning as learning_module
from everlearn.service import server
from everlearn.service.learning import Learning
from everlearn.service.schemas import LARGEST_BODY, LONGEST_TEXT, MOST_EXAMPLES, MOST_TEXTS
from running_service import SETTINGS, Client, service
from support import assert_same_state, labelled_texts
from test_classifier import knowledge

JSON = {"Content-Type": "application/json"}


def pairs(count: int, labels: tuple[int, ...] = (0, 1), seed: int = 1) -> list[tuple[str, str | int]]:
    return [(example.text, f"label{example.label}") for example in labelled_texts(count, labels, seed)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service that knows two labels."""
    with service(tmp_path_factory.mktemp("service") / "model") as (client, _):
        client.wait_until_learned(client.teach(*pairs(40))[-1])
        yield client


def test_a_method_that_gives_labels_only_is_served_without_probabilities(tmp_path: Path):
    classifier = LifelongClassifier("mbpa++", encoder="tiny", settings={"replay_interval": 8, "replay_rate": 0.5})
    classifier.begin().save(tmp_path / "model")
    with service(tmp_path / "model") as (client, _):
        client.wait_until_learned(client.teach(*pairs(24))[-1])
        status, answer = client.post("/predictions", {"texts": ["the of and"]})
    assert status == 200
    (prediction,) = answer["predictions"]
    assert prediction["label"] in ("label0", "label1")
    assert prediction["ranking"] == [{"label": prediction["label"], "probability": None}]


def test_answers_are_not_held_back_by_the_network(tmp_path: Path):
    """An answer goes out in two parts; the second must not wait until the first is acknowledged."""
    _, listening = server.web_server(FastAPI(), "127.0.0.1", 0)
    with listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_it_learns_and_predicts(client: Client):
    status, answer = client.post("/predictions", {"texts": ["the of and", "to in is"]})
    assert status == 200
    assert [one["label"] for one in answer["predictions"]] == ["label0", "label1"]
    for one in answer["predictions"]:
        assert sum(ranked["probability"] for ranked in one["ranking"]) == pytest.approx(1)
        assert one["ranking"][0] == {"label": one["label"], "probability": one["probability"]}


def test_it_says_what_it_knows(client: Client):
    status, model = client.get("/model")
    assert status == 200
    assert model["examples"] >= 40
    assert {"label": "label0", "examples": 20} in model["labels"]
    assert model["accuracy_curve"][-1]["accuracy"] == model["accuracy"]
    assert model["recent"][0]["label"] in ("label0", "label1")
    assert client.get("/health") == (200, {"status": "ok", "problem": None})
    metrics = client.get("/metrics")[1]
    assert "everlearn_examples_learned 40.0" in metrics
    assert 'everlearn_requests_total{method="POST",path="/examples",status="202"}' in metrics


def test_whether_an_example_is_learned(client: Client):
    assert client.get("/examples/40") == (200, {"id": 40, "learned": True})
    for number in (0, -1, 10**9):
        assert client.get(f"/examples/{number}")[0] == 404
    assert client.get("/examples/first")[0] == 422
    assert client.get(f"/examples/{10**30}")[0] in (404, 422)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/predictions", b"{", 400, "not valid JSON"),
        ("/predictions", b"", 422, "the body"),
        ("/predictions", b"\xff\xfe", 400, "not valid JSON"),
        ("/predictions", b"[" * 100_000, 400, "not valid JSON"),
        ("/predictions", b'{"texts": ["' + b"9" * 10 + b'"], "texts": 1}', 400, "names a field twice"),
        ("/predictions", b"[]", 422, "the body"),
        ("/predictions", b"null", 422, "the body"),
        ("/predictions", b'{"texts": []}', 422, "texts"),
        ("/predictions", b'{"texts": "one"}', 422, "texts"),
        ("/predictions", b'{"texts": [1]}', 422, "texts.0"),
        ("/predictions", b'{"texts": [""]}', 422, "texts.0"),
        ("/predictions", b'{"texts": ["  "]}', 422, "texts.0: is empty"),
        ("/predictions", b'{"texts": ["\\ud800"]}', 422, "texts.0"),
        ("/predictions", b'{"texts": ["a"], "model": "/etc/passwd"}', 422, "model"),
        ("/predictions", b'{"texts": ["a"], "\\ud800": 1}', 422, "the body"),
        ("/predictions", json.dumps({"texts": ["x" * (LONGEST_TEXT + 1)]}).encode(), 422, "texts.0"),
        ("/predictions", json.dumps({"texts": ["x"] * (MOST_TEXTS + 1)}).encode(), 422, "texts"),
        ("/examples", b'{"examples": []}', 422, "examples"),
        ("/examples", b'{"examples": [{"text": "a"}]}', 422, "label"),
        ("/examples", b'{"examples": [{"text": "a", "label": ""}]}', 422, "label"),
        ("/examples", b'{"examples": [{"text": "a", "label": null}]}', 422, "label"),
        ("/examples", b'{"examples": [{"text": "a", "label": 1.5}]}', 422, "label"),
        ("/examples", b'{"examples": [{"text": "a", "label": true}]}', 422, "label"),
        ("/examples", b'{"examples": [{"text": "a", "label": 3}]}', 422, "all texts or all whole numbers"),
        ("/examples", b'{"examples": [{"text": "a", "label": ' + b"9" * 5000 + b"}]}", 400, "not valid JSON"),
        ("/examples", b'{"examples": [{"text": "a", "label": "x", "when": 1}]}', 422, "when"),
        (
            "/examples",
            json.dumps({"examples": [{"text": "a", "label": "b"}] * (MOST_EXAMPLES + 1)}).encode(),
            422,
            "examples",
        ),
    ],
)
def test_bad_requests_get_a_sentence(client: Client, path: str, body: bytes, status: int, message: str):
    before = client.get("/model")[1]["examples"]
    found, _, answer = client.send("POST", path, body, JSON)
    assert (found, set(answer)) == (status, {"error"}), answer
    assert message in answer["error"]
    assert client.get("/model")[1]["examples"] == before


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_only_json_is_taken(client: Client, kind: str):
    body = b'{"texts": ["a"]}'
    assert client.send("POST", "/predictions", body, {"Content-Type": kind} if kind else None)[0] == 415
    assert client.send("POST", "/predictions", body, {"Content-Type": "application/json; charset=UTF-8"})[0] == 200


def test_requests_that_are_too_large(client: Client):
    status, _, answer = client.send("POST", "/predictions", b"x" * (LARGEST_BODY + 1), JSON)
    assert (status, "larger than" in answer["error"]) == (413, True)

    def endless() -> Iterator[bytes]:  # sent in pieces, so that no length is declared
        for _ in range(LARGEST_BODY // 2**20 + 2):
            yield b" " * 2**20

    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.request("POST", "/predictions", endless(), JSON, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_other_paths_methods_and_hosts(client: Client):
    assert client.get("/nothing")[0] == 404
    assert client.get("/page/../app.py")[0] == 404
    assert client.get("/page/%2e%2e/app.py")[0] == 404
    assert client.send("DELETE", "/model")[0] == 405
    assert client.send("GET", "/model", headers={"Host": "evil.example"})[0] == 421
    assert client.send("GET", "/model", headers={"Host": "localhost:80"})[0] == 200
    status, headers, page = client.send("GET", "/")
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "server" not in headers
    assert "Teach it" in page
    assert client.get("/docs")[0] == 404  # it would load scripts from elsewhere


def test_the_interface_is_documented(client: Client):
    schema = client.get("/openapi.json")[1]
    assert set(schema["paths"]) == {"/examples", "/examples/{number}", "/predictions", "/model", "/health", "/metrics"}
    assert {"202", "400", "413", "415", "422", "429", "507"} <= set(schema["paths"]["/examples"]["post"]["responses"])


def test_before_anything_is_learned(tmp_path: Path):
    with service(tmp_path / "model") as (client, _):
        status, answer = client.post("/predictions", {"texts": ["a"]})
        assert (status, "nothing has been learned yet" in answer["error"]) == (409, True)
        assert client.get("/model")[1]["labels"] == []


def test_a_token_is_asked_for(tmp_path: Path):
    with service(tmp_path / "model", token="secret ✓") as (client, _):
        client.token = None
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic c2VjcmV0"}):
            for path in ("/model", "/metrics", "/openapi.json", "/examples/1"):
                status, given, _ = client.send("GET", path, headers=headers)
                assert (status, given["www-authenticate"]) == (401, "Bearer")
        assert client.send("POST", "/examples", b"{}", JSON)[0] == 401
        assert client.get("/health")[0] == client.get("/")[0] == client.get("/page/app.js")[0] == 200
        token = "secret ✓".encode().decode("latin-1")
        assert client.send("GET", "/model", headers={"Authorization": f"Bearer {token}"})[0] == 200


def test_only_this_machine_is_served_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(server.TOKEN_VARIABLE, raising=False)
    with pytest.raises(UserError, match="protect it with --token"):
        server.serve(tmp_path / "model", "0.0.0.0", 0, None, 10, {}, None)  # type: ignore[arg-type]
    assert not (tmp_path / "model").exists()


def test_too_much_waiting_is_told_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    go_on = threading.Event()
    original = LifelongClassifier.partial_fit

    def slow(self: LifelongClassifier, *arguments: object) -> LifelongClassifier:
        go_on.wait(30)
        return original(self, *arguments)

    monkeypatch.setattr(LifelongClassifier, "partial_fit", slow)
    with service(tmp_path / "model", most_waiting=10) as (client, _):
        client.teach(*pairs(10))
        body = json.dumps({"examples": [{"text": "a", "label": "b"}]}).encode()
        status, headers, answer = client.send("POST", "/examples", body, JSON)
        assert (status, "10 examples are waiting" in answer["error"]) == (429, True)
        assert 1 <= int(headers["retry-after"]) <= 60
        go_on.set()
        client.wait_until_learned(10)
        assert client.teach(("a", "b")) == [11]


def test_predictions_go_on_while_it_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with service(tmp_path / "model") as (client, learning):
        client.wait_until_learned(client.teach(*pairs(40))[-1])
        started, go_on = threading.Event(), threading.Event()
        original = learning.classifier.learner_.learn

        def held(*given: object) -> None:
            started.set()
            go_on.wait(30)
            original(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(learning.classifier.learner_, "learn", held)
        number = client.teach(*pairs(8, (2, 3)))[-1]
        assert started.wait(10)
        before = client.post("/predictions", {"texts": ["the of and"]})
        assert before[0] == 200
        assert {one["label"] for one in before[1]["predictions"][0]["ranking"]} == {"label0", "label1"}
        assert client.get(f"/examples/{number}")[1]["learned"] is False
        assert client.get("/model")[1]["backlog"] == 8
        go_on.set()
        client.wait_until_learned(number)
        after = client.post("/predictions", {"texts": ["the of and"]})[1]["predictions"][0]
        assert len(after["ranking"]) == 4


def test_requests_that_wait_together_are_answered_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with service(tmp_path / "model") as (client, learning):
        client.wait_until_learned(client.teach(*pairs(8))[-1])
        snapshot, sizes, go_on = learning.snapshot, [], threading.Event()
        assert snapshot is not None

        class Slow:
            def ranked(self, texts: list[str], most: int) -> object:
                sizes.append(len(texts))
                go_on.wait(30)
                return snapshot.ranked(texts, most)

        learning.snapshot = Slow()  # type: ignore[assignment]
        answers: list[tuple[int, object]] = []
        threads = [
            threading.Thread(target=lambda: answers.append(client.post("/predictions", {"texts": ["the of"]})))
            for _ in range(9)
        ]
        threads[0].start()
        deadline = time.monotonic() + 30
        while not sizes and time.monotonic() < deadline:
            time.sleep(0.01)
        for thread in threads[1:]:
            thread.start()
        time.sleep(0.5)
        go_on.set()
        for thread in threads:
            thread.join()
        assert [status for status, _ in answers] == [200] * 9
        assert sum(sizes) == 9
        assert len(sizes) <= 3


def test_a_full_disk_takes_nothing_more_and_goes_on_predicting(tmp_path: Path):
    with service(tmp_path / "model") as (client, learning):
        client.wait_until_learned(client.teach(*pairs(20))[-1])
        database = learning.journal._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        for _ in range(50):  # until the last page is full
            status, answer = client.post("/examples", {"examples": [{"text": "x " * 900, "label": "label0"}]})
            if status != 202:
                break
        assert (status, "make room on the disk" in answer["error"]) == (507, True)
        taken = learning.journal.last
        assert client.post("/predictions", {"texts": ["the of"]})[0] == 200
        database.execute("PRAGMA max_page_count = 100000")
        assert client.teach(("the of", "label0")) == [taken + 1]
        client.wait_until_learned(taken + 1)


def test_a_checkpoint_that_cannot_be_written_is_said_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(learning_module, "SECONDS_BETWEEN_SAVES", 0.2)
    original = storage.save

    def full(*_: object) -> None:
        raise UserError("the disk is full")

    with service(tmp_path / "model") as (client, learning):
        monkeypatch.setattr(storage, "save", full)
        client.wait_until_learned(client.teach(*pairs(20))[-1])
        wait_for(lambda: client.get("/health")[1]["status"] == "degraded")
        assert client.get("/health") == (200, {"status": "degraded", "problem": "the disk is full"})
        assert learning.journal.read(0, 100)  # nothing is deleted that no checkpoint holds
        monkeypatch.setattr(storage, "save", original)
        wait_for(lambda: client.get("/health")[1]["status"] == "ok")


def wait_for(condition: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_learning_that_fails_is_said_and_predictions_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with service(tmp_path / "model") as (client, learning):
        client.wait_until_learned(client.teach(*pairs(20))[-1])

        def broken(*_: object) -> None:
            raise UserError("the loss is no longer a finite number")

        monkeypatch.setattr(learning.classifier, "partial_fit", broken)
        client.teach(("a", "b"))
        wait_for(lambda: client.get("/health")[0] == 503)
        assert client.get("/health")[1]["problem"] == "the loss is no longer a finite number"
        assert client.post("/examples", {"examples": [{"text": "a", "label": "b"}]})[0] == 503
        assert client.post("/predictions", {"texts": ["the of"]})[0] == 200


def test_it_ends_with_everything_learned_and_goes_on_as_one_that_never_ended(tmp_path: Path):
    examples = pairs(90, (0, 1, 2))
    whole = LifelongClassifier(**SETTINGS).partial_fit(*zip(*examples, strict=True))
    for start, stop in ((0, 33), (33, 34), (34, 90)):
        with service(tmp_path / "model") as (client, _):
            client.teach(*examples[start:stop])  # and at once it is told to end
    assert_same_state(knowledge(LifelongClassifier.load(tmp_path / "model")), knowledge(whole))
    with sqlite3.connect(tmp_path / "model" / "journal.sqlite") as database:
        # What two checkpoints have learned is not kept any longer.
        assert database.execute("SELECT count(*) FROM examples").fetchone()[0] <= 57


def test_journals_that_do_not_belong_to_the_model(tmp_path: Path):
    folder = tmp_path / "model"
    with service(folder) as (client, _):
        client.wait_until_learned(client.teach(*pairs(20))[-1])
    model = LifelongClassifier.load(folder)
    # A journal that lost its end: numbers that count as learned are not given out again.
    for path in folder.glob("journal.sqlite*"):
        path.unlink()
    with service(folder) as (client, learning):
        assert client.teach(("the of", "label0")) == [1]  # another journal, so counted anew
        client.wait_until_learned(1)
        assert learning.classifier.examples_ == 21
    journal = Journal(folder / "journal.sqlite")
    journal.prune(journal.last)
    journal.append([("a", "b")])
    model.places_[JOURNAL] = journal.place(0)
    with pytest.raises(UserError, match="begins behind example 1"):
        Learning(folder, model, journal)
    model.places_[JOURNAL] = journal.place(50)
    older = Learning(folder, model, journal)
    assert older.backlog == 0
    assert journal.append([("a", "b")]) == [51]
    journal.close()
