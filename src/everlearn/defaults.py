"""Settings that depend on stream and method: the paper's, and those found on validation data for short streams.

The defaults of the configuration classes are the paper's for BERT on text classification. What differs from them is
here, and only here. A value the user gives always wins.
"""

from collections.abc import Mapping
from typing import Any

from everlearn.methods import find_method

# Appendix A.5 of the paper: ANML-ER has an inner rate and a length of its own on text classification.
PAPER: dict[str, Mapping[str, Any]] = {"anml-er": {"inner_lr": 3e-3, "max_length": 300}}

# Section 5.2 and appendix A.5: relation extraction has smaller batches, a shorter interval and rates of its own.
PAPER_FEWREL: Mapping[str, Any] = {"batch_size": 4, "replay_interval": 1600, "meta_lr": 3e-5, "max_length": 128}
PAPER_FEWREL_METHODS: dict[str, Mapping[str, Any]] = {"mtl": {"lr": 1e-5, "epochs": 3}}

# A few thousand short texts with minilm. Encoder rates are held to the range of the paper's grid (1e-5 and up), so
# that every method fine-tunes; the rest is the best, by validation accuracy over three seeds, of a random search per
# method (`recipes/tune-docstrings-minilm.yaml`; every run is in `results/docstrings/`, and docs/docstrings.md says what
# it found).
SHORT_STREAM: Mapping[str, Any] = {"replay_rate": 0.1, "log_every": 50, "checkpoint_every": 500}
SHORT_STREAM_METHODS: dict[str, Mapping[str, Any]] = {
    "seq": {"batch_size": 8, "lr": 1e-5, "head_lr": 1e-2},
    "replay": {"batch_size": 8, "lr": 3e-5, "head_lr": 1e-2, "replay_interval": 40},
    "a-gem": {"batch_size": 8, "lr": 1e-5, "head_lr": 1e-2, "replay_interval": 40},
    "mtl": {"batch_size": 8, "lr": 3e-5, "head_lr": 3e-3},
    "oml-er": {
        "batch_size": 4,
        "support_batches": 2,
        "replay_interval": 20,
        "inner_lr": 1e-1,
        "meta_lr": 1e-5,
        "head_lr": 1e-2,
    },
    "maml-er": {
        "batch_size": 4,
        "support_batches": 2,
        "replay_interval": 40,
        "inner_lr": 3e-3,
        "meta_lr": 3e-5,
        "head_lr": 1e-2,
    },
    "anml-er": {
        "batch_size": 16,
        "support_batches": 1,
        "replay_interval": 40,
        "inner_lr": 1e-2,
        "meta_lr": 3e-5,
        "head_lr": 1e-2,
    },
}

_OWN = [*PAPER.values(), *PAPER_FEWREL_METHODS.values(), *SHORT_STREAM_METHODS.values()]
VARYING = {name for own in (PAPER_FEWREL, SHORT_STREAM, *_OWN) for name in own}
"""The settings whose default depends on stream and method."""


def defaults_for(stream: str, method: str, as_published: bool) -> dict[str, Any]:
    """The settings for this stream and method that differ from the configuration classes' own defaults."""
    if stream in ("docstrings", "file"):
        chosen = {**SHORT_STREAM, **SHORT_STREAM_METHODS.get(method, {})}
        if stream == "docstrings":
            chosen["max_length"] = 64  # all but one text in twenty are shorter
    elif stream == "fewrel":
        chosen = {**PAPER_FEWREL, **PAPER_FEWREL_METHODS.get(method, {})}
    else:
        chosen = dict(PAPER.get(method, {}))
    return {**chosen, **(_published(stream, method) if as_published else {})}


def _published(stream: str, method: str) -> dict[str, Any]:
    """What the authors' code did beside the paper: see the table in docs/protocol.md."""
    choices: dict[str, Any] = {"pooling": "pooler", "replay_gradient": "sum"}
    if not find_method(method).meta:
        choices["dropout"] = 0.1
    if method == "replay":
        choices.update(clip_norm=10.0 if stream == "fewrel" else 25.0, clip_replay_only=True)
    return choices
