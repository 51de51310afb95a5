"""everlearn: text models that keep learning from a stream, in one pass, and forget little."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlearn.classifier import LifelongClassifier

__version__ = "0.1.0"
__all__ = ["LifelongClassifier", "__version__"]


def __getattr__(name: str) -> Any:
    """The classifier is imported when it is asked for, so that `import everlearn` stays light."""
    if name == "LifelongClassifier":
        from everlearn.classifier import LifelongClassifier

        return LifelongClassifier
    raise AttributeError(f"module 'everlearn' has no attribute '{name}'")
