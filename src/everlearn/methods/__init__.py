"""The methods, one file each. To add one, write its file and name its class here (see docs/adding-a-method.md)."""

from everlearn.errors import unknown
from everlearn.methods.a_gem import AGEM
from everlearn.methods.a_gem_cached import CachedAGEM
from everlearn.methods.anml import ANML
from everlearn.methods.anml_er import ANMLER
from everlearn.methods.base import Method, MethodConfig, Observations, Parts, Predictor, ScoringPredictor
from everlearn.methods.der import DERPlusPlus
from everlearn.methods.ea_emr import EAEMR
from everlearn.methods.emar import EMAR
from everlearn.methods.er_ace import ERACE
from everlearn.methods.ewc import OnlineEWC
from everlearn.methods.gem import GEM
from everlearn.methods.lamol import LAMOL, LAMOLReal
from everlearn.methods.maml_er import MAMLER
from everlearn.methods.mbpa import MbPA
from everlearn.methods.mer import MER
from everlearn.methods.meta_mbpa import MetaMbPA
from everlearn.methods.mllre import MLLRE
from everlearn.methods.mtl import MTL
from everlearn.methods.ncm import NCM
from everlearn.methods.oml import OML
from everlearn.methods.oml_er import OMLER
from everlearn.methods.oml_er_plastic import PlasticOMLER
from everlearn.methods.ranpac import RanPAC
from everlearn.methods.replay import Replay
from everlearn.methods.ridge import Ridge
from everlearn.methods.seq import Seq
from everlearn.methods.slda import SLDA

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        *(Seq, Replay, AGEM, CachedAGEM, GEM, ERACE, DERPlusPlus, MER, OnlineEWC),
        *(MAMLER, OMLER, ANMLER, OML, ANML, PlasticOMLER),
        *(MbPA, MetaMbPA),
        *(EAEMR, MLLRE, EMAR),
        *(LAMOL, LAMOLReal),
        *(NCM, SLDA, Ridge, RanPAC),
        MTL,
    )
}


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
