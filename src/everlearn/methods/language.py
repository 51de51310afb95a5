"""A causal language model that answers one question about every text, and writes texts with their answers.

A row reads `text question ANSWER label END`; with GENERATE in front of it, it is something to be written. The question
is the same for every example: there are no tasks to tell apart.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from everlearn.batches import Batch, Integers, Ragged
from everlearn.encoders import Encoder
from everlearn.encoders.causal import load_causal
from everlearn.errors import UserError
from everlearn.ledger import Meter
from everlearn.methods.network import Network

if TYPE_CHECKING:
    from transformers import PreTrainedModel

QUESTION = " Which label fits this text?"
IGNORED = -100
"""What the cross-entropy leaves out."""
TOP_K = 20


@dataclass(frozen=True)
class Wording:
    """The fixed parts of a row as token ids."""

    question: Integers
    labels: Mapping[int, tuple[int, ...]]
    answer: int
    end: int
    generate: int
    longest: int
    """Tokens in the longest row."""

    @property
    def longest_label(self) -> int:
        """Tokens in the longest label's name."""
        return max(map(len, self.labels.values()), default=0)

    @property
    def room(self) -> int:
        """Tokens that are left for a text."""
        return self.longest - len(self.question) - self.longest_label - 3

    def prompt(self, text: Integers) -> list[int]:
        """What an answer is asked for with."""
        return [*text[: self.room].tolist(), *self.question.tolist(), self.answer]

    def row(self, text: Integers, label: int) -> list[int]:
        """The whole row."""
        return [*self.prompt(text), *self.labels[label], self.end]

    def read(self, row: Sequence[int]) -> tuple[list[int], int] | None:
        """Text and label of a row that was written; None where it is not one."""
        row = list(row)
        if self.end not in row or row.count(self.answer) != 1:
            return None
        row = row[: row.index(self.end)]
        middle = row.index(self.answer) if self.answer in row else -1
        start = middle - len(self.question)
        if start < 1 or row[start:middle] != self.question.tolist() or self.generate in row[:start]:
            return None
        said = tuple(row[middle + 1 :])
        return next(((row[:start], label) for label, words in self.labels.items() if words == said), None)


