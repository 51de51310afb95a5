"""How often a constraint on the gradient was violated while each task was learned (paper, appendix A.6)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from everlearn.report.palette import INK, LINES, MUTED, SMALL
from everlearn.report.panels import plain_axes, titled_figure
from everlearn.report.results import MethodRuns


def violations_figure(methods: Sequence[MethodRuns], subtitle: str) -> Figure | None:
    """Bars per task and row, mean over runs, with the mean number of checks; None where nothing was checked."""
    found = {method.method: counts for method in methods if (counts := _counts(method))}
    if not found:
        return None
    tasks = list(dict.fromkeys(task for counts in found.values() for task in counts))
    figure = titled_figure("Constraint violations per task", subtitle, 10.0, 3.6)
    axes = figure.add_subplot()
    plain_axes(axes)
    width = 0.8 / len(found)
    for number, (name, counts) in enumerate(found.items()):
        places = np.arange(len(tasks)) - 0.4 + width * (number + 0.5)
        violated, checked = (np.array([counts.get(task, (0, 0))[k] for task in tasks]) for k in (0, 1))
        bars = axes.bar(places, violated, width * 0.92, color=LINES[number % len(LINES)], label=name)
        share = [f"{v:.1f} of {c:.1f}" for v, c in zip(violated, checked, strict=True)]
        rotated = len(tasks) * len(found) > 10
        axes.bar_label(bars, share, size=SMALL - 1, color=MUTED, padding=2, rotation=90 if rotated else 0)
    axes.set_xticks(np.arange(len(tasks)), tasks, color=INK)
    # From zero, and with room above for what is written on the bars, also where nothing was violated.
    axes.set_ylim(0, max(1.0, 1.3 * axes.dataLim.y1))
    axes.set_ylabel("violations")
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=MUTED, ncols=len(found), loc="upper right")
    return figure


def _counts(method: MethodRuns) -> dict[str, tuple[float, float]]:
    """Violations and checks per task, means over runs."""
    runs = [run for run in method.runs if "violations" in run]
    if not runs:
        return {}
    tasks = runs[0]["violations"]
    return {
        task: (
            float(np.mean([run["violations"][task] for run in runs])),
            float(np.mean([run["checks_per_task"][task] for run in runs])),
        )
        for task in tasks
    }
