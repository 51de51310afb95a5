"""What is learned: `classification`, one softmax head over all classes."""

from everlearn.problems.base import Problem
from everlearn.problems.classification import Classification

__all__ = ["Classification", "Problem"]