class LanguageNetwork(Network):
    """The language model, in the place of encoder and head; it counts its own tokens."""

    def __init__(self, encoder: Encoder, names: Mapping[int, str]) -> None:
        nn.Module.__init__(self)
        self.model: PreTrainedModel = load_causal(encoder)
        self._vocabulary = len(self.model.get_input_embeddings().weight)  # type: ignore[arg-type]
        # Three marks that no text contains.
        self.model.resize_token_embeddings(self._vocabulary + 3, mean_resizing=False)
        self.tokenizer = encoder.tokenizer
        self.dtype = encoder.dtype
        """What it computes in; its weights stay fp32."""
        self.name_labels(names)
        self.meter = Meter()

    def name_labels(self, names: Mapping[int, str]) -> None:
        """Answer with these names from now on."""
        numbered = [f" {name} {label}" for label, name in names.items()]
        said = self.tokenizer.continuations([QUESTION, *(f" {name}" for name in names.values()), *numbered]).tokens
        labels: dict[int, tuple[int, ...]] = {}
        for place, label in enumerate(names, start=1):
            words = tuple(said[place].tolist())
            # Names that are the same to this tokenizer are told apart by number; the first keeps what it was called.
            labels[label] = words if words not in labels.values() else tuple(said[place + len(names)].tolist())
        self.wording = Wording(
            question=said[0],
            labels=labels,
            answer=self._vocabulary,
            end=self._vocabulary + 1,
            generate=self._vocabulary + 2,
            longest=self.tokenizer.max_length,
        )
        if self.wording.room < 1:
            raise UserError(
                f"max_length ({self.wording.longest}) leaves no room for a text beside the question and the longest "
                "label's name: raise --max-length."
            )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def count_on(self, meter: Meter) -> None:
        """Count tokens on this meter."""
        self.meter = meter

    def answer_losses(self, texts: Ragged, labels: Integers) -> torch.Tensor:
        """For each example the mean loss of its answer's tokens."""
        rows = [self.wording.row(text, label) for text, label in _pairs(texts, labels)]
        asked = [len(self.wording.prompt(text)) for text, _ in _pairs(texts, labels)]
        return self._losses(rows, asked)

    def writing_losses(self, texts: Ragged, labels: Integers) -> torch.Tensor:
        """For each example the mean loss of all tokens, when it is written from nothing."""
        rows = [[self.wording.generate, *self.wording.row(text, label)] for text, label in _pairs(texts, labels)]
        return self._losses(rows, [1] * len(rows))

    @torch.no_grad()
    def answers(self, texts: Ragged, choices: Sequence[Integers]) -> Integers:
        """The label that is answered to each text, token by token the likeliest among those of its choices."""
        prompts = [self.wording.prompt(texts[row]) for row in range(len(texts))]
        ids, mask = self._padded(prompts, left=True)
        words = self.wording.labels
        width = ids.shape[1]

        def allowed(row: int, so_far: torch.Tensor) -> list[int]:
            said = tuple(so_far[width:].tolist())
            going = [(*words[label], self.wording.end) for label in choices[row].tolist()]
            following = {word[len(said)] for word in going if word[: len(said)] == said and len(word) > len(said)}
            return sorted(following) or [self.wording.end]

        written = self._generate(ids, mask, self.wording.longest_label + 1, prefix_allowed_tokens_fn=allowed)
        found = []
        for row, answer in enumerate(written[:, width:].tolist()):
            said = tuple(answer[: answer.index(self.wording.end)])
            found.append(next(label for label in choices[row].tolist() if words[label] == said))
        return np.array(found, dtype=np.int64)

    @torch.no_grad()
    def write(self, count: int, seed: int) -> Batch:
        """Examples made up by the model; fewer than `count`, as what it writes need not be one."""
        ids = torch.full((count, 1), self.wording.generate, device=self.device)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            written = self._generate(
                ids, torch.ones_like(ids), self.wording.longest - 1, do_sample=True, top_k=TOP_K, top_p=1.0
            )
        read = [found for row in written[:, 1:].tolist() if (found := self.wording.read(row)) is not None]
        return Batch(
            Ragged.from_rows([text for text, _ in read], self.tokenizer.dtype),
            Ragged.from_rows([[label] for _, label in read]),
        )

    def _losses(self, rows: Sequence[Sequence[int]], given: Sequence[int]) -> torch.Tensor:
        """For each row the mean loss of the tokens behind the first `given`."""
        ids, mask = self._padded(rows)
        with self._precision():
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        logits = logits.to(self.model.dtype)  # a loss is as precise as the weights, whatever it was computed from
        self._count(int(mask.sum()), logits)
        known = torch.arange(ids.shape[1], device=ids.device) < torch.tensor(given, device=ids.device).unsqueeze(1)
        targets = ids.masked_fill(known | (mask == 0), IGNORED)[:, 1:]
        losses = functional.cross_entropy(
            logits[:, :-1].transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
        )
        return losses.sum(dim=1) / (targets != IGNORED).sum(dim=1)

    def _generate(self, ids: torch.Tensor, mask: torch.Tensor, longest: int, **how: Any) -> torch.Tensor:
        end = self.wording.end
        settings = {"do_sample": False, "eos_token_id": end, "pad_token_id": end, "max_new_tokens": longest, **how}
        with self._precision():
            written: torch.Tensor = self.model.generate(input_ids=ids, attention_mask=mask, **settings)  # type: ignore[operator]
        # Every token passes once, its past is kept; what stands behind the first END was never computed.
        new = written[:, ids.shape[1] :]
        before_end = ((new == end).cumsum(dim=1) == 0).sum()
        self.meter.tokens_forward += int(mask.sum() + before_end)
        return written

    def _precision(self) -> AbstractContextManager[Any]:
        """Whatever is computed inside is computed in this network's precision."""
        return nullcontext() if self.dtype == torch.float32 else torch.autocast(self.device.type, self.dtype)

    def _padded(self, rows: Sequence[Sequence[int]], left: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), self.wording.end)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            place = slice(width - len(row), width) if left else slice(0, len(row))
            ids[number, place] = torch.tensor(row)
            mask[number, place] = 1
        return ids.to(self.device), mask.to(self.device)

    def _count(self, tokens: int, output: torch.Tensor) -> None:
        meter = self.meter
        meter.tokens_forward += tokens
        if output.requires_grad:

            def count_backward(gradient: torch.Tensor) -> None:
                meter.tokens_backward += tokens

            output.register_hook(count_backward)  # type: ignore[no-untyped-call]


def _pairs(texts: Ragged, labels: Integers) -> list[tuple[Integers, int]]:
    return [(texts[row], label) for row, label in enumerate(labels.tolist())]
