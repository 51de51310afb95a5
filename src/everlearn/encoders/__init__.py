"""Text to vectors: any Hugging Face encoder, its tokenizer, and the bundled default."""

from everlearn.encoders.encoder import POOLINGS, PRECISIONS, Encoder, EncoderConfig
from everlearn.encoders.loading import KNOWN, KnownEncoder, check_encoder, load_encoder, resolve_precision
from everlearn.encoders.tokenizer import Tokenizer

__all__ = [
    "KNOWN",
    "POOLINGS",
    "PRECISIONS",
    "Encoder",
    "EncoderConfig",
    "KnownEncoder",
    "Tokenizer",
    "check_encoder",
    "load_encoder",
    "resolve_precision",
]
