"""A small random encoder with a vocabulary of its own, for tests and for trying things out."""

import string
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import BertModel, PreTrainedTokenizerFast

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_PIECES = "the of and to in is it for on with as are this that be by an or from at not return if set list data "
_SUFFIXES = "ing ed er s es ly tion al able ment ness est en"


def vocabulary() -> list[str]:
    """Every printable character as a piece of its own, and a few frequent words and endings."""
    characters = [c for c in string.printable if not c.isspace() and not c.isupper()]
    return [
        *_SPECIAL,
        *characters,
        *(f"##{c}" for c in characters),
        *_PIECES.split(),
        *(f"##{s}" for s in _SUFFIXES.split() if len(s) > 1),
    ]


def tiny_tokenizer() -> "PreTrainedTokenizerFast":
    """A word-piece tokenizer over `vocabulary`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {piece: i for i, piece in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def tiny_model(dropout: float = 0.0) -> "BertModel":
    """A two-layer BERT of width 32 whose random weights are the same every time."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,
        initializer_range=0.1,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BertModel(config)  # type: ignore[no-untyped-call]
