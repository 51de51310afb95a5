"""GEM: the nearest gradient to the stream's that points against none of several parts of the memory.

Without task labels, groups of labels stand for tasks. One constraint a group would take as much room as so many copies
of the network, so a small part of the weights is constrained: the head, while the encoder's gradient is left as it is,
or head and low-rank adapters, which then are all that learns.
"""

from typing import Any

import numpy as np
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from everlearn.batches import Batch, Floats
from everlearn.methods.base import MethodConfig, Observations, Parts
from everlearn.methods.gradient import Gradients, RowChange, with_rows_changed
from everlearn.methods.low_rank import AdaptedNetwork
from everlearn.methods.network import Network
from everlearn.methods.replay import SparseReplay

JITTER = 1e-8
"""Added to the constraints' products, in relation to the largest, so that groups with like gradients can be solved."""


class GEM(SparseReplay):
    """SEQ, whose gradient is checked at every step against those of the last replay, one for each group."""

    name = "gem"
    summary = "sequential fine-tuning whose gradient of head or adapters points against no group of labels in memory"
    family = "replay"

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(config, parts)
        self.constraints: list[Gradients] = []
        """For each group the gradient of the weights that are constrained."""
        self.order: list[int] = []
        """Labels in the order in which they first came: those that came one after the other are a group."""

    def build_network(self, parts: Parts) -> Network:
        """With adapters, if they are to be constrained."""
        if self.config.gem_gradients == "head":
            return super().build_network(parts)
        return AdaptedNetwork(parts.encoder, parts.problem.head(parts.encoder.width), self.config.lora_rank)

    def observe(self, batch: Batch) -> Observations:
        """Step on the nearest gradient that the constraints allow."""
        self.order += [label for label in dict.fromkeys(batch.labels.tolist()) if label not in self.order]
        loss, gradients = self.gradient(batch)
        replayed = self.replayed_batch()
        if replayed is not None:
            found = [self.gradient(group, replayed=True)[1] for group in self.groups(replayed)]
            self.constraints = list(map(self._constrained, found))
        observations: dict[str, float | torch.Tensor] = {"loss": loss}
        if self.constraints:
            constraints = torch.stack(list(map(_as_vector, self.constraints)))
            own = _as_vector(self._constrained(gradients))
            allowed, violated = nearest_allowed(own, constraints, self.config.gem_margin)
            gradients = self._with_constrained(gradients, allowed)
            observations["violation"] = float(violated)
        self.memory.write(batch)
        self.update(gradients, replayed=replayed is not None)
        return observations

    def groups(self, batch: Batch) -> list[Batch]:
        """The batch's examples by group of labels."""
        place = {label: place for place, label in enumerate(self.order)}
        size = -(-len(self.order) // self.config.gem_groups)
        group = np.array([place[label] // size for label in batch.labels.tolist()])
        return [batch.take(np.flatnonzero(group == number)) for number in np.unique(group)]

    def change_rows(self, change: RowChange) -> None:
        """Those of the constraints too."""
        super().change_rows(change)
        self.constraints = [with_rows_changed(group, self._names(), change) for group in self.constraints]

    def forget(self, label: int) -> None:
        """It belongs to no group then."""
        super().forget(label)
        self.order = [known for known in self.order if known != label]

    def state(self) -> dict[str, Any]:
        """With the constraints."""
        return {**super().state(), "constraints": list(map(list, self.constraints)), "order": list(self.order)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on under the same constraints."""
        super().restore(state)
        device = self.network.encoder.device
        self.constraints = [[part.to(device, copy=True) for part in group] for group in state["constraints"]]
        self.order = list(state["order"])

    def _names(self) -> list[str]:
        """The weights that are constrained."""
        return [name for name in self.network.trained() if name.startswith(("head.", "adapters."))]

    def _constrained(self, gradients: Gradients) -> Gradients:
        """The part of the gradients that is constrained."""
        found = dict(zip(self.network.trained(), gradients, strict=True))
        return [found[name] for name in self._names()]

    def _with_constrained(self, gradients: Gradients, vector: torch.Tensor) -> Gradients:
        """The gradients with this vector as the part that is constrained."""
        found = dict(zip(self.network.trained(), gradients, strict=True))
        names = self._names()
        parts = torch.split(vector, [found[name].numel() for name in names])
        found.update({name: part.view_as(found[name]) for name, part in zip(names, parts, strict=True)})
        return list(found.values())


def _as_vector(gradients: Gradients) -> torch.Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients])


def nearest_allowed(
    gradient: torch.Tensor, constraints: torch.Tensor, margin: float = 0.0
) -> tuple[torch.Tensor, bool]:
    """The z nearest to g with ⟨z, g_k⟩ ≥ 0 for every constraint; and whether g itself was not allowed.

    With a margin γ every constraint counts with a weight of at least γ, so that z goes beyond what is just allowed.

    >>> nearest_allowed(torch.tensor([1.0, -2.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    (tensor([1., 0.]), True)
    >>> nearest_allowed(torch.tensor([1.0, -2.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), margin=0.5)
    (tensor([1.5000, 0.0000]), True)
    """
    # Like groups have like gradients: in single precision their products may not be those of any vectors.
    exact = constraints.double()
    products = (exact @ gradient.double()).cpu().numpy()
    if (products >= 0).all():
        return gradient, False
    weights = dual((exact @ exact.T).cpu().numpy(), products, margin)
    return gradient + torch.from_numpy(weights).to(constraints) @ constraints, True


def dual(gram: Floats, products: Floats, margin: float = 0.0) -> Floats:
    """v ≥ γ that minimises ½ vᵀGGᵀv + (Gg)ᵀv.

    With v = γ + w and GGᵀ = LLᵀ it is the non-negative least squares of ‖Lᵀw + L⁻¹(Gg + GGᵀγ)‖.
    """
    jitter = JITTER * max(float(gram.diagonal().max()), JITTER)
    root = cholesky(gram + jitter * np.eye(len(gram)), lower=True)
    beyond = products + gram @ np.full(len(gram), margin)
    solution: Floats = margin + nnls(root.T, -solve_triangular(root, beyond, lower=True))[0]
    return solution
