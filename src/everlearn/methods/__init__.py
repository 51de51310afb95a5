"""The methods, one file each. To add one, write its file and name its class here (see docs/adding-a-method.md)."""

from everlearn.errors import unknown
from everlearn.methods.a_gem import AGEM
from everlearn.methods.anml_er import ANMLER
from everlearn.methods.base import Method, MethodConfig, Observations, Parts, Predictor, ScoringPredictor
from everlearn.methods.maml_er import MAMLER
from everlearn.methods.mtl import MTL
from everlearn.methods.oml_er import OMLER
from everlearn.methods.replay import Replay
from everlearn.methods.seq import Seq

METHODS: dict[str, type[Method]] = {method.name: method for method in (Seq, Replay, AGEM, MAMLER, OMLER, ANMLER, MTL)}


def find_method(name: str) -> type[Method]:
    """The method of this name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


__all__ = [
    "METHODS",
    "Method",
    "MethodConfig",
    "Observations",
    "Parts",
    "Predictor",
    "ScoringPredictor",
    "find_method",
]
