"""everlearn: text models that keep learning from a stream, in one pass, without forgetting."""

__version__ = "0.1.0"
