"""What all gradient methods share: a network, AdamW on its slow weights, gradients, saving and predicting."""

import copy
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np
import torch

from everlearn.batches import Batch
from everlearn.memory import Judgement
from everlearn.methods.base import Method, MethodConfig, Parts, Predictor
from everlearn.methods.network import Network, NetworkPredictor, Weights, in_evaluation

Gradients = list[torch.Tensor]
"""One tensor for each trained parameter, in the order of `Network.trained`."""

RowChange = Callable[[torch.Tensor], torch.Tensor]
"""What becomes of a tensor that has a row for each row of the head."""


class GradientMethod(Method):
    """Trains a network; a subclass says on what and when."""

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.network = self.build_network(parts).train()
        self.network.count_on(self.ledger.train)
        self.optimiser = self._build_optimiser(self.network.trained())
        self.count_trained()
        self.memory.judge = self.judge

    def build_network(self, parts: Parts) -> Network:
        """The network of the paper: the encoder and one linear head."""
        return Network(parts.encoder, parts.problem.head(parts.encoder.width))

    def learning_rate(self) -> float:
        """The rate of the slow weights."""
        return self.config.lr

    def loss(self, network: Network, batch: Batch, weights: Weights | None = None) -> torch.Tensor:
        """The mean loss of a batch, with some of the network's weights replaced by `weights`."""
        sequences = self.problem.sequences(batch)
        logits = network.logits_at(weights, sequences) if weights else network(sequences)
        return self.problem.loss(logits, batch)

    def gradient(
        self, batch: Batch, weights: Weights | None = None, replayed: bool = False
    ) -> tuple[torch.Tensor, Gradients]:
        """Loss and gradient of a batch at the slow weights, or at `weights` where they are given."""
        losses = (share * self.loss(self.network, part, weights) for part, share in self.parts(batch, replayed))
        return self.gradient_of(losses, {**self.network.trained(), **(weights or {})})

    def gradient_of(self, losses: Iterable[torch.Tensor], at: Weights | None = None) -> tuple[torch.Tensor, Gradients]:
        """The sum of losses that are computed one after the other, and its gradient at the trained weights or `at`."""
        at = at or self.network.trained()
        total: torch.Tensor | None = None
        gradients: Gradients = []
        with self.ledger.train.phase("gradient"):
            for loss in losses:
                # Where nothing learns (no head, and the encoder frozen) there is a loss all the same.
                found = torch.autograd.grad(loss, list(at.values()), materialize_grads=True) if at else ()
                gradients = list(torch._foreach_add(gradients, found) if gradients else found)
                total = loss.detach() if total is None else total + loss.detach()
        assert total is not None, "a batch holds at least one example"
        return total, gradients

    def update(self, gradients: Gradients, replayed: bool = False) -> None:
        """One AdamW step on the slow weights, if there are any."""
        trained = list(self.network.trained().values())
        if not trained:
            return
        with self.ledger.train.phase("optimiser"):
            for weight, gradient in zip(trained, gradients, strict=True):
                weight.grad = gradient
            if self.config.clip_norm and (replayed or not self.config.clip_replay_only):
                torch.nn.utils.clip_grad_norm_(trained, self.config.clip_norm)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        self.ledger.train.optimiser_steps += 1

    @torch.no_grad()
    def judge(self, batch: Batch) -> Judgement:
        """What the slow weights make of a batch, for memory policies that ask."""
        with in_evaluation(self.network):
            parts = [self.judge_part(part) for part in batch.split(self.config.micro_batch)]
        return Judgement(
            np.concatenate([part.losses for part in parts]), np.concatenate([part.right for part in parts])
        )

    def judge_part(self, part: Batch) -> Judgement:
        """The same of examples that fit, by the network as it predicts."""
        logits = self.network(self.problem.sequences(part))
        losses = self.problem.losses(logits, part).float().cpu().numpy()
        return Judgement(losses, self.problem.predict(logits, part) == part.labels)

    def grow(self) -> None:
        """Rows for new labels, in the head and in all that is kept for each of its rows."""
        self.change_rows(self.problem.grown)
        self.count_trained()

    def count_trained(self) -> None:
        """Tell the ledger how many weights learn."""
        self.ledger.parameters_trained = sum(weight.numel() for weight in self.network.trained().values())

    def forget(self, label: int) -> None:
        """Empty the label's row of the head; what the encoder has learned from a label cannot be told apart."""
        self.change_rows(lambda rows: self.problem.renewed(rows, label))

    @torch.no_grad()
    def change_rows(self, change: RowChange) -> None:
        """Change the rows of the head and of its optimiser's moments; a method adds what else it keeps for each row."""
        for weight in chain(self.network.head.parameters(), self.network.head.buffers()):
            if weight.dim():  # a number belongs to all rows
                weight.data = change(weight.data)  # the same parameter: optimiser and network go on holding it
                moments = self.optimiser.state.get(weight, {})
                moments.update({name: change(moment) for name, moment in moments.items() if moment.dim()})

    def copy_for_testing(self) -> Network:
        """A network of its own for a predictor, whose work counts as test time; what is frozen is shared."""
        frozen = {id(weight): weight for weight in self.network.parameters() if not weight.requires_grad}
        network = copy.deepcopy(self.network, frozen).eval()
        network.count_on(self.ledger.test)
        return network

    def predictor(self) -> Predictor:
        """The network as it is now."""
        return NetworkPredictor(self.copy_for_testing(), self.problem)

    def state(self) -> dict[str, Any]:
        """Trained weights and the optimiser's moments; frozen weights come from the encoder again."""
        optimiser = self.optimiser.state_dict()["state"]
        return {"weights": dict(self.network.trained()), "optimiser": {str(i): s for i, s in optimiser.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from saved weights and moments."""
        self.grow()  # to the labels that the problem knew when this was saved
        trained = self.network.trained()
        with torch.no_grad():
            for name, weight in trained.items():
                weight.copy_(state["weights"][name])
        moments = {int(i): saved for i, saved in state["optimiser"].items()}
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})

    def parts(self, batch: Batch, replayed: bool = False) -> list[tuple[Batch, float]]:
        """A batch in parts that fit, with the weight of each part's mean loss."""
        if replayed and self.config.replay_gradient == "sum":
            return [(part, 1.0) for part in batch.split(self.config.batch_size)]
        rows = self.problem.rows(batch)
        return [(part, self.problem.rows(part) / rows) for part in batch.split(self.config.micro_batch)]

    def _build_optimiser(self, trained: Weights) -> torch.optim.Optimizer:
        rate = self.learning_rate()
        head_rate = rate if self.config.head_lr is None else self.config.head_lr
        body = [weight for name, weight in trained.items() if not name.startswith("head.")]
        head = [weight for name, weight in trained.items() if name.startswith("head.")]
        groups = [{"params": body, "lr": rate}, {"params": head, "lr": head_rate}]
        return torch.optim.AdamW(groups, weight_decay=0.0, eps=1e-6, fused=True)


@torch.no_grad()
def with_rows_changed(kept: Iterable[torch.Tensor], names: Iterable[str], change: RowChange) -> Gradients:
    """What is kept for each of these parameters, in their shapes, with the head's rows changed; it may be nothing yet.

    A new label's row starts as a copy of the one for labels to come, whatever it holds: gradients and importance are
    then those that a closed head would have for a class it has not seen.

    >>> with_rows_changed([torch.ones(1), torch.zeros(1)], ["encoder.weights", "head.bias"], lambda rows: rows + 5)
    [tensor([1.]), tensor([5.])]
    """
    pairs = zip(names, kept, strict=False)
    return [change(tensor) if name.startswith("head.") and tensor.dim() else tensor for name, tensor in pairs]
