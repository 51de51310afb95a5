"""GEM: the nearest gradient to the stream's that points against none of several parts of the memory.

Without task labels, groups of labels stand for tasks. One constraint a group would take as much room as so many copies
of the network, so only the head's gradients are constrained; the encoder's are left as they are.
"""

from typing import Any

import numpy as np
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from everlearn.batches import Batch, Floats
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.gradient import Gradients
from everlearn.methods.replay import SparseReplay

JITTER = 1e-8
"""Added to the constraints' products, in relation to the largest, so that groups with like gradients can be solved."""


class GEM(SparseReplay):
    """SEQ, whose head's gradient is checked at every step against those of the last replay, one for each group."""

    grows = False  # gradients of the head are kept as long as they were
    name = "gem"
    summary = "sequential fine-tuning whose head's gradient must not point against any group of labels in memory"
    family = "replay"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.constraints = torch.empty(0, 0)
        """One row a group, as long as the head has weights."""
        self.order: list[int] = []
        """Labels in the order in which they first came: those that came one after the other are a group."""

    def observe(self, batch: Batch) -> Observations:
        """Step on the nearest gradient that the constraints allow."""
        self.order += [label for label in dict.fromkeys(batch.labels.tolist()) if label not in self.order]
        loss, gradients = self.gradient(batch)
        replayed = self.replayed_batch()
        if replayed is not None:
            found = [self.gradient(group, replayed=True)[1] for group in self.groups(replayed)]
            self.constraints = torch.stack(list(map(self._head, found)))
        observations: dict[str, float | torch.Tensor] = {"loss": loss}
        if len(self.constraints):
            head = self._head(gradients)
            allowed, violated = nearest_allowed(head, self.constraints)
            gradients = self._with_head(gradients, allowed)
            observations["violation"] = float(violated)
        self.update(gradients, replayed=replayed is not None)
        self.memory.write(batch)
        return observations

    def groups(self, batch: Batch) -> list[Batch]:
        """The batch's examples by group of labels."""
        place = {label: place for place, label in enumerate(self.order)}
        size = -(-len(self.order) // self.config.gem_groups)
        group = np.array([place[label] // size for label in batch.labels.tolist()])
        return [batch.take(np.flatnonzero(group == number)) for number in np.unique(group)]

    def state(self) -> dict[str, Any]:
        """With the constraints."""
        return {**super().state(), "constraints": self.constraints, "order": list(self.order)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on under the same constraints."""
        super().restore(state)
        self.constraints = state["constraints"].to(self.network.encoder.device, copy=True)
        self.order = list(state["order"])

    def _in_head(self) -> list[bool]:
        return [name.startswith("head.") for name in self.network.trained()]

    def _head(self, gradients: Gradients) -> torch.Tensor:
        """The head's part as one vector."""
        return torch.cat([g.flatten() for g, own in zip(gradients, self._in_head(), strict=True) if own])

    def _with_head(self, gradients: Gradients, head: torch.Tensor) -> Gradients:
        """The gradients with another vector as the head's part."""
        changed, start = [], 0
        for gradient, own in zip(gradients, self._in_head(), strict=True):
            changed.append(head[start : start + gradient.numel()].view_as(gradient) if own else gradient)
            start += gradient.numel() if own else 0
        return changed


def nearest_allowed(gradient: torch.Tensor, constraints: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """The z nearest to g with ⟨z, g_k⟩ ≥ 0 for every constraint; and whether g itself was not allowed.

    >>> nearest_allowed(torch.tensor([1.0, -2.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    (tensor([1., 0.]), True)
    """
    products = (constraints @ gradient).double().cpu().numpy()
    if (products >= 0).all():
        return gradient, False
    weights = dual((constraints @ constraints.T).double().cpu().numpy(), products)
    return gradient + torch.from_numpy(weights).to(constraints) @ constraints, True


def dual(gram: Floats, products: Floats) -> Floats:
    """v ≥ 0 that minimises ½ vᵀGGᵀv + (Gg)ᵀv: with GGᵀ = LLᵀ the non-negative least squares of ‖Lᵀv + L⁻¹Gg‖."""
    jitter = JITTER * max(float(gram.diagonal().max()), JITTER)
    root = cholesky(gram + jitter * np.eye(len(gram)), lower=True)
    solution: Floats = nnls(root.T, -solve_triangular(root, products, lower=True))[0]
    return solution
