"""What is learned: `classification`, one softmax over all classes; `ranking`, scores of candidates."""

from everlearn.problems.base import Problem
from everlearn.problems.classification import Classification
from everlearn.problems.negatives import NegativeRefresher
from everlearn.problems.ranking import Ranking

__all__ = ["Classification", "NegativeRefresher", "Problem", "Ranking"]
