"""Text to vectors: a Hugging Face encoder with its pooling, which counts the tokens that pass through it."""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from everlearn.batches import Integers, Sequences
from everlearn.encoders import onednn
from everlearn.encoders.cpu_attention import AttentionInFp32
from everlearn.encoders.fast_path import FastPath
from everlearn.encoders.flat import Skeleton, put_weights
from everlearn.encoders.one_gradient import in_one_gradient
from everlearn.encoders.onednn import LinearByOneDnn
from everlearn.encoders.padding import PIECE_LIMITS, cut_into_pieces, pad
from everlearn.encoders.tokenizer import Tokenizer
from everlearn.ledger import Meter
from everlearn.settings import setting
from everlearn.transfer import on_device

POOLINGS = ("cls", "mean", "pooler")
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class EncoderConfig:
    """The text encoder."""

    encoder: str = setting("minilm", "encoder: minilm, bert, tiny, a Hugging Face name, or a local folder")
    pooling: str = setting(
        "auto",
        "feature of a text: cls, mean or pooler; auto = the encoder's own",
        choices=("auto", *POOLINGS),
        kind="pooling",
    )
    max_length: int = setting(448, "longest text in tokens; longer ones are cut", least=3)
    freeze_encoder: bool = setting(False, "leave the encoder as it is and learn only what stands on it")
    dropout: float = setting(
        0.0, "dropout inside the encoder while learning, the same for every method", least=0, most=1
    )
    precision: str = setting(
        "auto",
        "what the encoder computes in: fp32 or bf16; auto = bf16 on a GPU, else fp32",
        choices=("auto", *PRECISIONS),
        kind="precision",
    )
    trained_layers: int | None = setting(
        None, "train only so many layers at the encoder's top; default: all of it", least=1
    )


class Encoder(nn.Module):
    """Maps token sequences to one fp32 vector each. Its weights are fp32, whatever it computes in."""

    skeleton: Skeleton

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        pooling: str,
        dtype: torch.dtype = torch.float32,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.dtype = dtype
        self.dropout = dropout
        """The model's, for another model that is to learn under the same conditions."""
        self.width: int = model.config.hidden_size  # type: ignore[union-attr, assignment]
        skeleton, learned, kept = Skeleton.of(model)
        # Not a part in PyTorch's sense: its weights are here.
        self.__dict__["skeleton"] = skeleton
        self.weights = nn.Parameter(learned)
        """All weights that learn, end to end."""
        self.kept: torch.Tensor
        """Those that never do."""
        self.register_buffer("kept", kept, persistent=False)
        self.fast_path: FastPath | None = None
        """Set where this encoder and its device allow it."""
        self.meter = Meter()
        """Where the work of this encoder is counted; whoever uses it puts the right meter here."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.weights.device

    def named_weights(self) -> dict[str, torch.Tensor]:
        """The weights by the names that the model has for them."""
        return self.skeleton.named_weights(self.weights, self.kept)

    @property
    def weight_bytes(self) -> int:
        """What the weights take up."""
        return self.weights.nbytes + self.kept.nbytes

    def whole_model(self) -> nn.Module:
        """The transformers model with the weights of this moment, for use without everlearn."""
        model = copy.deepcopy(self.skeleton.model)
        put_weights(model, {name: weight.detach().clone() for name, weight in self.named_weights().items()})
        return model.requires_grad_()

    def train(self, mode: bool = True) -> "Encoder":
        """Switch the model's dropout too."""
        self.skeleton.model.train(mode)
        return super().train(mode)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "Encoder":
        """Take the model's buffers along wherever the weights go."""
        for module in self.skeleton.model.modules():
            module._buffers.update({name: None if b is None else fn(b) for name, b in module._buffers.items()})
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def counting_on(self, meter: Meter) -> "Encoder":
        """The same encoder, weights shared, whose work is counted on another meter."""
        view = copy.copy(self)
        view.meter = meter
        return view

    def forward(self, sequences: Sequences, weights: torch.Tensor | None = None) -> torch.Tensor:
        """One feature vector for each sequence; with `weights`, where they are given, in place of those that learn."""
        if not len(sequences):
            return torch.empty(0, self.width, device=self.device)
        weights = self.weights if weights is None else weights
        features = (
            self.fast_path(self.skeleton, weights, self.kept, sequences)
            if self.fast_path
            else self.plain(sequences, weights)
        )
        self._count(int(sequences.tokens.lengths.sum()), features)
        return features

    def plain(self, sequences: Sequences, learned: torch.Tensor) -> torch.Tensor:
        """The plain way: sequences of like length go together, so that little is padded."""
        dtype = learned.dtype if self.dtype == torch.float32 else self.dtype  # fp64 stays what it is
        kept = self.skeleton.kept_weights(self.kept.to(dtype))
        layout = self.skeleton.learned

        def compute(parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
            return self._in_pieces({**parts, **kept}, sequences)

        if torch.is_grad_enabled() and learned.requires_grad:
            return in_one_gradient(compute, layout, learned, dtype)
        return compute(layout.views(learned.to(dtype)))

    def _in_pieces(self, weights: Mapping[str, torch.Tensor], sequences: Sequences) -> torch.Tensor:
        lengths = sequences.tokens.lengths
        order = np.argsort(lengths, kind="stable")
        limits = PIECE_LIMITS[self.device.type]
        with self._faster_kernels():
            pieces = [self._encode(weights, sequences, rows) for rows in cut_into_pieces(order, lengths, limits)]
        return torch.cat(pieces)[on_device(np.argsort(order), self.device)]

    def _faster_kernels(self) -> AbstractContextManager[Any]:
        """What this device and precision gain by other kernels than PyTorch's first choice."""
        if self.device.type != "cpu":
            return nullcontext()
        if self.dtype == torch.bfloat16:
            return AttentionInFp32()
        return LinearByOneDnn() if self.width >= onednn.WIDE_ENOUGH and onednn.helps() else nullcontext()

    def _encode(self, weights: Mapping[str, torch.Tensor], sequences: Sequences, rows: Integers) -> torch.Tensor:
        tokens, mask = pad(sequences.tokens, rows, self.tokenizer.pad_id)
        arrays = {"input_ids": tokens, "attention_mask": mask}
        if sequences.types is not None:
            arrays["token_type_ids"] = pad(sequences.types, rows, 0)[0]
        inputs = {name: on_device(array, self.device) for name, array in arrays.items()}
        # On a GPU rows would have to be sorted to be added up.
        output = self.skeleton(weights, sparse=torch.is_grad_enabled() and self.device.type == "cpu", **inputs)
        return self._pool(output, inputs["attention_mask"])

    def _pool(self, output: Any, mask: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = output.pooler_output if self.pooling == "pooler" else output.last_hidden_state
        states = states.to(self.weights.dtype)
        if self.pooling == "pooler":
            return states
        if self.pooling == "cls":
            return states[:, 0]
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)

    def _count(self, tokens: int, features: torch.Tensor) -> None:
        meter = self.meter
        meter.tokens_forward += tokens
        if features.requires_grad:

            def count_backward(gradient: torch.Tensor) -> None:
                meter.tokens_backward += tokens

            features.register_hook(count_backward)  # type: ignore[no-untyped-call]
