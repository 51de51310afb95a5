"""A model's weights as one vector: what handles them takes one step instead of one for each of a hundred tensors."""

import copy
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call


@dataclass(frozen=True)
class Layout:
    """Which weights lie in a vector, end to end.

    >>> layout = Layout.of({"weight": torch.eye(2), "bias": torch.ones(2)})
    >>> layout.views(torch.arange(6.0))["bias"]
    tensor([4., 5.])
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    @classmethod
    def of(cls, weights: Mapping[str, torch.Tensor]) -> "Layout":
        """The layout of these weights."""
        return cls(tuple(weights), tuple(weight.shape for weight in weights.values()))

    @property
    def size(self) -> int:
        """How many numbers the vector has."""
        return sum(shape.numel() for shape in self.shapes)

    def views(self, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        """The weights in a vector, by name; gradients go back through this in one piece."""
        parts = torch.split(vector, [shape.numel() for shape in self.shapes]) if self.shapes else ()
        return {name: part.view(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}

    def changed(self, vector: torch.Tensor, changes: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """A vector with something added to some of its weights; gradients go back to vector and changes alike.

        >>> layout = Layout.of({"weight": torch.eye(2), "bias": torch.ones(2)})
        >>> layout.changed(torch.zeros(6), {"bias": torch.tensor([7.0, 8.0])})
        tensor([0., 0., 0., 0., 7., 8.])
        """
        weights = self.views(vector)
        changed = {name: weights[name] + change for name, change in changes.items()}
        return torch.cat([weight.reshape(-1) for weight in {**weights, **changed}.values()])


class Skeleton:
    """A model without its weights, which it is handed whenever it computes."""

    def __init__(self, model: nn.Module, learned: Layout, kept: Layout, ties: bool) -> None:
        self.model = model
        self.learned, self._kept = learned, kept
        self._ties = ties
        """Whether the model uses some weight in two places, which makes handing it over take longer."""
        self._embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
        self._one_at_a_time = threading.Lock()  # while one thread's weights are in place, another's cannot be

    def __deepcopy__(self, memo: dict[int, Any]) -> "Skeleton":
        """Not in the middle of a call, when weights are in place."""
        with self._one_at_a_time:
            return Skeleton(copy.deepcopy(self.model, memo), self.learned, self._kept, self._ties)

    @classmethod
    def of(cls, model: nn.Module) -> "tuple[Skeleton, torch.Tensor, torch.Tensor]":
        """Take a model's weights out: the skeleton, a vector of those that learn, a vector of those that are kept."""
        named = dict(model.named_parameters())
        learned = {name: weight for name, weight in named.items() if weight.requires_grad}
        kept = {name: weight for name, weight in named.items() if not weight.requires_grad}
        ties = len(list(model.named_parameters(remove_duplicate=False))) > len(named)
        put_weights(model, {name: weight.detach().to("meta") for name, weight in named.items()})
        skeleton = cls(model, Layout.of(learned), Layout.of(kept), ties)
        return skeleton, _flatten(learned.values()), _flatten(kept.values())

    def named_weights(self, learned: torch.Tensor, kept: torch.Tensor) -> dict[str, torch.Tensor]:
        """The weights in two such vectors, by the model's own names."""
        return {**self.learned.views(learned), **self.kept_weights(kept)}

    def kept_weights(self, kept: torch.Tensor) -> dict[str, torch.Tensor]:
        """Those in the second vector alone."""
        return self._kept.views(kept)

    def __call__(self, weights: Mapping[str, torch.Tensor], sparse: bool = False, **inputs: Any) -> Any:
        """The model's output with these weights; `sparse` gradients of embeddings hold the rows looked up only."""
        with self._one_at_a_time, _sparse(self._embeddings if sparse else []):
            return functional_call(self.model, dict(weights), (), inputs, tie_weights=self._ties)


@contextmanager
def _sparse(embeddings: Collection[nn.Embedding]) -> Iterator[None]:
    """Meanwhile these have gradients of the rows that were looked up only."""
    for embedding in embeddings:
        embedding.sparse = True
    try:
        yield
    finally:
        for embedding in embeddings:
            embedding.sparse = False


def put_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Let these tensors be the model's weights from now on, in all the places where it uses them."""
    instead = {id(old): nn.Parameter(weights[name], requires_grad=False) for name, old in model.named_parameters()}
    for module in model.modules():
        for name, old in module._parameters.items():
            if old is not None:
                module._parameters[name] = instead[id(old)]


def _flatten(weights: Iterable[torch.Tensor]) -> torch.Tensor:
    parts = [weight.detach().reshape(-1) for weight in weights]
    return torch.cat(parts) if parts else torch.empty(0)
