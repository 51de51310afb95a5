"""OML: OML-ER without replay while learning, the ablation of the paper's section 7 as a method of its own."""

from dataclasses import replace

from everlearn.methods.base import MethodConfig, Parts
from everlearn.methods.oml_er import OMLER


class OML(OMLER):
    """Every query set comes from the stream. The memory is still written, and read when it is tested."""

    name = "oml"
    summary = "oml-er without replay while learning"
    replays = False

    def __init__(self, config: MethodConfig, parts: Parts) -> None:
        super().__init__(replace(config, replay=False), parts)
