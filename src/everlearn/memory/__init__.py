"""The episodic memory: a compact store, the policies that write it, and its reads."""

from everlearn.memory.memory import Memory, MemoryConfig
from everlearn.memory.policies import POLICIES, WritePolicy

__all__ = ["POLICIES", "Memory", "MemoryConfig", "WritePolicy"]
