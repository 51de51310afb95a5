"""The episodic memory: a compact store, the policies that decide what stays, and its reads."""

from everlearn.memory.known_policies import POLICIES
from everlearn.memory.memory import Judgement, Memory, MemoryConfig
from everlearn.memory.policies import MemoryPolicy
from everlearn.memory.view import MemoryView

__all__ = ["POLICIES", "Judgement", "Memory", "MemoryConfig", "MemoryPolicy", "MemoryView"]
