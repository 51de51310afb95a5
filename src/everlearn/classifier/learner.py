"""A lifelong method with its parts, fed with examples in portions of any size."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from everlearn.batches import Batch, Integers
from everlearn.config import Config
from everlearn.encoders import load_encoder
from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.experiment import choose_device
from everlearn.ledger import Ledger
from everlearn.memory import Memory
from everlearn.methods import Observations, Parts, Predictor, find_method
from everlearn.methods.base import Chosen
from everlearn.problems import OpenClassification
from everlearn.seeding import generator

PORTION = 1024
"""How many examples are tokenised at a time."""


class Learner:
    """Forms batches, lets the method observe them and hands out predictors that know everything given so far.

    However a sequence of examples is cut into calls of `learn`, the outcome is the same.
    """

    def __init__(self, config: Config, names: Sequence[str]) -> None:
        """`names` holds what each label is called, by its number, once there are examples of it."""
        self.config = config
        seed = config.run.seed
        # Fresh weights and dropout are drawn from a generator of the learner's own, never from the caller's.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator(seed, "torch").integers(2**62)))
            self.encoder = load_encoder(config.encoder, choose_device(config.run.device))
            self.problem = OpenClassification(names)
            self.ledger = Ledger()
            self.memory = Memory(config.memory, self.encoder.tokenizer.dtype, self.ledger, seed)
            parts = Parts(self.encoder, self.problem, self.memory, self.ledger, seed)
            self.method = find_method(config.method.method)(config.method, parts)
            self._randomness = torch.get_rng_state()
        self.waiting = self.tokenise([])
        """Examples that do not fill a batch yet."""

    def tokenise(self, examples: Sequence[Example]) -> Batch:
        """Examples as arrays."""
        return self.problem.tokenise(examples, self.encoder.tokenizer)

    def learn(self, examples: Sequence[Example], learned: Callable[[int, int], None]) -> None:
        """Learn from examples in the order given, and say which ones, from one place to another, when it has.

        Interrupted, it has learned those before, and the batch at hand in part; none of it is learned again.
        """
        size = self.config.method.batch_size
        with self._own_randomness():
            for start in range(0, len(examples), PORTION):
                portion = self.tokenise(examples[start : start + PORTION])
                place = start - len(self.waiting)
                batch = Batch.concat([self.waiting, portion])
                whole = len(batch) - len(batch) % size
                for first in range(0, whole, size):
                    self.waiting = batch.take([])
                    self._observe(batch.take(range(first, first + size)))
                    learned(max(start, place + first), place + first + size)
                self.waiting = batch.take(range(whole, len(batch)))
                learned(max(start, place + whole), place + len(batch))

    def predictor(self) -> Predictor:
        """A predictor for this moment, as if the stream had ended here.

        What fills no batch or episode yet is learned by a copy, which is then thrown away. So nothing is left out of
        a prediction, and predicting never changes what is learned.
        """
        frozen = {id(weight): weight for weight in self.encoder.parameters() if not weight.requires_grad}
        method = copy.deepcopy(self.method, frozen)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._randomness)
            if len(self.waiting):
                method.meet(self.waiting)
                method.observe(self.waiting)
            method.finish()
            return method.predictor()

    def discard(self, chosen: Chosen) -> Integers:
        """Let go of examples, in the memory and wherever they wait to be learned; the label of each."""
        gone = []

        def noted(batch: Batch) -> Integers:
            rows = chosen(batch)
            gone.append(batch.labels[rows])
            return rows

        everything = self.memory.all() if len(self.memory) else self.tokenise([])
        remembered = noted(everything).tolist()
        if remembered:
            self.method.take_back(everything.take(remembered))
            self.memory.remove(remembered)
        self.waiting = self.waiting.without(noted(self.waiting))
        self.method.discard(noted)
        return np.concatenate(gone)

    def state(self) -> dict[str, Any]:
        """Everything that changes while it learns."""
        return {
            "problem": self.problem.state(),
            "method": self.method.state(),
            "memory": self.memory.state(),
            "ledger": self.ledger.as_dict(),
            "waiting": self.waiting.state(),
            "randomness": self._randomness,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a saved learner stood."""
        self.problem.restore(state["problem"])
        self.method.restore(state["method"])
        self.memory.restore(state["memory"])
        self.ledger.restore(state["ledger"])
        self.waiting = Batch.from_state(state["waiting"])
        self._randomness = state["randomness"]

    def _observe(self, batch: Batch) -> None:
        with self.ledger.train.timed():
            self.ledger.train.stream_examples += len(batch)
            self.method.meet(batch)
            self._check(self.method.observe(batch))
            # Such a method has no use for the memory itself, but what it is to take back has to be kept.
            if self.method.takes_back:
                self.memory.write(batch)

    def _check(self, observations: Observations) -> None:
        for name, value in observations.items():
            if not math.isfinite(float(value)):
                raise UserError(
                    f"the {name} is no longer a finite number: go back to the model as it was saved, and lower the "
                    "learning rates."
                )

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._randomness)
            yield
            self._randomness = torch.get_rng_state()
