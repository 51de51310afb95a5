"""Measured speed as a Markdown page and figures, from the saved JSON alone."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from speed_figure import speed_figure
from speed_targets import METHODS, PROBLEMS, TARGETS, Figures, accuracies, figure, quantity

from everlearn.report.figure import save_figure

UNDEFINED = "–"
ABOUT_ARMS = (
    "The product / the published procedure; in brackets the slowest window and the fastest. Tokens are those that go "
    "forward, padding included. A replay comes after many examples, so few or none fall into the windows; the table "
    "says how many. ANML-ER's modulator is frozen in both arms, as in the paper; the authors' code trains it."
)
ARMS_HEADER = (
    *("method", "examples/s", "speed-up", "tokens/s", "replays timed"),
    *("share of peak", "GPU memory, GB", "start-up, s"),
)


def render(paths: Sequence[Path], out: Path) -> None:
    """`speed.md`, and a figure for each kind of machine that was measured on."""
    measured: dict[str, Figures] = {}
    for path in paths:
        figures = json.loads(path.read_text())
        kind = figures["machine"]["kind"]
        if kind in measured:
            raise SystemExit(f"{path}: another of the files was measured on {kind} too: pass one of them.")
        measured[kind] = figures
    out.mkdir(parents=True, exist_ok=True)
    (out / "speed.md").write_text(page(measured), encoding="utf-8")
    for kind, figures in measured.items():
        save_figure(speed_figure(figures, machine_line(figures)), out / f"speed-{kind}.png")


def page(measured: dict[str, Figures]) -> str:
    """Every target beside what was reached, then everything that was measured on each machine."""
    parts = ["# Speed", "What was aimed at, and what was reached:", *targets(measured)]
    for kind, figures in measured.items():
        parts += [f"## {figures['machine']['device']}", versions(figures), f"![speed](speed-{kind}.png)"]
        parts += [*arms(figures), *others(figures), *growth(figures)]
    return "\n\n".join(parts) + "\n"


def targets(measured: dict[str, Figures]) -> Iterator[str]:
    """The targets' table; a figure that nobody measured is neither met nor missed."""
    rows = []
    for target in TARGETS:
        fitting = [figures for kind, figures in measured.items() if target.kind in (kind, None)]
        value = next((found for figures in fitting if (found := target.value(figures)) is not None), None)
        reached = "not measured" if value is None else quantity(value, target.unit)
        outcome = UNDEFINED if value is None else "met" if target.met(value) else "**missed**"
        rows.append((target.what, target.wanted(), reached, outcome))
    yield table(("", "target", "reached", "outcome"), rows)


def versions(figures: Figures) -> str:
    """The machine and what ran on it."""
    machine = figures["machine"]
    names = ("everlearn", "torch", "cuda", "transformers", "python")
    listed = ", ".join(f"{name} {machine[name]}" for name in names if machine.get(name))
    how = figures.get("procedure", {})
    commit = f", commit {how['commit']}" if how.get("commit") else ""
    windows = f" Rates are medians of {how['--windows']} windows of {how['--seconds']:g} s." if how else ""
    return (
        f"{machine['cores']} CPU cores, {machine['threads']} threads; {listed}{commit}. everlearn computes in "
        f"{machine['precision']}, the published procedure in fp32. The peak is what a large matrix product reaches "
        f"here in {machine['precision']}: {machine['peak_flops'] / 1e12:,.2f} TFLOP/s.{windows}"
    )


def machine_line(figures: Figures) -> str:
    """The machine in a few words."""
    machine = figures["machine"]
    return f"{machine['device']} · torch {machine['torch']} · everlearn {machine['everlearn']}"


