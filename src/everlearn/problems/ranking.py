"""Ranking: score each pair of sentence and candidate, and choose the candidate with the largest score.

Paper, section 5.2, relation extraction: pairs joined by the encoder's separator, one logit a pair, binary
cross-entropy over all pairs.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from everlearn.batches import Batch, Floats, Integers, Ragged, Sequences
from everlearn.encoders import Tokenizer
from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.problems.base import Problem

SHORTEST_SENTENCE = 3
"""Two tokens are the encoder's own marks, so that three leave room for one."""
UNDECIDED = -1
"""The prediction where two candidates share the largest score: no label, so never a hit."""


class Ranking(Problem):
    """Choose among an example's candidates. A target row holds the label and, behind it, all candidates."""

    def __init__(self, names: Sequence[str], tokenizer: Tokenizer) -> None:
        self._seconds = tokenizer.second_segments(names)
        self.room = int(self._seconds.tokens.lengths.max())
        if tokenizer.max_length - self.room < SHORTEST_SENTENCE:
            raise UserError(
                f"max_length ({tokenizer.max_length}) leaves no room for a sentence beside the longest label's name "
                f"({self.room} tokens): raise --max-length."
            )

    def tokenise(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """The sentences' token ids; candidates stay numbers until a pair is needed."""
        tokens = tokenizer([example.text for example in examples], room=self.room)
        return Batch(tokens, Ragged.from_rows([[example.label, *example.candidates] for example in examples]))

    def sequences(self, batch: Batch) -> Sequences:
        """Every sentence with every one of its candidates."""
        pairs = [(row, candidate) for row in range(len(batch)) for candidate in _candidates(batch, row).tolist()]
        sentences, seconds = batch.tokens, self._seconds
        tokens = [np.concatenate([sentences[row], seconds.tokens[candidate]]) for row, candidate in pairs]
        if seconds.types is None:
            return Sequences(Ragged.from_rows(tokens))
        types = [
            np.concatenate([np.zeros(sentences.lengths[row], np.uint8), seconds.types[candidate]])
            for row, candidate in pairs
        ]
        return Sequences(Ragged.from_rows(tokens), Ragged.from_rows(types, np.uint8))

    def head(self, width: int) -> nn.Module:
        """One logit a pair."""
        return nn.Linear(width, 1)

    def loss(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Binary cross-entropy, averaged over all pairs."""
        right = [_candidates(batch, row) == label for row, label in enumerate(batch.labels)]
        targets = torch.from_numpy(np.concatenate(right)).to(logits)
        return functional.binary_cross_entropy_with_logits(logits.squeeze(1), targets)

    def rows(self, batch: Batch) -> int:
        """One a pair."""
        return len(batch.targets.values) - len(batch)

    def predict(self, logits: torch.Tensor, batch: Batch) -> Integers:
        """The candidate with the largest logit; none where the largest is shared."""
        counts = batch.targets.lengths - 1
        predicted = np.full(len(batch), UNDECIDED, dtype=np.int64)
        scores = np.split(logits.squeeze(1).float().cpu().numpy(), np.cumsum(counts)[:-1])
        for row, score in enumerate(scores):
            best = np.flatnonzero(score == score.max())
            if len(best) == 1:
                predicted[row] = _candidates(batch, row)[best[0]]
        return predicted

    @property
    def labels(self) -> Sequence[int]:
        """Every label that has a name."""
        return range(len(self._seconds))

    def scores(self, logits: torch.Tensor, batch: Batch) -> Floats:
        """The logit of each candidate."""
        scores = np.full((len(batch), len(self.labels)), -np.inf, dtype=np.float32)
        counts = batch.targets.lengths - 1
        own = np.split(logits.squeeze(1).float().cpu().numpy(), np.cumsum(counts)[:-1])
        for row, score in enumerate(own):
            scores[row, _candidates(batch, row)] = score
        return scores


def _candidates(batch: Batch, row: int) -> Integers:
    return batch.targets[row][1:]
