"""A bf16 copy of an encoder that computes on packed sequences; the encoder itself keeps the fp32 weights."""

import copy
import inspect
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.func import functional_call

from everlearn.encoders.packing import ATTENTION, Packed, packed_attention


class PackedEncoder(nn.Module):
    """A transformers model that attends within packed sequences, and the pooling over them."""

    def __init__(self, model: nn.Module, pooling: str) -> None:
        from transformers import AttentionInterface

        super().__init__()
        AttentionInterface.register(ATTENTION, packed_attention)
        self.model = cast(Any, model)
        self.model.set_attn_implementation(ATTENTION)
        self._takes_types = "token_type_ids" in inspect.signature(self.model.forward).parameters
        self._pooling = pooling

    def forward(self, packed: Packed) -> torch.Tensor:
        """One fp32 feature vector for each sequence."""
        types = {"token_type_ids": packed.types.long()} if self._takes_types else {}
        output = self.model(
            input_ids=packed.ids.long(),
            position_ids=packed.positions.long(),
            cu_seq_lens_q=packed.bounds,
            max_length_q=packed.shape.longest,
            **types,
        )
        states, bounds = output.last_hidden_state[0], packed.bounds.long()
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

    def __init__(self, model: nn.Module, pooling: str, dtype: torch.dtype = torch.bfloat16) -> None:
        self._encoder = PackedEncoder(copy.deepcopy(model).to(dtype).requires_grad_(False).eval(), pooling)
        self._names = [name for name, _ in self._encoder.named_parameters()]
        self.weights: list[torch.Tensor] = list(self._encoder.parameters())
        self._copied: list[tuple[torch.Tensor, int]] = []

    @torch.no_grad()
    def take_over(self, weights: Sequence[torch.Tensor]) -> None:
        """Compute with these weights from now on."""
        # A parameter that is the same object at the same version has not changed; other tensors may come and go.
        lasting = all(isinstance(weight, nn.Parameter) for weight in weights)
        current = [(weight, weight._version) for weight in weights] if lasting else []
        if not current or not self._has(current):
            torch._foreach_copy_(self.weights, list(weights))
        self._copied = current

    def _has(self, current: list[tuple[torch.Tensor, int]]) -> bool:
        if len(current) != len(self._copied):
            return False
        pairs = zip(current, self._copied, strict=True)
        return all(now is then and version == copied for (now, version), (then, copied) in pairs)

    def features(self, packed: Packed, weights: Sequence[torch.Tensor] | None = None) -> torch.Tensor:
        """One fp32 feature vector for each sequence, differentiable in `weights` where they are given."""
        named = dict(zip(self._names, weights, strict=True)) if weights else {}
        features: torch.Tensor = functional_call(self._encoder, named, (packed,))
        return features

    def differentiable_weights(self) -> list[torch.Tensor]:
        """The weights, in the same place, as the start of a graph of their own."""
        return [weight.detach().requires_grad_() for weight in self.weights]


def flat_gradient(
    features: torch.Tensor, weights: Sequence[torch.Tensor], upstream: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The gradient of all weights, laid flat, from that of the features."""
    found = torch.autograd.grad(features, weights, upstream, materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in found], out=out)
