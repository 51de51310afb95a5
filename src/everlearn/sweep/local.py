"""The local engine: worker processes on this machine, several at once; one that dies is replaced, its runs retried.

Runs on one GPU may share a process, each in a thread with a queue of its own on the device: a GPU computes for one
process at a time, but for several queues of a process at once.
"""

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
"""The command of a worker; behind it comes how many runs it carries out at once."""

Message = tuple["WorkerProcess", dict[str, Any] | None]
"""What a worker has sent; None when it is gone."""


class WorkerProcess:
    """A process that carries out one job after another, or a few at once."""

    def __init__(
        self,
        number: int,
        threads: int,
        tokenising: int,
        together: int,
        gpus: int,
        logs: Path,
        inbox: "queue.Queue[Message]",
    ) -> None:
        self.number = number
        self.jobs: dict[str, Job] = {}
        """Those it is at work on, by name."""
        self.ready = False
        self.broken_by = self.last_words = ""
        """The job that brought it down, and how, where it could still say so."""
        self.log = logs / f"worker-{number}.log"
        surroundings = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "true" if tokenising > 1 else "false",
            "RAYON_NUM_THREADS": str(tokenising),  # which tokenizers go by
        }
        if gpus > 1:
            surroundings["CUDA_VISIBLE_DEVICES"] = _share(number, gpus)
        # A session of its own: Ctrl-C reaches the sweep alone, which then ends its workers in good order.
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*WORKER, str(together)],
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
        self.jobs[job.name] = job
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
    """Keeps `at_once` runs going, `together` of them in a process."""

    def __init__(self, at_once: int, threads: int, gpus: int, logs: Path, together: int = 1) -> None:
        self.at_once = at_once
        self._threads, self._gpus, self._logs = threads, gpus, logs
        self._together = min(together, at_once)
        self._tokenising = threads
        self._inbox: queue.Queue[Message] = queue.Queue()

    def carry_out(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Carry out all jobs; a run whose worker dies is started again, from its last checkpoint."""
        waiting = deque(jobs)
        attempts: Counter[str] = Counter()
        processes = -(-min(self.at_once, len(jobs)) // self._together)
        self._tokenising = tokenising_threads(self._threads, processes, self._gpus)
        workers = {self._start(number) for number in range(processes)}
        try:
            while workers:
                worker, message = self._inbox.get()
                if worker not in workers:
                    continue  # the last words of one that was replaced
                if message is None:
                    workers.remove(worker)
                    yield from self._buried(worker, waiting, attempts)
                    if waiting:
                        workers.add(self._start(worker.number))
                    continue
                yield from self._heard(worker, message)
                room = self.at_once - sum(len(worker.jobs) for worker in workers)
                yield from self._handed_out(worker, waiting, attempts, room)
                if worker.ready and not worker.jobs and not waiting:
                    workers.remove(worker)
                    worker.stop()
        finally:
            for worker in workers:
                worker.stop()

    def _start(self, number: int) -> WorkerProcess:
        return WorkerProcess(
            number, self._threads, self._tokenising, self._together, self._gpus, self._logs, self._inbox
        )

    def _heard(self, worker: WorkerProcess, message: dict[str, Any]) -> Iterator[Event]:
        event, name = message["event"], message.get("job", "")
        if event == "ready":
            worker.ready = True
        elif event == "broken":
            worker.broken_by, worker.last_words = name, message["text"]
        elif event == "advanced":
            yield Event("advanced", worker.jobs[name], share=message["share"])
        elif event == "ended":
            yield Event("ended", worker.jobs.pop(name), share=1.0)
        else:
            yield Event("failed", worker.jobs.pop(name), text=message["text"])

    def _handed_out(
        self, worker: WorkerProcess, waiting: "deque[Job]", attempts: "Counter[str]", room: int
    ) -> Iterator[Event]:
        """As many jobs as there is room for, in the worker and in all."""
        while worker.ready and not worker.broken_by and waiting and room and len(worker.jobs) < self._together:
            job = waiting.popleft()
            attempts[job.name] += 1
            room -= 1
            worker.give(job)
            yield Event("started", job)

    def _buried(self, worker: WorkerProcess, waiting: "deque[Job]", attempts: "Counter[str]") -> Iterator[Event]:
        fate = worker.fate()
        worker.stop()
        if not worker.ready:
            raise UserError(f"a worker process did not start ({fate}): see {worker.log}.")
        for job in reversed(worker.jobs.values()):
            if worker.broken_by not in ("", job.name):
                attempts[job.name] -= 1  # another run's fault
            if attempts[job.name] < ATTEMPTS:
                waiting.appendleft(job)
                yield Event("retried", job, text=fate)
            else:
                yield Event("failed", job, text=f"its worker died {ATTEMPTS} times, at last because {fate}")


def tokenising_threads(threads: int, processes: int, gpus: int) -> int:
    """How many threads a worker tokenises with: what `--threads` says, but on a GPU its share of all cores.

    There the cores have little else to do, and a GPU waits for texts that come too slowly.
    """
    share = (os.cpu_count() or 1) // max(processes, 1)
    return max(threads, share) if gpus else threads


def _share(number: int, gpus: int) -> str:
    """The GPU of a worker, where there are several: they take turns among those that may be used."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = allowed.split(",") if allowed else [str(index) for index in range(gpus)]
    return names[number % len(names)]
