"""MTL: training on all tasks at once, for several epochs: the upper bound (paper, section 4.3)."""

from everlearn.methods.seq import Seq


class MTL(Seq):
    """SEQ on another diet: not a lifelong method, so it is given batches drawn from the pool of all tasks."""

    name = "mtl"
    summary = "multi-task training on the shuffled pool of all tasks: the upper bound, not a lifelong method"
    family = "upper bound"
    lifelong = False
