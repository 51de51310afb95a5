"""The engine for more than one machine: Ray, started here or on a cluster that is already there (extra `ray`)."""

import logging
import os
import socket
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from everlearn.errors import UserError
from everlearn.run_folder import write_text
from everlearn.sweep.events import ATTEMPTS, Event, Job
from everlearn.sweep.folder import KEPT
from everlearn.sweep.share import Shares, ShareScreen

OBJECT_STORE_BYTES = 80 * 1024 * 1024
"""Jobs and results are small texts: Ray's default, a third of the memory, would be wasted on them."""
SECONDS_TO_ANSWER = 10.0
SECONDS_BETWEEN_LOOKS = 1.0


class RayEngine:
    """Hands runs to Ray, as many at once as there is room for."""

    def __init__(
        self,
        at_once: int | None,
        threads: int,
        gpus: float | None,
        address: str | None,
        logs: Path,
        on_gpu: bool = False,
    ) -> None:
        """Where nobody says how many `gpus` a run gets, those that may compute `on_gpu` share what there is."""
        if gpus is not None and not (0 <= gpus <= 1 or float(gpus).is_integer()):
            raise UserError(f"--gpus is a whole number, or a part of one GPU, not {gpus:g}.")
        try:
            import ray
        except ImportError as error:
            raise UserError("Ray is not installed: run `pip install 'everlearn[ray]'`.") from error
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray: Any = ray
        self._threads, self._logs = threads, logs
        common: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            if address:
                _knock(address)
                ray.init(address=address, **common)
            else:
                cores = at_once * threads if at_once else None
                ray.init(num_cpus=cores, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **common)
        except (OSError, RuntimeError, ValueError) as error:
            where = f"at {address}" if address else "on this machine"
            raise UserError(f"Ray cannot be used {where}: {' '.join(str(error).split())}.") from error
        there = self._ray.cluster_resources().get("GPU", 0.0)
        self._gpus = (share_of_gpus(there, at_once) if on_gpu else 0.0) if gpus is None else gpus
        # Asked for in any case: Ray would wait for ever, and silently, for a machine that has room.
        room = self._room()
        self.at_once = at_once or room

    def carry_out(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Carry out all jobs; a run whose worker dies is started again, from its last checkpoint."""
        ray = self._ray
        task = ray.remote(num_cpus=self._threads, num_gpus=self._gpus, max_retries=0)(_carry_out)
        # Where runs tell how far they are. Progress is all that is lost with it.
        shares = ray.remote(Shares).options(num_cpus=0, max_restarts=-1).remote()
        waiting, attempts = deque(jobs), Counter[str]()
        running: dict[Any, Job] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.at_once:
                    job = waiting.popleft()
                    attempts[job.name] += 1
                    running[task.remote(job.as_dict(), shares)] = job
                    yield Event("started", job)
                ended, _ = ray.wait(list(running), timeout=SECONDS_BETWEEN_LOOKS)
                told = self._told(shares)
                for job in running.values():
                    if job.name in told:
                        yield Event("advanced", job, share=told[job.name])
                for reference in ended:
                    job = running.pop(reference)
                    event = self._outcome(reference, job)
                    if event.kind == "retried" and attempts[job.name] >= ATTEMPTS:
                        text = f"it was tried {ATTEMPTS} times, at last: {event.text} (see {self._log_of(job)})"
                        event = Event("failed", job, text=text)
                    elif event.kind == "retried":
                        waiting.appendleft(job)
                    yield event
        finally:
            ray.shutdown()

    def _outcome(self, reference: Any, job: Job) -> Event:
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._log(job, str(error))
            return Event("retried", job, text=str(error).strip().splitlines()[-1])
        if "traceback" in answer:
            self._log(job, answer["traceback"])
            if "failed" in answer:
                return Event("failed", job, text=answer["failed"])
            return Event("retried", job, text=answer["broken"])
        folder = Path(job.folder)
        if not (folder / "result.json").is_file():  # another machine, which does not share this one's files
            folder.mkdir(parents=True, exist_ok=True)
            for name in KEPT:  # result.json is not the last here, but nobody else reads this folder meanwhile
                if name in answer:
                    write_text(folder / name, answer[name])
        return Event("ended", job, share=1.0)

    def _told(self, shares: Any) -> dict[str, float]:
        """How far runs are that have got on; nothing while the one who knows is out of reach."""
        try:
            return dict(self._ray.get(shares.take.remote(), timeout=SECONDS_BETWEEN_LOOKS))
        except self._ray.exceptions.RayError:
            return {}

    def _log(self, job: Job, text: str) -> None:
        """All that is known of an attempt that failed; a line of it is shown."""
        with self._log_of(job).open("a", encoding="utf-8") as log:
            log.write(f"--- {job.label}: {job.folder}\n{text.rstrip()}\n")

    def _log_of(self, job: Job) -> Path:
        return self._logs / f"{job.name}.log"

    def _room(self) -> int:
        """How many runs the cluster has room for at once."""
        machines = [machine["Resources"] for machine in self._ray.nodes() if machine["Alive"]]
        room = room_on(machines, self._threads, self._gpus)
        if room < 1:
            self._ray.shutdown()
            raise UserError(
                f"the Ray cluster has no room for a run that needs {self._threads} cores and {self._gpus:g} GPUs: "
                "lower --threads or --gpus."
            )
        return room


def room_on(machines: Iterable[Mapping[str, float]], threads: int, gpus: float) -> int:
    """How many runs there is room for at once; each needs all it takes on one machine.

    >>> machines = [{"CPU": 2.0, "GPU": 1.0}, {"CPU": 3.0}]
    >>> room_on(machines, 1, 0), room_on(machines, 1, 0.5), room_on(machines, 4, 0)
    (5, 2, 0)
    """
    needs = {"CPU": threads, **({"GPU": gpus} if gpus else {})}
    return sum(int(min(there.get(kind, 0.0) / amount for kind, amount in needs.items())) for there in machines)


def share_of_gpus(there: float, at_once: int | None) -> float:
    """What each of so many runs at once gets of the GPUs there are, at most a whole one: Ray hides all others from it.

    >>> share_of_gpus(2, 8), share_of_gpus(8, 2), share_of_gpus(8, None), share_of_gpus(0, 2)
    (0.25, 1.0, 1.0, 0.0)
    """
    return min(1.0, there / at_once if at_once else there)


def _carry_out(job: dict[str, Any], shares: Any) -> dict[str, str]:
    """In a process of Ray's: the run, and the files that are kept of it, or what went wrong."""
    from everlearn.sweep.work import carry_out

    def tell(share: float) -> None:
        shares.note.remote(job["name"], share)

    try:
        carry_out(Job(**job), ShareScreen(tell))
    except UserError as error:
        return {"failed": str(error), "traceback": traceback.format_exc()}
    except Exception as error:
        broken = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"broken": broken, "traceback": traceback.format_exc()}
    folder = Path(job["folder"])
    return {name: (folder / name).read_text(encoding="utf-8") for name in KEPT if (folder / name).is_file()}


def _knock(address: str) -> None:
    """Fail at once where nobody answers: Ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
