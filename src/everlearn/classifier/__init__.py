"""A text classifier that keeps learning: scikit-learn's conventions on the outside, a lifelong method inside."""

from everlearn.classifier.classifier import LifelongClassifier
from everlearn.classifier.forgetting import Forgetting
from everlearn.classifier.inputs import BadInputError
from everlearn.classifier.labels import Label
from everlearn.classifier.snapshot import Snapshot

__all__ = ["BadInputError", "Forgetting", "Label", "LifelongClassifier", "Snapshot"]
