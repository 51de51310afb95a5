"""What a run cost: learning, the evaluations on the way, and the one at the end are kept apart."""

from typing import Any

from everlearn.config import Config
from everlearn.ledger import Ledger, Meter
from everlearn.run import run
from support import small_benchmark


def ledger_of(**settings: Any) -> dict[str, Any]:
    given = {"encoder": "tiny", "device": "cpu", "batch_size": 4, "replay_interval": 16, "replay_rate": 0.5, **settings}
    result: dict[str, Any] = run(Config.build(given), benchmark=small_benchmark())["ledger"]
    return result


def test_what_adapting_costs_is_that_of_one_test_too():
    followed, left_alone = (ledger_of(method="oml-er", eval_tasks=follow) for follow in (True, False))
    for counted in ("inner_steps", "memory_reads"):
        assert followed["test"][counted] == left_alone["test"][counted] > 0
        assert followed["watch"][counted] > left_alone["watch"][counted] == 0


def test_a_method_that_is_evaluated_once_is_charged_for_the_same_test():
    seq, pooled = (ledger_of(method=name)["test"]["tokens_forward"] for name in ("seq", "mtl"))
    assert seq == pooled


def test_a_meter_takes_over_what_another_counted():
    here, there = (
        Meter(tokens_forward=1, peak_device_bytes=5),
        Meter(tokens_forward=2, peak_device_bytes=3, seconds=0.5),
    )
    here.phases, there.phases = {"data": 1.0}, {"data": 0.5, "memory": 2.0}
    here.take(there)
    assert here == Meter(tokens_forward=3, peak_device_bytes=5)
    assert (here.seconds, here.phases) == (0.5, {"data": 1.5, "memory": 2.0})
    assert (there, there.seconds, there.phases) == (Meter(), 0.0, {})


def test_what_was_counted_on_the_way_survives_a_checkpoint():
    ledger, again = Ledger(), Ledger()
    ledger.watch.tokens_forward = 7
    again.restore(ledger.as_dict())
    assert again == ledger
