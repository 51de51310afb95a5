"""Texts to token ids, once per example, by the encoder's own fast tokenizer."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from everlearn.batches import Ragged, Sequences

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

    def __deepcopy__(self, memo: dict[int, object]) -> "Tokenizer":
        """Nothing in here changes, so copies of an encoder share it."""
        return self
