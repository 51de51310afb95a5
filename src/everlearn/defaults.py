"""Settings that depend on stream and method: the paper's, and those found on validation data for short streams.

The defaults of the configuration classes are the paper's for BERT on text classification. What differs from them is
here, and only here. A value the user gives always wins.
"""

from collections.abc import Mapping
from typing import Any

from everlearn.methods import find_method

# Appendix A.5 of the paper: ANML-ER has an inner rate and a length of its own on text classification.
PAPER: dict[str, Mapping[str, Any]] = {"anml-er": {"inner_lr": 3e-3, "max_length": 300}}

# Systems of other papers, hardly any of which was measured here yet: each starts from the settings of the method that
# it is closest to, on every stream. What its authors chose, or what is a guess of ours, stands below.
NEAREST: dict[str, str] = {
    "oml": "oml-er",
    "anml": "anml-er",
    "oml-er-plastic": "oml-er",
    "a-gem-cached": "a-gem",
    "gem": "a-gem",
    "ewc": "a-gem",
    **dict.fromkeys(("er-ace", "der++", "mer", "mbpa++", "meta-mbpa", "ea-emr", "mllre", "emar"), "replay"),
}
LAMOL_RATE: Mapping[str, Any] = {"lr": 6.25e-5}  # the authors', for GPT-2
# What adds up features gets the same sums from batches of any size, and larger ones go through the encoder faster.
SUMS: Mapping[str, Any] = {"batch_size": 32}
# λ of RanPAC is the best power of ten by validation accuracy on the embedded stream with minilm and 2,000 features;
# ridge regression's own features want about 1, which is the configuration's default.
EVERYWHERE: dict[str, Mapping[str, Any]] = {
    "lamol": LAMOL_RATE,
    "lamol-real": LAMOL_RATE,
    **dict.fromkeys(("ncm", "slda", "ridge"), SUMS),
    "ranpac": {**SUMS, "ridge_penalty": 1e4},
}

# Section 5.2 and appendix A.5: relation extraction has smaller batches, a shorter interval and rates of its own.
PAPER_FEWREL: Mapping[str, Any] = {"batch_size": 4, "replay_interval": 1600, "meta_lr": 3e-5, "max_length": 128}
PAPER_FEWREL_METHODS: dict[str, Mapping[str, Any]] = {
    "mtl": {"lr": 1e-5, "epochs": 3},
    "ea-emr": {"refresh_negatives": True},  # the method resamples them, see its file
}

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

# For a few thousand texts, and not measured either: an inner loop that can move, a memory that is not empty, a random
# layer that is solved for in a second.
SHORT_STREAM_PEERS: dict[str, Mapping[str, Any]] = {
    "mer": {"support_batches": 2, "inner_lr": 1e-2},
    "meta-mbpa": {"inner_lr": 1e-2, "diverse_share": 0.1},
    "lamol": {"batch_size": 8, "replay_interval": 40},
    "lamol-real": {"batch_size": 8, "replay_interval": 40},
    "ranpac": {"random_features": 2000},
}

# The classifier: labels are never known in advance. docs/classifier.md says why this method, and what was measured. On
# a frozen encoder a head can learn fast and replay is cheap; with the encoder trained along, the settings for short
# streams hold.
CLASSIFIER_METHOD = "slda"
CLASSIFIER: Mapping[str, Any] = {"stream": "file", "open_classes": True}
FROZEN_ENCODER: dict[str, Mapping[str, Any]] = {
    "replay": {"batch_size": 8, "head_lr": 2e-3, "replay_interval": 8, "replay_rate": 1.0},
    # To these a batch means nothing, and whatever does not fill one goes through the encoder again when asked.
    **{method: {"batch_size": 8} for method in ("ncm", "ridge", "ranpac")},
    "slda": {"batch_size": 8, "shrunken_means": True},
}

_BY_METHOD = (PAPER, EVERYWHERE, PAPER_FEWREL_METHODS, SHORT_STREAM_METHODS, SHORT_STREAM_PEERS)
_OWN = [own for table in _BY_METHOD for own in table.values()]
VARYING = {name for own in (PAPER_FEWREL, SHORT_STREAM, *_OWN) for name in own}
"""The settings whose default depends on stream and method."""


def defaults_for(stream: str, method: str, as_published: bool) -> dict[str, Any]:
    """The settings for this stream and method that differ from the configuration classes' own defaults."""
    if stream in ("docstrings", "file"):
        chosen = {**SHORT_STREAM, **_own(SHORT_STREAM_METHODS, method), **SHORT_STREAM_PEERS.get(method, {})}
        if stream == "docstrings":
            chosen["max_length"] = 64  # all but one text in twenty are shorter
    elif stream == "fewrel":
        chosen = {**PAPER_FEWREL, **_own(PAPER_FEWREL_METHODS, method)}
    else:
        chosen = _own(PAPER, method)
    return {**chosen, **EVERYWHERE.get(method, {}), **(_published(stream, method) if as_published else {})}


def _own(table: Mapping[str, Mapping[str, Any]], method: str) -> dict[str, Any]:
    """What a table says of a method, or else of the one it is closest to."""
    return {**table.get(method, table.get(NEAREST.get(method, ""), {}))}


def _published(stream: str, method: str) -> dict[str, Any]:
    """What the authors' code did beside the paper: see the table in docs/protocol.md."""
    choices: dict[str, Any] = {"pooling": "pooler", "replay_gradient": "sum"}
    if not find_method(method).meta:
        choices["dropout"] = 0.1
    if method == "replay":
        choices.update(clip_norm=10.0 if stream == "fewrel" else 25.0, clip_replay_only=True)
    return choices


def classifier_defaults(method: str, frozen: bool) -> dict[str, Any]:
    """The settings of a classifier that differ from those of a run over a file with this method."""
    own = FROZEN_ENCODER.get(method, {}) if frozen else {}
    return {**CLASSIFIER, "method": method, **own}
