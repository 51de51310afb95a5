"""A bf16 copy of an encoder that computes on packed sequences; the encoder itself keeps the fp32 weights."""

import copy
import inspect
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.func import functional_call

from everlearn.encoders.flat import Skeleton, put_weights
from everlearn.encoders.in_place import GradientsInPlace
from everlearn.encoders.packing import ATTENTION, Packed, packed_attention


class PackedEncoder(nn.Module):
    """A transformers model that attends within packed sequences, and the pooling over them."""

    def __init__(self, model: nn.Module, pooling: str) -> None:
        from transformers import AttentionInterface

        super().__init__()
        AttentionInterface.register(ATTENTION, packed_attention)
        self.model = cast(Any, model)
        self.model.set_attn_implementation(ATTENTION)
        if self.model.config._attn_implementation != ATTENTION:
            raise ValueError("its attention cannot be exchanged")
        self._takes_types = "token_type_ids" in inspect.signature(self.model.forward).parameters
        self._pooling = pooling

    def forward(self, packed: Packed) -> torch.Tensor:
        """One fp32 feature vector for each sequence."""
        types = {"token_type_ids": packed.types} if self._takes_types else {}
        output = self.model(
            input_ids=packed.ids,
            position_ids=packed.positions,
            cu_seq_lens_q=packed.bounds,
            max_length_q=packed.shape.longest,
            **types,
        )
        states, bounds = output.last_hidden_state.squeeze(0), packed.bounds.long()
        if self._pooling == "mean":
            sums = torch.segment_reduce(states.float(), "sum", offsets=bounds, unsafe=True)
            return sums / bounds.diff().clamp(min=1).unsqueeze(1)
        # Room that no sequence takes begins behind the last token.
        first: torch.Tensor = states.index_select(0, bounds[:-1].clamp(max=packed.shape.tokens - 1))
        if self._pooling == "pooler":
            first = self.model.pooler(first.unsqueeze(1))
        return first.float()


class Twin:
    """Computes the features of packed sequences with weights that it is given."""

    def __init__(self, skeleton: Skeleton, learned: torch.Tensor, kept: torch.Tensor, pooling: str, dtype: torch.dtype):
        self.learned, self._kept = (vector.detach().to(dtype, copy=True) for vector in (learned, kept))
        self._skeleton = copy.deepcopy(skeleton)
        put_weights(self._skeleton.model, self._skeleton.named_weights(self.learned, self._kept))
        self._encoder = PackedEncoder(self._skeleton.model.eval(), pooling)

    @torch.no_grad()
    def take_over(self, learned: torch.Tensor) -> None:
        """Compute with these weights from now on."""
        self.learned.copy_(learned)

    def features(self, packed: Packed, weights: Mapping[str, torch.Tensor] | None = None) -> torch.Tensor:
        """One fp32 feature vector for each sequence, with `weights` in place of its own."""
        named = {f"model.{name}": weight for name, weight in (weights or {}).items()}
        features: torch.Tensor = functional_call(self._encoder, named, (packed,))
        return features

    def features_with(self, packed: Packed, learned: torch.Tensor) -> torch.Tensor:
        """The same with other weights in place of those that learn."""
        return self.features(packed, self._skeleton.learned.views(learned))

    def pass_with_gradient(self, packed: Packed, learned: torch.Tensor, gradient: torch.Tensor) -> "PassWithGradient":
        """A pass with these weights that can be gone back through; their gradient will be in `gradient`."""
        layout = self._skeleton.learned
        weights = {name: weight.detach().requires_grad_() for name, weight in layout.views(learned).items()}
        return PassWithGradient(self, packed, weights, layout.views(gradient))


class PassWithGradient:
    """The features of packed sequences, and the way back to the weights."""

    def __init__(
        self, twin: Twin, packed: Packed, weights: Mapping[str, torch.Tensor], places: Mapping[str, torch.Tensor]
    ) -> None:
        self._gradients = GradientsInPlace(weights, places)
        with torch.enable_grad(), self._gradients:
            self._features = twin.features(packed, weights)
        self.features = self._features.detach()

    def backward(self, upstream: torch.Tensor) -> None:
        """Write the gradient of the weights where it belongs."""
        self._gradients.finish(self._features, upstream)
