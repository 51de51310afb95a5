"""Text to vectors: any Hugging Face encoder, its tokenizer, and the bundled default."""

from everlearn.encoders.encoder import POOLINGS, Encoder, EncoderConfig
from everlearn.encoders.loading import KNOWN, KnownEncoder, check_encoder, load_encoder
from everlearn.encoders.tokenizer import Tokenizer

__all__ = [
    "KNOWN",
    "POOLINGS",
    "Encoder",
    "EncoderConfig",
    "KnownEncoder",
    "Tokenizer",
    "check_encoder",
    "load_encoder",
]
