"""Numbers for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from everlearn.service.learning import Learning


class Metrics:
    """Counters of one service, in a registry of its own."""

    def __init__(self, learning: Learning) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "everlearn_requests", "Requests answered.", ["method", "status"], registry=self.registry
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
                "everlearn_arrivals_accuracy",
                "Accuracy on the last arrivals.",
                lambda: learning.facts.accuracy or 0,
            ),
            ("everlearn_learning_failed", "1 when nothing more is learned.", lambda: learning.failure is not None),
            ("everlearn_saving_failed", "1 when the last save failed.", lambda: learning.save_failure is not None),
        ):
            Gauge(name, help_text, registry=self.registry).set_function(value)

    def count(self, method: str, status: int) -> None:
        """A request was answered."""
        known = method if method in ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS") else "other"
        self.requests.labels(known, str(status)).inc()

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)
