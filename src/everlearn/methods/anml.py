"""ANML: ANML-ER without replay while learning, the ablation of the paper's section 7 as a method of its own."""

from dataclasses import replace

from everlearn.methods.anml_er import ANMLER
from everlearn.methods.base import MethodConfig, Parts


class ANML(ANMLER):
    """Every query set comes from the stream. The memory is still written, and read when it is tested."""

    name = "anml"
    summary = "anml-er without replay while learning"
    replays = False

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(replace(config, replay=False), parts)
