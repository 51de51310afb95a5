"""Texts to token ids, once per example, by the encoder's own fast tokenizer."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from everlearn.batches import Ragged, Sequences
from everlearn.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Tokenizer:
    """Turns texts into rows of token ids, special tokens included, cut to `max_length`."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", max_length: int, segments: bool) -> None:
        self._tokenizer = tokenizer
        self._segments = segments
        """Whether the encoder tells two segments apart by token types."""
        self._one_at_a_time = threading.Lock()  # the library's tokenizers refuse a second thread
        self.max_length = max_length
        self.pad_id = int(tokenizer.pad_token_id or 0)
        # Two bytes a token where the vocabulary allows it: the memory stores these arrays.
        self.dtype: npt.DTypeLike = np.uint16 if len(tokenizer) <= 2**16 else np.uint32

    def __call__(self, texts: Sequence[str], room: int = 0) -> Ragged:
        """Token ids of each text, cut so that `room` more tokens fit behind it."""
        if not texts:
            return Ragged.from_rows([], self.dtype)
        # Asked directly, without the masks and types that the wrapper would build and nobody would read.
        backend = self._tokenizer.backend_tokenizer
        with self._one_at_a_time:
            if backend.padding is not None:
                backend.no_padding()
            if backend.truncation is None or backend.truncation["max_length"] != self.max_length - room:
                backend.enable_truncation(self.max_length - room)
            encoded = backend.encode_batch_fast(list(texts))
        return Ragged.from_rows([text.ids for text in encoded], self.dtype)

    def second_segments(self, texts: Sequence[str]) -> Sequences:
        """What stands behind a first text when each of these is paired with it: separators, tokens, their types.

        Where the tokenizer itself sets nothing between the two, a separator keeps the words apart that meet there.
        """
        following = self.continuations(texts)
        if self._sets_texts_apart():
            return following
        separator = self._separator()
        rows = range(len(texts))
        tokens = Ragged.from_rows([[separator, *following.tokens[row]] for row in rows], self.dtype)
        if following.types is None:
            return Sequences(tokens)
        # As elsewhere, it counts as a part of the first text.
        return Sequences(tokens, Ragged.from_rows([[0, *following.types[row]] for row in rows], np.uint8))

    def continuations(self, texts: Sequence[str]) -> Sequences:
        """The same without a separator of ours: what the tokenizer itself puts behind a first text.

        Encoders differ in how they join two texts, so the tokenizer is asked to pair each with a word and the word's
        own part is taken away.
        """
        with self._one_at_a_time:
            first = len(self._tokenizer("a")["input_ids"])
            pairs = self._tokenizer(["a"] * len(texts), list(texts), return_token_type_ids=True, verbose=False)
        tokens = Ragged.from_rows([ids[first:] for ids in pairs["input_ids"]], self.dtype)
        if not self._segments:
            return Sequences(tokens)
        return Sequences(tokens, Ragged.from_rows([types[first:] for types in pairs["token_type_ids"]], np.uint8))

    def _sets_texts_apart(self) -> bool:
        with self._one_at_a_time:
            owners: list[int | None] = self._tokenizer("a", "a").sequence_ids()
        return None in owners[owners.index(0) : owners.index(1)]

    def _separator(self) -> int:
        for token in (self._tokenizer.sep_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        raise UserError(
            "the encoder's tokenizer sets nothing between a text and a label's name, and has no separator or "
            "end-of-text token to put there: choose another encoder."
        )

    def __deepcopy__(self, memo: dict[int, object]) -> "Tokenizer":
        """Nothing in here changes, so copies of an encoder share it."""
        return self
