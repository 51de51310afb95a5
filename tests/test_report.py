"""The comparison table and figure, from small results whose cells can be worked out by hand."""

import struct
from copy import deepcopy
from itertools import combinations

import pytest
from rich.console import Console

from everlearn.errors import UserError
from everlearn.report.curves import spread_apart
from everlearn.report.figure import accuracy_over_stream
from everlearn.report.results import by_method, describe
from everlearn.report.table import COLUMNS, MORE_COLUMNS, comparison_markdown, comparison_rows, comparison_table

TASKS = ("news", "reviews", "questions")


def counts(seconds, steps=0, tokens=0):
    zeros = ("memory_writes", "memory_reads", "replays", "replays_skipped", "examples_generated", "inner_steps")
    return {
        **dict.fromkeys(zeros, 0),
        "stream_examples": 1000,
        "tokens_forward": tokens,
        "tokens_backward": tokens // 2,
        "optimiser_steps": steps,
        "seconds": seconds,
    }


def make_result(method="replay", seed=1, accuracy=0.75, tasks=TASKS, lifelong=True, **changes):
    final = [accuracy] * len(tasks)
    rows = [[0.1] * len(tasks) for _ in tasks] + [final]
    for index in range(len(tasks)):
        rows[index + 1][index] = accuracy
    ends = [100 * (index + 1) for index in range(len(tasks))]
    curve = [{"examples": n, "accuracy": accuracy - 0.1, "per_task": {tasks[0]: accuracy}} for n in (50, *ends)]
    return {
        "method": method,
        "stream": "tiny",
        "encoder": "small",
        "order": 1,
        "seed": seed,
        "split": "test",
        "accuracy": accuracy,
        "per_task": dict(zip(tasks, final, strict=True)),
        "forgetting": 0.125 if lifelong and len(tasks) > 1 else None,
        "backward_transfer": None,
        "learning_accuracy": 0.8 if lifelong else None,
        "forward_transfer": None,
        "anytime_accuracy": None,
        "matrix": {"examples": [0, *ends], "tasks": list(tasks), "accuracy": rows} if lifelong else None,
        "curve": curve if lifelong else [],
        "task_ends": ends if lifelong else [],
        "lifelong": lifelong,
        "ledger": {
            "train": counts(185.0, steps=1234, tokens=2_000_000),
            "watch": counts(7.0),
            "test": counts(4.0),
            "replay_rate": 0.0098,
            "memory_entries": 1150 if lifelong else 0,
            "memory_bytes": 2_500_000 if lifelong else 0,
            "method_bytes": 0,
            "parameters_trained": 10,
            "peak_device_bytes": 0,
        },
        **changes,
    }


def with_counts(result, phase, **changed):
    """The same with other counts in a phase of its ledger."""
    ledger = result["ledger"]
    return {**result, "ledger": {**ledger, phase: {**ledger[phase], **changed}}}


def more_cell(result, header):
    (method,) = by_method([result])
    return MORE_COLUMNS[header](method)


def test_no_cost_is_without_a_column():
    mer = with_counts(make_result(), "train", inner_steps=1040)
    assert cells([mer], "replay")["optim. steps"] == "1,234 + 1,040"
    kept = make_result()
    kept["ledger"] = {**kept["ledger"], "memory_entries": 0, "memory_bytes": 0, "method_bytes": 800_000_000}
    assert cells([kept], "replay")["memory"] == "0 / 800.0MB"
    assert more_cell(with_counts(make_result(), "train", examples_generated=16), "generated") == "1.60%"
    adapting = with_counts(make_result(), "test", memory_reads=960, inner_steps=90_000)
    assert more_cell(adapting, "test reads / steps") == "960 / 90.0k"
    assert more_cell(make_result(), "generated") == more_cell(make_result(), "test reads / steps") == "–"


def cells(results, method):
    rows = [dict(zip(COLUMNS, row.cells, strict=True)) for row in comparison_rows(results)]
    return next(row for row in rows if row["method"] == method)


