"""Numbers for Prometheus."""

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from everlearn.service.learning import Learning


class Metrics:
    """Counters of one service, in a registry of its own."""

    def __init__(self, learning: Learning) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time, open files
        self.requests = Counter(
            "everlearn_requests", "Requests answered.", ["method", "path", "status"], registry=self.registry
        )
        self.predictions = Counter("everlearn_predictions", "Texts predicted.", registry=self.registry)
        self.accepted = Counter("everlearn_examples_accepted", "Examples acknowledged.", registry=self.registry)
        self.seconds = Histogram(
            "everlearn_prediction_seconds",
            "Time from a request for predictions to its answer.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )
        for name, help_text, value in (
            ("everlearn_backlog", "Acknowledged examples that are not learned yet.", lambda: learning.backlog),
            ("everlearn_examples_learned", "Examples in the model.", lambda: learning.facts.examples),
            ("everlearn_labels", "Labels known.", lambda: len(learning.facts.counts)),
            ("everlearn_memory_entries", "Examples in memory.", lambda: learning.facts.memory_entries),
            (
                "everlearn_memory_capacity",
                "Most examples in memory.",
                lambda: _or(learning.classifier.memory_capacity, math.inf),
            ),
            ("everlearn_arrivals_accuracy", "Accuracy on the last arrivals.", lambda: _or(learning.facts.accuracy)),
            (
                "everlearn_forgotten",
                "Share of probed memory examples that was known best and is not now.",
                lambda: _forgotten(learning),
            ),
            ("everlearn_learning_rate", "Examples learned per second, lately.", lambda: learning.rate),
            ("everlearn_learning_failed", "1 when nothing more is learned.", lambda: learning.failure is not None),
            ("everlearn_saving_failed", "1 when the last save failed.", lambda: learning.save_failure is not None),
        ):
            Gauge(name, help_text, registry=self.registry).set_function(value)

    def count(self, method: str, path: str, status: int) -> None:
        """A request was answered; `path` is a route's, so that clients cannot make up ever more series."""
        known = method if method in ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS") else "other"
        self.requests.labels(known, path, str(status)).inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)


def _or(value: float | None, otherwise: float = math.nan) -> float:
    return otherwise if value is None else value


def _forgotten(learning: Learning) -> float:
    """Over all labels that are probed; none yet is not zero."""
    lost = [row["best"] - row["now"] for row in learning.facts.retention]
    return sum(lost) / len(lost) if lost else math.nan
