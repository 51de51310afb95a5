"""What a service knows about how well its model does."""

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")

from everlearn import LifelongClassifier
from everlearn.classifier.journal import Entry
from everlearn.service import watching
from everlearn.service.watching import Arrivals, Retention
from running_service import SETTINGS, service
from support import labelled_texts
from test_service import pairs, wait_for


def test_what_was_not_predicted_was_not_wrong():
    arrivals = Arrivals()
    arrivals.add([Entry(1, "a", "x"), Entry(2, "b", "x")], [None, None], 0)
    assert (arrivals.accuracy, arrivals.points) == (None, [])
    assert [recent["predicted"] for recent in arrivals.recent] == [None, None]
    arrivals.add([Entry(3, "a", "x"), Entry(4, "b", "y")], ["x", "x"], 2)
    assert (arrivals.accuracy, arrivals.points) == (0.5, [(4, 0.5)])


def test_every_label_is_measured_in_its_turn(monkeypatch: pytest.MonkeyPatch):
    examples = labelled_texts(60, range(6))
    classifier = LifelongClassifier(**SETTINGS)
    classifier.partial_fit([example.text for example in examples], [f"label{example.label}" for example in examples])
    snapshot, retention = classifier.snapshot(), Retention()
    monkeypatch.setattr(watching, "MOST_PROBES", 6)  # two labels at a time
    counts = []
    for _ in range(3):
        retention.measure(classifier, snapshot)
        counts.append(len(retention.now))
    assert counts == [2, 4, 6]
    monkeypatch.setattr(watching, "MOST_PROBES", 200)
    retention.measure(classifier, snapshot)
    assert {row["label"] for row in retention.as_rows()} == set(snapshot.classes)
    classifier.forget("label3")
    retention.measure(classifier, classifier.snapshot())
    assert "label3" not in retention.now


def test_what_was_measured_is_known_after_a_restart(tmp_path: Path):
    with service(tmp_path / "model") as (client, _):
        client.wait_until_learned(client.teach(*pairs(40))[-1])
        wait_for(lambda: client.get("/model")[1]["retention"])
        measured = client.get("/model")[1]["retention"]
        client.teach(("the of", "label0"))
    with service(tmp_path / "model") as (client, _):
        assert client.get("/model")[1]["retention"] == measured
