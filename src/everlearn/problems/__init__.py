"""What is learned: `classification`, one softmax over all classes, given or met; `ranking`, scores of candidates."""

from everlearn.problems.base import Problem
from everlearn.problems.classification import Classification
from everlearn.problems.negatives import NegativeRefresher
from everlearn.problems.open_classification import OpenClassification
from everlearn.problems.ranking import Ranking

__all__ = ["Classification", "NegativeRefresher", "OpenClassification", "Problem", "Ranking"]
