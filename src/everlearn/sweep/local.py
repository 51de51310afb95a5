"""The local engine: worker processes on this machine, several at once; one that dies is replaced, its run retried."""

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from everlearn.errors import UserError
from everlearn.sweep.events import ATTEMPTS, Event, Job

WORKER = (sys.executable, "-m", "everlearn.sweep.worker")
"""The command of a worker."""

Message = tuple["WorkerProcess", dict[str, Any] | None]
"""What a worker has sent; None when it is gone."""


class WorkerProcess:
    """A process that carries out one job after another."""

    def __init__(self, number: int, threads: int, gpus: int, logs: Path, inbox: "queue.Queue[Message]") -> None:
        self.job: Job | None = None
        self.ready = False
        self.last_words = ""
        self.log = logs / f"worker-{number}.log"
        surroundings = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
        if gpus > 1:
            surroundings["CUDA_VISIBLE_DEVICES"] = _share(number, gpus)
        # A session of its own: Ctrl-C reaches the sweep alone, which then ends its workers in good order.
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                WORKER,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=surroundings,
                start_new_session=True,
                text=True,
                encoding="utf-8",
            )
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def give(self, job: Job) -> None:
        """Hand over a job; a worker that has just died says so through its inbox."""
        self.job = job
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job.as_dict()) + "\n")
            self._process.stdin.flush()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()

    def fate(self) -> str:
        """Why the process is gone."""
        code = self._process.wait()
        return self.last_words or (f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}")

    def _listen(self, inbox: "queue.Queue[Message]") -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                inbox.put((self, json.loads(line)))
        except ValueError:  # half a line, or a pipe that was closed: the process is gone
            pass
        inbox.put((self, None))


class LocalEngine:
    """Keeps `at_once` workers busy."""

    def __init__(self, at_once: int, threads: int, gpus: int, logs: Path) -> None:
        self.at_once = at_once
        self._threads, self._gpus, self._logs = threads, gpus, logs
        self._numbers = itertools.count()
        self._inbox: queue.Queue[Message] = queue.Queue()

    def carry_out(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Carry out all jobs; a run whose worker dies is started again, from its last checkpoint."""
        waiting = deque(jobs)
        attempts: Counter[str] = Counter()
        workers = {self._start() for _ in range(min(self.at_once, len(jobs)))}
        try:
            while workers:
                worker, message = self._inbox.get()
                if worker not in workers:
                    continue  # the last words of one that was replaced
                if message is None:
                    workers.remove(worker)
                    yield from self._buried(worker, waiting, attempts)
                    if waiting:
                        workers.add(self._start())
                    continue
                yield from self._heard(worker, message, waiting, attempts)
                if worker.ready and worker.job is None and not waiting:
                    workers.remove(worker)
                    worker.stop()
        finally:
            for worker in workers:
                worker.stop()

    def _start(self) -> WorkerProcess:
        number = next(self._numbers) % self.at_once
        return WorkerProcess(number, self._threads, self._gpus, self._logs, self._inbox)

    def _heard(
        self, worker: WorkerProcess, message: dict[str, Any], waiting: "deque[Job]", attempts: "Counter[str]"
    ) -> Iterator[Event]:
        event, job = message["event"], worker.job
        if event == "broken":
            worker.last_words = message["text"]
            return
        if event == "advanced" and job:
            yield Event("advanced", job, share=message["share"])
            return
        if event == "ended" and job:
            yield Event("ended", job, share=1.0)
        elif event == "failed" and job:
            yield Event("failed", job, text=message["text"])
        worker.ready, worker.job = True, None
        if waiting:
            job = waiting.popleft()
            attempts[job.name] += 1
            worker.give(job)
            yield Event("started", job)

    def _buried(self, worker: WorkerProcess, waiting: "deque[Job]", attempts: "Counter[str]") -> Iterator[Event]:
        fate, job = worker.fate(), worker.job
        worker.stop()
        if not worker.ready:
            raise UserError(f"a worker process did not start ({fate}): see {worker.log}.")
        if job is None:
            return
        if attempts[job.name] < ATTEMPTS:
            waiting.appendleft(job)
            yield Event("retried", job, text=fate)
        else:
            yield Event("failed", job, text=f"its worker died {ATTEMPTS} times, at last because {fate}")


def _share(number: int, gpus: int) -> str:
    """The GPU of a worker, where there are several: they take turns among those that may be used."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = allowed.split(",") if allowed else [str(index) for index in range(gpus)]
    return names[number % len(names)]
