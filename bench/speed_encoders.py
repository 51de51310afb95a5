"""The encoders of the speed benchmark: what they are called in its figures, and where they come from."""

from pathlib import Path

import torch
from transformers import BertConfig, BertModel

from everlearn.encoders import EncoderConfig, load_encoder

SHAPE = "bert"
"""Where no folder is given for it, this name means BERT-base's shape with random weights."""


def named_encoders(listed: str) -> dict[str, str]:
    """By name, what `everlearn run --encoder` takes; a folder or a name of the hub goes by its last part.

    >>> named_encoders("bert,minilm=/models/mini,someone/small-bert")
    {'bert': 'bert', 'minilm': '/models/mini', 'small-bert': 'someone/small-bert'}
    """
    named: dict[str, str] = {}
    for entry in listed.split(","):
        name, equals, source = entry.partition("=")
        if not equals:
            name, source = Path(entry).name, entry
        if not name or not source or "/" in name:
            raise SystemExit(f"--encoders: '{entry}' is no encoder: write a name, a folder, or NAME=FOLDER.")
        if name in named:
            raise SystemExit(f"--encoders: two are called '{name}': write NAME=FOLDER to tell them apart.")
        named[name] = source
    return named


def bert_shape(folder: Path, vocabulary: str) -> str:
    """A folder with BERT-base's shape, random weights and another encoder's tokenizer."""
    torch.manual_seed(0)
    BertModel(BertConfig()).save_pretrained(folder / "bert-shape")
    tokenizer = load_encoder(EncoderConfig(encoder=vocabulary), torch.device("cpu")).tokenizer
    tokenizer._tokenizer.save_pretrained(folder / "bert-shape")
    return str(folder / "bert-shape")
