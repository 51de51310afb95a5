"""What a method is: something that observes batches of a stream, once, and hands out predictors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import softmax

from everlearn.batches import Batch, Floats, Integers
from everlearn.encoders import Encoder
from everlearn.ledger import Ledger
from everlearn.memory import Memory
from everlearn.methods.peer_settings import PeerSettings
from everlearn.problems import Problem
from everlearn.settings import setting


@dataclass(frozen=True)
class MethodConfig(PeerSettings):
    """How it learns. The defaults are the paper's for BERT on text classification."""

    method: str = setting("oml-er", "the method (see `everlearn list methods`)")
    batch_size: int = setting(16, "examples in a mini-batch (b)", above=0)
    lr: float = setting(3e-5, "learning rate (methods that learn in episodes have meta_lr)", above=0)
    inner_lr: float = setting(1e-3, "learning rate of the inner loop (α)", above=0)
    meta_lr: float = setting(1e-5, "learning rate of the outer loop (β)", above=0)
    head_lr: float | None = setting(None, "learning rate of the slow head; where none is set, the encoder's", above=0)
    support_batches: int = setting(5, "batches in a support set (m)", above=0)
    replay_interval: int = setting(9600, "examples of the stream between two replays (R_I)", above=0)
    replay_rate: float = setting(0.01, "share of R_I that a replay draws from memory (r)", least=0, most=1)
    replay: bool = setting(True, "replay from memory while learning")
    meta_test: bool = setting(True, "fine-tune on random memory batches before predicting (meta-learning methods)")
    neuromodulation: bool = setting(True, "gate the features (anml-er); without it anml-er is maml-er")
    replay_gradient: str = setting(
        "mean", "a replay's gradient: mean over the sample, or sum over its batches of b", choices=("mean", "sum")
    )
    clip_norm: float | None = setting(
        None, "clip gradients to this norm before an optimiser step; default: never", above=0
    )
    clip_replay_only: bool = setting(False, "clip only the steps that learn from memory")
    micro_batch: int = setting(32, "most examples in one backward pass; larger batches are accumulated", above=0)
    epochs: int = setting(2, "passes over the pool (mtl only)", above=0)
    open_classes: bool = setting(False, "labels are not known in advance: the head grows when one first appears")
    as_published: bool = setting(False, "the choices of the authors' code: pooler, dropout, summed replay, clipping")


@dataclass(frozen=True)
class Parts:
    """What a method is built from."""

    encoder: Encoder
    problem: Problem
    memory: Memory
    ledger: Ledger
    seed: int


Observations = Mapping[str, float | torch.Tensor]
"""Named numbers about a learning step, such as its loss; tensors are only read when somebody looks."""


class Predictor(ABC):
    """Predicts with what was known when it was made: learning that goes on meanwhile does not change it."""

    @abstractmethod
    def predict(self, batch: Batch) -> Integers:
        """The label chosen for each example."""


class ScoringPredictor(Predictor):
    """A predictor that also says how likely each label is."""

    labels: Sequence[int]
    """What the columns of its scores and probabilities stand for."""

    @abstractmethod
    def scores(self, batch: Batch) -> Floats:
        """A row an example and a column a label, larger for what is likelier; -inf for what is out of the question."""

    def probabilities(self, batch: Batch) -> Floats:
        """Shares that add up to one: the softmax of the scores, unless a method knows better."""
        scores = self.scores(batch).astype(np.float64)
        # Where every label is out of the question, for lack of anything known, each is as likely as any other.
        scores[np.isneginf(scores).all(axis=1)] = 0.0
        shares: Floats = softmax(scores, axis=1)
        return shares


Chosen = Callable[[Batch], Integers]
"""Says which examples of a batch are meant, by their places in it."""


class Method(ABC):
    """Observes batches and hands out predictors. It is given examples only: no task names, no boundaries."""

    name: ClassVar[str]
    """What it is called on the command line."""
    summary: ClassVar[str]
    """One line for `everlearn list methods`."""
    family: ClassVar[str] = "other"
    """What it is akin to."""
    test_cost: ClassVar[str] = "one pass"
    """What a prediction takes."""
    lifelong: ClassVar[bool] = True
    """False for a method that is given the pool of all tasks for several epochs: an upper bound."""
    replays: ClassVar[bool] = False
    """Whether it reads the memory while learning."""
    replays_candidates: ClassVar[bool] = True
    """Whether an example that it replays is compared with its own candidates, where examples have such."""
    generates: ClassVar[bool] = False
    """Whether it learns from examples that it makes up itself."""
    freezes_encoder: ClassVar[bool] = False
    """Whether it leaves the encoder as it is, whatever the settings say."""
    takes_back: ClassVar[bool] = False
    """Whether it can take back what it learned from an example, given the example."""
    meta: ClassVar[bool] = False
    """Whether it learns in episodes with an inner loop."""

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        self.config = config
        self.problem = parts.problem
        self.memory = parts.memory
        self.ledger = parts.ledger

    def meet(self, batch: Batch) -> None:
        """Make room for labels that the batch shows for the first time; called before it is observed.

        The memory is told of them too: what is written, and when, is the method's affair, and may be little and late.
        """
        self.memory.note(batch)
        if self.problem.meet(batch):
            self.grow()

    def grow(self) -> None:
        """Keep whatever is kept for each label for the problem's new labels too (open classes)."""

    @abstractmethod
    def observe(self, batch: Batch) -> Observations:
        """Learn from the next batch of the stream."""

    def finish(self) -> Observations:
        """Learn from whatever is still waiting: the stream has ended."""
        return {}

    def forget(self, label: int) -> None:
        """Let go of what is kept for this label alone and can be told apart from the rest."""

    def take_back(self, batch: Batch) -> None:
        """Undo what was learned from these examples, where a method can (`takes_back`)."""

    def discard(self, chosen: Chosen) -> None:
        """Let go of examples that still wait to be learned inside the method."""

    @abstractmethod
    def predictor(self) -> Predictor:
        """A predictor with the knowledge of this moment."""

    def signals(self, batch: Batch) -> Mapping[str, torch.Tensor]:
        """What goes on inside for each example, by name, for figures; most methods have nothing to show."""
        return {}

    def bytes_kept(self) -> int:
        """What it holds beside encoder, head, optimiser and the memory's examples; a frozen copy is added to it."""
        return _bytes_in({name: kept for name, kept in self.state().items() if name not in ("weights", "optimiser")})

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything needed to go on later, as nested dicts of plain values, arrays and tensors.

        Under `weights` and `optimiser` the network that is trained, and its moments.
        """

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""


def _bytes_in(kept: Any) -> int:
    """Of all arrays and tensors in a nested state.

    >>> _bytes_in({"a": [np.zeros(3), torch.zeros(2)], "b": {"c": 7}})
    32
    """
    if isinstance(kept, torch.Tensor | np.ndarray):
        return kept.nbytes
    if isinstance(kept, dict):
        return sum(map(_bytes_in, kept.values()))
    return sum(map(_bytes_in, kept)) if isinstance(kept, list | tuple) else 0
