"""A worker process of the local engine: jobs come in as lines of JSON, what happens goes out the same way.

`python -m everlearn.sweep.worker N` carries out N jobs at once, each in a thread of its own.
"""

import json
import os
import queue
import sys
import threading
import traceback
from contextlib import nullcontext
from functools import partial
from typing import Any, TextIO

from everlearn.errors import UserError
from everlearn.sweep.events import Job
from everlearn.sweep.share import ShareScreen
from everlearn.transfer import own_queue


class Wire:
    """The line to the process that hands out the jobs."""

    def __init__(self) -> None:
        # What libraries print must not get between the messages: it goes where errors go.
        self._out: TextIO = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._one_at_a_time = threading.Lock()

    def send(self, event: str, **values: Any) -> None:
        """One message."""
        with self._one_at_a_time:
            self._out.write(json.dumps({"event": event, **values}) + "\n")
            self._out.flush()


def main(at_once: int) -> None:
    """Carry out jobs until there are none; end at once when nobody is there to hand them out."""
    wire = Wire()
    jobs: queue.Queue[Job] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            jobs.put(Job(**json.loads(line)))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    import everlearn.sweep.work  # noqa: F401  # slow: the line is open before

    wire.send("ready")
    threads = [threading.Thread(target=work_off, args=(jobs, wire, at_once == 1)) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def work_off(jobs: "queue.Queue[Job]", wire: Wire, alone: bool) -> None:
    """Carry out one job after the other."""
    from everlearn.sweep.work import carry_out

    with nullcontext() if alone else own_queue():
        while True:
            job = jobs.get()
            print(f"--- {job.label}: {job.folder}", file=sys.stderr, flush=True)
            try:
                carry_out(job, ShareScreen(partial(_tell, wire, job)), alone)
            except UserError as error:
                wire.send("failed", job=job.name, text=str(error))
            except Exception as error:
                # What went wrong may have left the process, or its GPU, in a bad state: the next try gets a fresh one.
                traceback.print_exc()
                wire.send("broken", job=job.name, text=f"{type(error).__name__}: {error}")
                os._exit(1)
            else:
                wire.send("ended", job=job.name)


def _tell(wire: Wire, job: Job, share: float) -> None:
    wire.send("advanced", job=job.name, share=share)


if __name__ == "__main__":
    main(int(sys.argv[1]))
