"""Texts to token ids, once per example, by the encoder's own fast tokenizer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from everlearn.batches import Ragged

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Tokenizer:
    """Turns texts into rows of token ids, special tokens included, cut to `max_length`."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", max_length: int) -> None:
        self._tokenizer = tokenizer
        self.max_length = max_length
        self.pad_id = int(tokenizer.pad_token_id or 0)
        # Two bytes a token where the vocabulary allows it: the memory stores these arrays.
        self.dtype: npt.DTypeLike = np.uint16 if len(tokenizer) <= 2**16 else np.uint32

    def __call__(self, texts: Sequence[str]) -> Ragged:
        """Token ids of each text."""
        encoded = self._tokenizer(
            list(texts), truncation=True, max_length=self.max_length, return_attention_mask=False, verbose=False
        )
        return Ragged.from_rows(encoded["input_ids"], self.dtype)

    def __deepcopy__(self, memo: dict[int, object]) -> "Tokenizer":
        """Nothing in here changes, so copies of an encoder share it."""
        return self
