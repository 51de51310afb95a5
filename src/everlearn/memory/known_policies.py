"""The memory policies by name."""

from everlearn.errors import unknown
from everlearn.memory.cbrs import ClassBalanced
from everlearn.memory.forgetting import Forgetting
from everlearn.memory.policies import MemoryPolicy, Reservoir, Ring
from everlearn.memory.surprise import Surprise

POLICIES: dict[str, type[MemoryPolicy]] = {
    policy.name: policy for policy in (Reservoir, Ring, ClassBalanced, Surprise, Forgetting)
}


def make_policy(name: str, capacity: int | None) -> MemoryPolicy:
    """The policy of this name."""
    if name not in POLICIES:
        raise unknown("memory policy", name, POLICIES)
    return POLICIES[name](capacity)