def png_size(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", data[16:24])


def test_cells_of_one_run():
    assert cells([make_result()], "replay") == {
        "method": "replay",
        "accuracy": "75.0",
        "forgetting": "12.5",
        "learning accuracy": "80.0",
        "replay rate": "0.98%",
        "train tokens": "3.00M",
        "memory": "1.15k / 2.5MB",
        "optim. steps": "1,234",
        "train time": "3m05s",
        "test time": "4.0s",
    }


def test_several_seeds_give_mean_and_sample_deviation():
    results = [make_result(seed=seed, accuracy=accuracy) for seed, accuracy in [(1, 0.7), (2, 0.8), (3, 0.9)]]
    row = cells(results, "replay")
    assert row["accuracy"] == "80.0±10.0"  # ddof=0 would give 8.2
    assert row["forgetting"] == "12.5±0.0"
    assert describe(results) == "tiny · order 1 · small · test split · mean ± std over 3 seeds"


def test_costs_are_means_over_seeds():
    cheap, dear = make_result(seed=1), make_result(seed=2)
    dear["ledger"]["train"]["optimiser_steps"] = 1434
    assert cells([cheap, dear], "replay")["optim. steps"] == "1,334"


def test_undefined_values_are_dashes():
    results = [make_result(seed=1), make_result(seed=2, forgetting=None)]
    assert cells(results, "replay")["forgetting"] == "–"


def test_upper_bound_is_marked_and_last():
    results = [make_result("mtl", lifelong=False), make_result("seq"), make_result("replay")]
    assert [row.cells[0] for row in comparison_rows(results)] == ["seq", "replay", "mtl (not lifelong)"]
    assert cells(results, "mtl (not lifelong)")["memory"] == "the pool"
    rows = comparison_table(results).rows
    assert [row.end_section for row in rows] == [False, True, False]


def test_markdown_holds_the_same_cells():
    results = [make_result("seq"), make_result("mtl", lifelong=False)]
    title, blank, header, rule, *lines = comparison_markdown(results).splitlines()
    assert title == describe(results)
    assert blank == ""
    assert header.strip("| ").split(" | ") == list(COLUMNS)
    assert rule.count("--") == len(COLUMNS)
    assert [tuple(line.strip("| ").split(" | ")) for line in lines] == [row.cells for row in comparison_rows(results)]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_terminal_table_loses_no_number(width):
    results = [make_result(method, seed) for method in ("maml-er", "anml-er") for seed in (1, 2)]
    results.append(make_result("mtl", lifelong=False))
    console = Console(width=width)
    with console.capture() as capture:
        console.print(comparison_table(results))
    text = capture.get()
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    for row in comparison_rows(results):
        for word in " ".join(row.cells).split():
            assert word in text


def test_results_are_left_as_they_were(tmp_path):
    results = [make_result("seq"), make_result("mtl", lifelong=False)]
    before = deepcopy(results)
    comparison_table(results)
    comparison_markdown(results)
    accuracy_over_stream(results, tmp_path / "figure.png")
    assert results == before


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], "no results"),
        ([make_result("seq"), make_result(stream="other")], "differ in stream"),
        ([make_result("seq"), make_result(encoder="other")], "differ in encoder"),
        ([make_result("seq"), make_result(split="validation")], "differ in split"),
        ([make_result("seq"), make_result(tasks=("news",))], "different tasks"),
        ([make_result(seed=3), make_result(seed=3)], "'replay' have order 1 and seed 3"),
    ],
)
def test_what_cannot_be_compared_is_refused(results, message):
    with pytest.raises(UserError, match=message):
        by_method(results)


FIGURES = {
    "several methods": [make_result("seq"), make_result("replay"), make_result("mtl", lifelong=False)],
    "single method": [make_result()],
    "single task": [make_result(tasks=("news",))],
    "without curve": [make_result("seq", curve=[]), make_result("replay", curve=[], matrix=None)],
    "one without curve": [make_result("seq", curve=[]), make_result("replay")],
    "several seeds": [make_result(seed=1, accuracy=0.7), make_result(seed=2), make_result("mtl", 1, lifelong=False)],
    "upper bound only": [make_result("mtl", lifelong=False)],
    "many tasks": [make_result(tasks=tuple(f"a-rather-long-name-{index}" for index in range(30)))],
    "no task ends": [make_result(task_ends=[])],
    "perfect": [make_result(accuracy=1.0)],
}


@pytest.mark.parametrize("results", FIGURES.values(), ids=FIGURES.keys())
def test_figure_is_a_whole_png(results, tmp_path):
    path = tmp_path / "new folder" / "figure.png"
    accuracy_over_stream(results, path)
    width, height = png_size(path)
    assert width == 2000
    assert 300 < height < 3000
    assert list(path.parent.iterdir()) == [path]


def test_figure_replaces_an_older_one(tmp_path):
    path = tmp_path / "figure.png"
    path.write_text("old")
    accuracy_over_stream([make_result()], path)
    png_size(path)


def test_figure_of_several_orders_is_refused(tmp_path):
    results = [make_result(order=1), make_result(order=2)]
    with pytest.raises(UserError, match="orders 1, 2"):
        accuracy_over_stream(results, tmp_path / "figure.png")
    assert not list(tmp_path.iterdir())


def test_orders_are_averaged_for_each_seed_first():
    accuracies = {(1, 1): 0.7, (2, 1): 0.8, (1, 2): 0.5, (2, 2): 0.8}
    results = [make_result(order=order, seed=seed, accuracy=a) for (order, seed), a in accuracies.items()]
    assert cells(results[:2], "replay")["accuracy"] == "75.0"
    assert cells(results, "replay")["accuracy"] == "70.0±7.1"  # over four runs it would be 14.1
    assert describe(results).startswith("tiny · orders 1, 2 · ")


def test_labels_are_spread_apart():
    heights = [10.0, 50.0, 50.5, 51.0, 52.0, 90.0]
    placed = spread_apart(heights, gap=4)
    assert all(abs(one - other) >= 4 - 1e-9 for one, other in combinations(placed, 2))
    assert placed == sorted(placed)  # in the order of the lines
    assert placed[0] == 10.0
    assert placed[-1] == 90.0
    assert spread_apart([], gap=4) == []
    # A crowd at the lower end is not pushed out of the panel, into what stands below.
    crowd = spread_apart([1.0, 2.0, 1.5, 3.0, 40.0], gap=10, low=0, high=45)
    assert sorted(crowd) == [0, 10, 20, 30, 40]
    assert min(spread_apart([5.0, 5.0, 5.0], gap=10, low=0, high=8)) == 0  # no room: from the bottom up