def arms(figures: Figures) -> Iterator[str]:
    """Training: a table for each encoder and problem."""
    found = [key.split("/") for key in figures if key.count("/") == 2]
    for encoder, stream in dict.fromkeys((encoder, stream) for encoder, stream, _ in found):
        rows = []
        for _, _, method in (key for key in found if key[:2] == [encoder, stream]):
            measured = figures[f"{encoder}/{stream}/{method}"]
            ours, theirs = measured["product"], measured["published"]
            rows.append(
                (
                    METHODS[method],
                    f"{with_spread(ours)} / {with_spread(theirs)}",
                    f"{measured['ratio']:.1f} ×",
                    f"{rate(ours['tokens_per_second'])} / {rate(theirs['tokens_per_second'])}",
                    f"{ours.get('replays', UNDEFINED)} / {theirs.get('replays', UNDEFINED)}",
                    f"{ours['share_of_peak']:.1%}",
                    f"{gigabytes(ours['peak_bytes'])} / {gigabytes(theirs['peak_bytes'])}",
                    f"{ours['start_up_seconds']:.1f} / {theirs['start_up_seconds']:.1f}",
                )
            )
        yield f"### Training: {shape(encoder)}, {PROBLEMS[stream]}"
        yield ABOUT_ARMS
        yield table(ARMS_HEADER, rows)


def others(figures: Figures) -> Iterator[str]:
    """Prediction, the whole run, and whether the fast path learns the same."""
    rows = []
    for key, found in figures.items():
        encoder, _, part = key.partition("/")
        if part == "prediction":
            windows = found.get("windows", {})
            sides = [f"{rate(found[side])}{spread(windows.get(side, ()))}" for side in ("product", "published")]
            rows.append((f"prediction, {shape(encoder)}", f"{' / '.join(sides)} texts/s, {found['ratio']:.1f} ×"))
        if part == "whole":
            rows.append(
                (f"a run of {found['examples']:,} examples, {shape(encoder)}", f"{found['seconds']:,.1f} s in all")
            )
    for encoder in dict.fromkeys(key.partition("/")[0] for key in figures if "/accuracy/" in key):
        found = accuracies(figures, encoder).items()
        listed = ", ".join(f"{name}: {' '.join(f'{100 * a:.1f}' for a in values)}" for name, values in found)
        rows.append((f"accuracy on fewrel by seed, {shape(encoder)}", listed))
    if rows:
        yield "### Prediction and whole runs"
        yield table(("", "measured"), rows)


def growth(figures: Figures) -> Iterator[str]:
    """How cost grows with the length of texts, the number of classes, runs at once and the size of the memory."""
    for part, name in (("length", "tokens a text"), ("classes", "classes")):
        for key in (key for key in figures if key.endswith(f"/{part}")):
            rows = [
                (
                    f"{int(size):,}",
                    rate(at["examples_per_second"]),
                    rate(at["tokens_per_second"]),
                    gigabytes(at["peak_bytes"]),
                )
                for size, at in figures[key].items()
            ]
            yield f"### OML-ER by {name}: {shape(key.split('/')[0])}"
            yield table((name, "examples/s", "tokens/s", "GPU memory, GB"), rows)
    for arm in dict.fromkeys(key.rpartition("/")[0] for key in figures if "/together/" in key):
        encoder, stream, method, _ = arm.split("/")
        yield f"### Runs at once in one process: {METHODS[method]}, {shape(encoder)}, {PROBLEMS[stream]}"
        counts = {key.rpartition("/")[2]: at for key, at in figures.items() if key.startswith(f"{arm}/")}
        rows = [(count, with_spread(at), rate(at["slowest"])) for count, at in counts.items()]
        yield table(("runs", "examples/s in all", "examples/s of the slowest"), rows)
    memory = figure(figures, "memory")
    if memory:
        yield "### The memory by its size"
        rows = [
            (f"{int(size):,}", f"{at['read_milliseconds']:.3f}", f"{at['bytes'] / 1e6:,.1f}")
            for size, at in memory.items()
        ]
        yield table(("entries", "a read of 96, ms", "MB"), rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, figures to the right."""
    alignment = ("---", *["---:"] * (len(header) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, alignment, *rows))


def shape(encoder: str) -> str:
    """What an encoder's name stands for here."""
    return "BERT-base's shape" if encoder == "bert" else encoder


def with_spread(measured: Figures) -> str:
    """A rate, and between what it was in single windows."""
    return rate(measured["examples_per_second"]) + spread(measured.get("windows", ()))


def spread(windows: Sequence[float]) -> str:
    """The slowest and the fastest of several windows."""
    return f" ({rate(min(windows))}–{rate(max(windows))})" if len(windows) > 1 else ""


def rate(value: float) -> str:
    """A rate in as many digits as say something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def gigabytes(count: Any) -> str:
    """Bytes on a GPU; nothing where there is none."""
    return UNDEFINED if count is None else f"{count / 1e9:.1f}"
