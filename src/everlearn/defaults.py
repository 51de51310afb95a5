"""Settings that depend on stream and method: the paper's, and those found on validation data for short streams.

The defaults of the configuration classes are the paper's for BERT on text classification. What differs from them is
here, and only here. A value the user gives always wins.
"""

from collections.abc import Mapping
from typing import Any

from everlearn.methods import find_method

# Appendix A.5 of the paper: ANML-ER has an inner rate and a length of its own on text classification.
PAPER: dict[str, Mapping[str, Any]] = {"anml-er": {"inner_lr": 3e-3, "max_length": 300}}

# A few thousand short texts with minilm. Chosen on the validation split (see docs/choosing-settings.md).
SHORT_STREAM: Mapping[str, Any] = {
    "batch_size": 8,
    "replay_interval": 160,
    "replay_rate": 0.1,
    "max_length": 64,
}
SHORT_STREAM_METHODS: dict[str, Mapping[str, Any]] = {}


def defaults_for(stream: str, method: str, as_published: bool) -> dict[str, Any]:
    """The settings for this stream and method that differ from the configuration classes' own defaults."""
    if stream in ("docstrings", "file"):
        chosen = {**SHORT_STREAM, **SHORT_STREAM_METHODS.get(method, {})}
    else:
        chosen = dict(PAPER.get(method, {}))
    return {**chosen, **(_published(method) if as_published else {})}


def _published(method: str) -> dict[str, Any]:
    """What the authors' code did beside the paper: see the table in docs/protocol.md."""
    choices: dict[str, Any] = {"pooling": "pooler", "replay_gradient": "sum"}
    if not find_method(method).meta:
        choices["dropout"] = 0.1
    if method == "replay":
        choices.update(clip_norm=25.0, clip_replay_only=True)
    return choices
