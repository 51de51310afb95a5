"""The service under load and behind other addresses: who waits for whom, who is answered, what is said at the end."""

import asyncio
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from everlearn.classifier.snapshot import Ranked
from everlearn.service import predicting
from everlearn.service.predicting import BusyError, Predicting
from running_service import OPTIONS, Process, service


class Stub:
    """A snapshot that notes what it is given and holds it until told to go on."""

    def __init__(self, name: str = "label", held: bool = False) -> None:
        self.name = name
        self.slices: list[list[str]] = []
        self.go_on = threading.Event()
        if not held:
            self.go_on.set()

    def ranked(self, texts: Sequence[str], most: int) -> list[list[Ranked]]:
        self.slices.append(list(texts))
        assert self.go_on.wait(30)
        return [[Ranked(self.name, 1.0)] for _ in texts]


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


async def begun(stub: Stub, slices: int = 1) -> None:
    await asyncio.to_thread(wait_for, lambda: len(stub.slices) >= slices)


def run(stub: Stub, scene: Callable[[Predicting], object]) -> None:
    """A scene with a thread that predicts, which has to end with it."""
    thread = Predicting(lambda: stub)  # type: ignore[arg-type,return-value]
    thread.start()
    try:
        asyncio.run(asyncio.wait_for(scene(thread), 60))  # type: ignore[arg-type]
    finally:
        stub.go_on.set()
        thread.stop()
        thread.join(30)
    assert not thread.is_alive()


def test_a_short_request_overtakes_large_ones():
    stub = Stub(held=True)

    async def scene(thread: Predicting) -> None:
        large = [asyncio.create_task(thread.predict([name] * 256)) for name in "abc"]
        await begun(stub)
        short = asyncio.create_task(thread.predict(["short"]))
        await asyncio.sleep(0)
        stub.go_on.set()
        assert [len(await one) for one in large] == [256] * 3
        assert len(await short) == 1

    run(stub, scene)
    assert all(len(texts) <= predicting.TEXTS_AT_ONCE for texts in stub.slices)
    turn = next(turn for turn, texts in enumerate(stub.slices) if "short" in texts)
    assert turn <= 3  # behind one slice of each
    assert sum(map(len, stub.slices)) == 3 * 256 + 1


def test_long_texts_come_in_smaller_slices():
    stub = Stub()

    async def scene(thread: Predicting) -> None:
        assert len(await thread.predict(["x" * 20_000] * 64)) == 64

    run(stub, scene)
    assert max(map(len, stub.slices)) == predicting.CHARACTERS_AT_ONCE // 20_000


def test_all_of_a_request_is_answered_by_one_snapshot():
    old, new = Stub("old", held=True), Stub("new")
    current = [old]
    thread = Predicting(lambda: current[0])  # type: ignore[arg-type,return-value]
    thread.start()

    async def scene() -> None:
        large = asyncio.create_task(thread.predict(["a"] * 200))
        await begun(old)
        current[0] = new
        short = asyncio.create_task(thread.predict(["b"]))
        await asyncio.sleep(0)
        old.go_on.set()
        assert {answer["label"] for answer in await large} == {"old"}
        assert [answer["label"] for answer in await short] == ["new"]

    asyncio.run(asyncio.wait_for(scene(), 60))
    thread.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_texts_that_wait_are_bounded_and_those_given_up_make_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(predicting, "MOST_TEXTS_WAITING", 200)
    stub = Stub(held=True)

    async def scene(thread: Predicting) -> None:
        first = asyncio.create_task(thread.predict(["first"] * 64))
        await begun(stub)
        given_up = asyncio.create_task(thread.predict(["given up"] * 150))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await thread.predict(["late"] * 51)
        given_up.cancel()
        await asyncio.wait([given_up])
        late = asyncio.create_task(thread.predict(["late"] * 51))
        await asyncio.sleep(0)
        stub.go_on.set()
        assert len(await first) == 64
        assert len(await late) == 51

    run(stub, scene)
    assert not [texts for texts in stub.slices if "given up" in texts]


def test_a_request_given_up_while_it_is_answered_goes_no_further():
    stub = Stub(held=True)

    async def scene(thread: Predicting) -> None:
        given_up = asyncio.create_task(thread.predict(["given up"] * 256))
        await begun(stub)
        given_up.cancel()
        await asyncio.wait([given_up])
        stub.go_on.set()
        await thread.predict(["next"])

    run(stub, scene)
    assert stub.slices == [["given up"] * 64, ["next"]]


def test_clients_that_hang_up_are_not_worked_for(tmp_path: Path):
    with service(tmp_path / "model") as (client, learning):
        stub = Stub(held=True)
        learning.snapshot = stub  # type: ignore[assignment]
        body = json.dumps({"texts": ["given up"] * 256}).encode()
        head = b"POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", client.port)) as connection:
                connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                wait_for(lambda: stub.slices)
                time.sleep(0.2)  # it has been read by now
        wait_for(lambda: 'status="499"} 3.0' in client.get("/metrics")[1])
        stub.go_on.set()
        assert client.post("/predictions", {"texts": ["next"]})[0] == 200
        assert stub.slices == [["given up"] * 64, ["next"]]


def test_a_model_that_could_not_be_saved_is_not_said_to_be(tmp_path: Path):
    process = Process(tmp_path / "model", *OPTIONS)
    checkpoints = tmp_path / "model" / "checkpoints"
    shutil.rmtree(checkpoints)
    checkpoints.write_text("in the way")
    process.client.wait_until_learned(process.client.teach(("the of", "a"), ("to in", "b"))[-1])
    said = process.stop()
    assert process.process.returncode == 1, said
    assert "not everything is saved (" in said
    assert "learned and saved" not in said


def test_the_host_it_is_served_on_is_answered(tmp_path: Path):
    with service(tmp_path / "model", host="127.0.0.2") as (client, _):
        for name, status in (("127.0.0.2:8000", 200), ("LOCALHOST", 200), ("127.0.0.3", 421), ("evil.example", 421)):
            assert client.send("GET", "/model", headers={"Host": name})[0] == status


def test_with_a_token_a_proxy_may_keep_its_name(tmp_path: Path):
    with service(tmp_path / "model", token="secret") as (client, _):
        assert client.send("GET", "/model", headers={"Host": "texts.example"})[0] == 200
        client.token = "wrong"
        assert client.send("GET", "/model", headers={"Host": "texts.example"})[0] == 401


def test_more_examples_than_may_ever_wait_are_refused_for_good(tmp_path: Path):
    with service(tmp_path / "model", most_waiting=3) as (client, _):
        status, answer = client.post("/examples", {"examples": [{"text": "a", "label": "b"}] * 4})
        assert (status, answer["error"]) == (413, "no more than 3 examples may wait: send fewer at a time.")
        client.teach(*[("a", "b")] * 3)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ('application/json; charset="utf-8"', 409),
        ("Application/JSON;charset=UTF-8", 409),
        ("application/json; charset=latin-1", 415),
        ("application/json-seq", 415),
        ("text/plain; application/json", 415),
    ],
)
def test_content_types_however_they_are_spelled(tmp_path: Path, kind: str, status: int):
    with service(tmp_path / "model") as (client, _):
        assert client.send("POST", "/predictions", b'{"texts": ["a"]}', {"Content-Type": kind})[0] == status
