"""A service that is killed and started again, under writes, and what became of every example that was acknowledged."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from everlearn import LifelongClassifier
from running_service import Client, Process
from support import labelled_texts

SAVES_OFTEN = "from everlearn.service import learning; learning.SECONDS_BETWEEN_SAVES = 0.2"
"""So that many kills come while a checkpoint is written or the journal is pruned."""


@dataclass(frozen=True)
class Outcome:
    """Examples counted after the last restart."""

    acknowledged: int
    learned: int
    lost: int
    twice: int


class Writer(threading.Thread):
    """Teaches one example after the other and notes what was acknowledged."""

    def __init__(self, client: Client, examples: list[tuple[str, str]], pause: float) -> None:
        super().__init__(daemon=True)
        self.client, self.examples, self.pause = client, examples, pause
        self.acknowledged: list[str] = []

    def run(self) -> None:
        for text, label in self.examples:
            try:
                self.client.teach((text, label))
            except (OSError, ValueError, HTTPException):  # killed while it answered
                return
            self.acknowledged.append(text)
            time.sleep(self.pause)


def kill_again_and_again(
    folder: Path,
    cycles: int,
    options: tuple[str, ...],
    longest: float = 1.5,
    pause: float = 0.0,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Kill the service at a random moment, `cycles` times, and look for what it acknowledged in the model."""
    rng = random.Random(1)
    acknowledged: list[str] = []
    for cycle in range(cycles):
        # Large enough a memory to hold everything, so that each example can be found in it.
        room = (*options, "--memory-capacity", "1000000") if cycle == 0 else ()
        process = Process(folder, *room, before=SAVES_OFTEN)
        examples = labelled_texts(2000, range(6), seed=cycle)
        pairs = [(f"{example.text} of {cycle}", f"label{example.label}") for example in examples]
        writer = Writer(process.client, pairs, pause)
        writer.start()
        time.sleep(rng.uniform(0.1, longest))
        process.kill()
        writer.join(30)
        acknowledged += writer.acknowledged
        progress(cycle + 1)
    last = Process(folder)
    said = last.stop()  # learns what is left
    assert last.process.returncode == 0, said
    assert "examples learned and saved" in said, said
    model = LifelongClassifier.load(folder)
    batches = [model.learner_.memory.all().tokens, model.learner_.waiting.tokens]
    found = [tokens[row].tobytes() for tokens in batches for row in range(len(tokens))]
    wanted = model.learner_.encoder.tokenizer(acknowledged)
    different = set(found)
    lost = sum(wanted[row].tobytes() not in different for row in range(len(wanted)))
    return Outcome(len(acknowledged), model.examples_, lost, len(found) - len(different))
