"""scikit-learn's conventions for something that goes on learning: parameters, fitted or not, copies, one at a time."""

import copy
import threading
from abc import abstractmethod
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

KEPT = ("places_", "lineage_", "marks_", "erasure_")
"""What goes with a copy beside parameters and state."""


class Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is built when it first learns, with the parameters that it has then."""

    params_: dict[str, Any]
    """The parameters it was built with; those of `set_params` count when it starts over with `fit`."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        """Held by whoever learns from it, looks at it or saves it."""

    @abstractmethod
    def _build(self) -> None:
        """Be ready to learn, with nothing learned yet."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything that changes while it learns."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a saved one stood."""

    def _is_fitted(self) -> bool:
        return hasattr(self, "params_")

    def _check_fitted(self) -> None:
        if not self._is_fitted():
            raise NotFittedError("nothing has been learned yet: call partial_fit with texts and labels first.")

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """For copies, and for those who pickle models: parameters and state; the rest is made anew."""
        own = {"params": self.get_params(deep=False)}
        if not self._is_fitted():
            return own
        with self._turn:
            kept = {name: getattr(self, name) for name in KEPT}
            return copy.deepcopy({**own, "built_with": self.params_, "state": self.state(), "kept": kept})

    def __setstate__(self, saved: dict[str, Any]) -> None:
        """Become the copy."""
        type(self).__init__(self, **saved.get("built_with", saved["params"]))
        if "state" in saved:
            self._build()
            self.restore(saved["state"])
            for name, value in saved["kept"].items():
                setattr(self, name, value)
        self.set_params(**saved["params"])
