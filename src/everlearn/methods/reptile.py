"""What methods in the manner of Reptile share: weights set aside, and moved part of the way."""

import torch

from everlearn.methods.network import Weights


def interpolate(start: Weights, end: Weights, share: float) -> Weights:
    """start + share · (end − start).

    >>> interpolate({"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([3.0, 0.0])}, 0.25)
    {'w': tensor([1.5000, 1.5000])}
    """
    return {name: weight + share * (end[name] - weight) for name, weight in start.items()}


def copied(weights: Weights) -> Weights:
    """Weights of their own, ready to be learned."""
    return {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}


@torch.no_grad()
def put(weights: Weights, into: Weights) -> None:
    """Make other weights equal to these."""
    for name, weight in into.items():
        weight.copy_(weights[name])
