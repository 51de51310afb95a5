"""A service for tests: in this process, or in one of its own that can be killed; and a client for it."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everlearn.classifier import LifelongClassifier, storage
from everlearn.classifier.journal import Journal
from everlearn.service.app import create_app
from everlearn.service.learning import Learning
from everlearn.service.server import web_server

SETTINGS = {"encoder": "tiny", "settings": {"head_lr": 0.03, "batch_size": 2, "replay_interval": 2}}
OPTIONS = ("--encoder", "tiny", "--head-lr", "0.03", "--batch-size", "2", "--replay-interval", "2")


class Client:
    """Sends requests; each answer is a status, its headers and its JSON or text."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port = port
        self.token = token

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request(method, path, body, {**own, **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get("content-type", "")
        given = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, given, json.loads(content) if "json" in kind and content else content.decode()

    def get(self, path: str) -> tuple[int, Any]:
        status, _, answer = self.send("GET", path)
        return status, answer

    def post(self, path: str, value: Any) -> tuple[int, Any]:
        status, _, answer = self.send("POST", path, json.dumps(value).encode(), {"Content-Type": "application/json"})
        return status, answer

    def teach(self, *pairs: tuple[str, str | int]) -> list[int]:
        status, answer = self.post("/examples", {"examples": [{"text": text, "label": label} for text, label in pairs]})
        assert status == 202, answer
        ids: list[int] = answer["ids"]
        return ids

    def wait_until_learned(self, number: int, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not self.get(f"/examples/{number}")[1]["learned"]:
            assert time.monotonic() < end
            time.sleep(0.02)


@contextmanager
def service(folder: Path, most_waiting: int = 10_000, **guard: Any) -> Iterator[tuple[Client, Learning]]:
    """A service in a thread of this process."""
    classifier = LifelongClassifier.load(folder) if storage.is_model(folder) else LifelongClassifier(**SETTINGS).begin()
    folder.mkdir(exist_ok=True)
    journal = Journal(folder / "journal.sqlite")
    learning = Learning(folder, classifier, journal)
    web, listening = web_server(create_app(learning, most_waiting, **guard), "127.0.0.1", 0)
    thread = threading.Thread(target=web.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Client(listening.getsockname()[1], guard.get("token")), learning
    finally:
        web.should_exit = True
        thread.join(60)
        journal.close()
        assert not thread.is_alive()


class Process:
    """A service in a process of its own."""

    def __init__(self, folder: Path, *options: str, before: str = "") -> None:
        """`before` is run in the process before it serves."""
        program = f"{before}\nfrom everlearn.cli import main\nmain()"
        command = [sys.executable, "-c", program, "serve", str(folder), "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line)
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.client = Client(int(found[1]))
                break
        else:
            raise AssertionError("".join(self.lines))
        self._wait_until_it_answers()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def stop(self, number: int = signal.SIGTERM) -> str:
        """Ask it to end, and what it said."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=120)
        return "".join(self.lines) + out

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + 30
        while True:
            try:
                self.client.get("/health")
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.02)
            else:
                return
