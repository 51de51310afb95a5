"""Whether an encoder can go the fast way: it is tried out, for models differ in what they pass on and ignore."""

import copy
import logging
from collections.abc import Callable, Mapping

import torch
from torch.nn.functional import cosine_similarity

from everlearn.batches import Sequences
from everlearn.encoders.encoder import Encoder
from everlearn.encoders.fast_path import FastPath
from everlearn.errors import first_line

TIMES = 3
"""At first a pass is carried out plainly, then it is recorded, then replayed."""
SAME_FEATURES = 0.99
"""Two ways of computing the same features in bf16 agree at least so far, as a cosine."""
SAME_GRADIENT = 0.9
"""The gradients of one weight, likewise: they pass through more sums."""
MATTERS = 0.01
"""Weights whose part of the whole gradient is smaller hold little but rounding."""
TEXTS = ("a text to try it with", "and another one, which is a little longer", "one of many words " * 40)


def working_fast_path(encoder: Encoder, first_position: int) -> FastPath | None:
    """The fast path of this encoder, if it leads where the plain one does."""
    tried = FastPath(encoder.pooling, first_position, encoder.dtype)
    try:
        problem = _difference(encoder, tried)
    except (RuntimeError, TypeError, ValueError, AttributeError, KeyError, ImportError) as error:
        problem = first_line(error)
    if problem is None:
        return copy.deepcopy(tried)  # what was recorded for the trial never comes again
    logging.getLogger("everlearn").warning("this encoder takes the plain, slower path (%s)", problem)
    return None


def _difference(encoder: Encoder, path: FastPath) -> str | None:
    """What the two ways do not agree on, features or gradients, if anything."""
    tried = Sequences(encoder.tokenizer(TEXTS))
    weights = encoder.weights.detach().requires_grad_()
    expected, wanted = _both(lambda: encoder.plain(tried, weights), weights)
    for _ in range(TIMES):
        features, gradient = _both(lambda: path(encoder.skeleton, weights, encoder.kept, tried), weights)
        if not (agreement := cosine_similarity(features, expected).min().item()) >= SAME_FEATURES:
            return f"results differ, cosine {agreement:.3f}"
        views = (encoder.skeleton.learned.views(vector) for vector in (gradient, wanted))
        if different := _different_gradient(*views):
            return f"gradients of {different} differ"
    return None


def _both(compute: Callable[[], torch.Tensor], weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Features, and the gradient of the weights for some gradient of the features."""
    with torch.enable_grad():
        features = compute()
        if not weights.numel():
            return features, weights.detach()
        upstream = torch.linspace(-1, 1, features.numel(), device=features.device).sin().view_as(features)
        return features.detach(), torch.autograd.grad(features, weights, upstream)[0]


def _different_gradient(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> str | None:
    """The first weight whose gradients do not agree, in direction or length."""
    whole = sum(gradient.square().sum().item() for gradient in wanted.values()) ** 0.5
    for name, gradient in wanted.items():
        length = gradient.norm().item()
        if length > MATTERS * whole:
            agreement = cosine_similarity(found[name].flatten(), gradient.flatten(), dim=0).item()
            if not (agreement >= SAME_GRADIENT and 0.5 < found[name].norm().item() / length < 2):
                return name
    return None
