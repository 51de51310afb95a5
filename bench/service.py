"""What the service stands: speed alone and while it learns, many clients, kills, requests that make no sense.

    python bench/service.py --out results/service/results.json       # about 30 minutes on 2 cores
    python bench/service.py --parts speed --out results/service/results.json    # leaves the other parts as they are
    python bench/service.py --short --encoder tiny --out /tmp/service.json

The clients run on the same machine and take their share of its cores.
"""

import argparse
import dataclasses
import http.client
import json
import os
import platform
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402

from everlearn import __version__  # noqa: E402
from kill_cycles import kill_again_and_again  # noqa: E402
from running_service import Client, Process  # noqa: E402
from strange_requests import StrangeRequest, strange_requests  # noqa: E402
from tickets import TOPICS, tickets  # noqa: E402

HEADERS = {"Content-Type": "application/json"}
PARTS = ("speed", "strange", "kills")


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much of everything."""

    seconds: float
    many_seconds: float
    many_clients: int
    kills: int
    strange: int


FULL = Plan(seconds=60, many_seconds=300, many_clients=50, kills=100, strange=10_000)
SHORT = Plan(seconds=3, many_seconds=5, many_clients=50, kills=2, strange=200)


class Load(threading.Thread):
    """A client that sends one request after the other over one connection."""

    def __init__(self, port: int, seconds: float, share_of_examples: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.port, self.seconds, self.share, self.seed = port, seconds, share_of_examples, seed
        self.latencies: list[float] = []
        self.statuses: Counter[str] = Counter()

    def run(self) -> None:
        rng = random.Random(self.seed)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.connect()
        # Head and body go out one after the other: without this, the second waits up to 40 ms for the first to arrive.
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            texts, labels = tickets(list(TOPICS), 1, seed=rng.randrange(10**9))
            teach = rng.random() < self.share
            body = {"examples": [{"text": texts[0], "label": labels[0]}]} if teach else {"texts": texts}
            start = time.perf_counter()
            try:
                connection.request("POST", "/examples" if teach else "/predictions", json.dumps(body), HEADERS)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.statuses[type(error).__name__] += 1
                break
            self.statuses[str(answer.status)] += 1
            if teach and answer.status == 429:
                time.sleep(min(1.0, float(answer.headers["Retry-After"])))
            elif not teach:
                self.latencies.append(time.perf_counter() - start)
        connection.close()


def under_load(port: int, clients: int, seconds: float, share_of_examples: float = 0.0) -> dict[str, Any]:
    """Many clients at once; what they were answered and how fast the predictions came."""
    loads = [Load(port, seconds, share_of_examples, seed) for seed in range(clients)]
    for load in loads:
        load.start()
    for load in loads:
        load.join()
    latencies = np.array([latency for load in loads for latency in load.latencies])
    statuses = sum((load.statuses for load in loads), Counter[str]())
    percentiles = np.percentile(latencies, [50, 95, 99]) if len(latencies) else [float("nan")] * 3
    return {
        "clients": clients,
        "seconds": seconds,
        "predictions_per_second": round(len(latencies) / seconds, 1),
        **{f"p{p}_ms": round(1000 * float(value), 1) for p, value in zip((50, 95, 99), percentiles, strict=True)},
        "answers": dict(sorted(statuses.items())),
    }


def while_learning(client: Client, clients: int, seconds: float) -> dict[str, Any]:
    """The same while examples come in faster than they can be learned."""
    stop = threading.Event()

    def feed() -> None:
        seed = 0
        while not stop.is_set():
            texts, labels = tickets(list(TOPICS), 100, seed=seed)
            client.post(
                "/examples", {"examples": [{"text": t, "label": n} for t, n in zip(texts, labels, strict=True)]}
            )
            seed += 1
            time.sleep(0.5)

    before = client.get("/model")[1]["examples"]
    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    time.sleep(1)
    measured = under_load(client.port, clients, seconds)
    learned = client.get("/model")[1]["examples"] - before
    stop.set()
    feeder.join()
    return {**measured, "examples_learned_per_second": round(learned / (seconds + 1), 1)}


def wait_until_idle(client: Client) -> None:
    """Until everything that was sent is learned."""
    while client.get("/model")[1]["backlog"]:
        time.sleep(0.2)


def strange(client: Client, count: int) -> dict[str, Any]:
    """Requests that make no sense; none may be answered with a 5xx."""
    statuses: Counter[str] = Counter()

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(request=strange_requests)
    def send(request: StrangeRequest) -> None:
        status, _, _ = client.send(request.method, request.path, request.body, {"Content-Type": request.kind})
        statuses[str(status)] += 1

    send()
    errors = sum(number for status, number in statuses.items() if status.startswith("5"))
    return {"requests": statuses.total(), "answers": dict(sorted(statuses.items())), "server_errors": errors}


@contextmanager
def serving(folder: Path, encoder: str, result: dict[str, Any]) -> Iterator[Client]:
    """A service that knows a few topics; what it logged is searched for tracebacks in the end."""
    process = Process(folder, "--encoder", encoder)
    texts, labels = tickets(list(TOPICS), 200)
    process.client.teach(*zip(texts, labels, strict=True))
    process.client.wait_until_learned(200)
    yield process.client
    say("stopping, which learns what is left")
    result["traceback_in_log"] = result.get("traceback_in_log", False) or "Traceback" in process.stop()


def speed(client: Client, plan: Plan) -> dict[str, Any]:
    """Predictions alone and while it learns, for few and for many clients."""
    found: dict[str, Any] = {}
    for clients in (1, 8, plan.many_clients):
        wait_until_idle(client)
        say(f"predictions alone, {clients} clients")
        found[f"alone_{clients}"] = under_load(client.port, clients, plan.seconds)
        say(f"predictions while learning, {clients} clients")
        found[f"learning_{clients}"] = while_learning(client, clients, plan.seconds)
    say(f"{plan.many_clients} clients that ask and teach")
    found["many_clients"] = under_load(client.port, plan.many_clients, plan.many_seconds, 0.2)
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of speed, strange and kills to measure")
    parser.add_argument("--short", action="store_true", help="a little of everything, to see that it works")
    chosen = parser.parse_args()
    plan = SHORT if chosen.short else FULL
    parts = chosen.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}")
    result: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    result |= {
        "everlearn": __version__,
        "encoder": chosen.encoder,
        "plan": dataclasses.asdict(plan),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    with tempfile.TemporaryDirectory() as folder:
        if "speed" in parts:
            with serving(Path(folder) / "fast", chosen.encoder, result) as client:
                result |= speed(client, plan)
        if "strange" in parts:
            with serving(Path(folder) / "asked", chosen.encoder, result) as client:
                say("requests that make no sense")
                result["strange_requests"] = strange(client, plan.strange)
        if "kills" in parts:
            outcome = kill_again_and_again(
                Path(folder) / "killed",
                plan.kills,
                ("--encoder", chosen.encoder),
                pause=0.02,
                progress=lambda done: say(f"killed {done} times"),
            )
            result["kills"] = {"cycles": plan.kills, **dataclasses.asdict(outcome)}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
