"""The published procedure, plainly: what `bench/speed.py` measures everlearn against.

fp32, every text padded to a fixed length, one small batch at a time, tokenised when it is needed, raw texts in a list
as the memory, the loss read after every step, and in OML's inner loop a graph through the encoder that nobody needs.
"""

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from everlearn.examples import Example

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Settings:
    """The settings of the paper that matter for speed."""

    batch_size: int
    replay_interval: int
    length: int
    replay_rate: float = 0.01
    support_batches: int = 5
    inner_lr: float = 1e-3
    lr: float = 3e-5


class PublishedNetwork(nn.Module):
    """Encoder and head; for ANML-ER also a second encoder that gates the features."""

    def __init__(self, model: nn.Module, classes: int, gated: bool) -> None:
        super().__init__()
        width = model.config.hidden_size
        self.encoder = copy.deepcopy(model)
        self.head = nn.Linear(width, classes)
        self.gate = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.Sigmoid())
        # As in the paper. The authors' code trains it too, which everlearn does not, and would take longer.
        self.modulator = copy.deepcopy(model).requires_grad_(False) if gated else None

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        features = self.encoder(**inputs).last_hidden_state[:, 0]
        if self.modulator is not None:
            features = features * self.gate(self.modulator(**inputs).last_hidden_state[:, 0])
        return self.head(features)


class Published:
    """One of the paper's methods; `observe` takes the next batch of the stream."""

    def __init__(
        self, method: str, model: nn.Module, tokenizer: Any, labels: Sequence[str], ranking: bool, settings: Settings
    ) -> None:
        self.method, self.settings = method, settings
        self.tokenizer, self.labels, self.ranking = tokenizer, labels, ranking
        self.device = next(model.parameters()).device
        classes = 1 if ranking else len(labels)
        self.network = PublishedNetwork(model, classes, gated=method == "anml-er").to(self.device).train()
        self.learned = {name: weight for name, weight in self.network.named_parameters() if weight.requires_grad}
        self.optimiser = torch.optim.AdamW(self.learned.values(), lr=settings.lr, weight_decay=0, eps=1e-6)
        self.memory: list[Example] = []
        self.support: list[list[Example]] = []
        self.steps = self.replays = 0
        self.examples = self.tokens = 0
        """What has been observed, and what went through the encoder for it, padding included."""

    def observe(self, batch: list[Example]) -> float | None:
        self.examples += len(batch)
        if self.method in ("seq", "replay", "a-gem"):
            return self._step(batch)
        return self._episode(batch)

    def _step(self, batch: list[Example]) -> float:
        self.steps += 1
        loss = self.loss(batch)
        loss.backward()
        due = self.steps % max(1, self.settings.replay_interval // self.settings.batch_size) == 0 and self.memory
        if self.method == "a-gem" and due:
            own = [parameter.grad.clone() for parameter in self.network.parameters() if parameter.grad is not None]
            self.optimiser.zero_grad()
            for replayed in self._draws():
                self.loss(replayed).backward()
            reference = [p.grad for p in self.network.parameters() if p.grad is not None]
            product = sum((a * b).sum() for a, b in zip(own, reference, strict=True))
            if product < 0:
                scale = product / sum((b * b).sum() for b in reference)
                own = [a - scale * b for a, b in zip(own, reference, strict=True)]
            for parameter, gradient in zip(
                (p for p in self.network.parameters() if p.grad is not None), own, strict=True
            ):
                parameter.grad = gradient
        self._update()
        if self.method == "replay" and due:
            for replayed in self._draws():
                self.loss(replayed).backward()
            self._update()
        self.memory.extend(batch)
        return loss.item()

    def _episode(self, batch: list[Example]) -> float | None:
        self.memory.extend(batch)
        if len(self.support) < self.settings.support_batches:
            self.support.append(batch)
            return None
        self.steps += 1
        per_episode = self.settings.batch_size * (self.settings.support_batches + 1)
        due = self.steps % math.ceil((self.settings.replay_interval + self.settings.batch_size) / per_episode) == 0
        fast = self._adapt()
        for query in self._draws() if due else [batch]:
            loss = self.loss(query, fast)
            at = [fast.get(name, weight) for name, weight in self.learned.items()]
            gradients = torch.autograd.grad(loss, at, allow_unused=True)
            for parameter, gradient in zip(self.learned.values(), gradients, strict=True):
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        self._update()
        self.support = []
        return loss.item()

    def _adapt(self) -> Weights:
        head_only = self.method == "oml-er"
        fast = {
            name: weight.clone()
            for name, weight in self.network.named_parameters()
            if name.startswith("head.") or (name.startswith("encoder.") and not head_only)
        }
        for batch in self.support:
            loss = self.loss(batch, fast)
            gradients = torch.autograd.grad(loss, list(fast.values()), allow_unused=True)
            fast = {
                name: (weight if gradient is None else weight - self.settings.inner_lr * gradient)
                for (name, weight), gradient in zip(fast.items(), gradients, strict=True)
            }
            fast = {name: weight.detach().requires_grad_() for name, weight in fast.items()}
            loss.item()
        return fast

    def _update(self) -> None:
        self.optimiser.step()
        self.optimiser.zero_grad()

    def _draws(self) -> list[list[Example]]:
        """The batches of a replay."""
        self.replays += 1
        size, rate = self.settings.batch_size, self.settings.replay_rate
        count = max(1, int(self.settings.replay_interval * rate / size))
        return [random.choices(self.memory, k=size) for _ in range(count)]

    def loss(self, batch: list[Example], fast: Weights | None = None) -> torch.Tensor:
        if self.ranking:
            pairs = [(example, candidate) for example in batch for candidate in example.candidates]
            inputs = self._inputs([e.text for e, _ in pairs], [self.labels[candidate] for _, candidate in pairs])
            right = torch.tensor([[float(e.label == candidate)] for e, candidate in pairs], device=self.device)
            return functional.binary_cross_entropy_with_logits(self._logits(inputs, fast), right)
        inputs = self._inputs([example.text for example in batch])
        labels = torch.tensor([example.label for example in batch], device=self.device)
        return functional.cross_entropy(self._logits(inputs, fast), labels)

    def _logits(self, inputs: dict[str, torch.Tensor], fast: Weights | None) -> torch.Tensor:
        return functional_call(self.network, fast, (inputs,)) if fast else self.network(inputs)

    def _inputs(self, *texts: list[str]) -> dict[str, torch.Tensor]:
        encoded = self.tokenizer(
            *texts, padding="max_length", truncation=True, max_length=self.settings.length, return_tensors="pt"
        )
        self.tokens += encoded["input_ids"].numel()
        return {name: encoded[name].to(self.device) for name in ("input_ids", "attention_mask")}

    @torch.no_grad()
    def predict(self, batch: list[Example]) -> list[int]:
        return self.network(self._inputs([example.text for example in batch])).argmax(1).tolist()
