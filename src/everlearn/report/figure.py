"""The figure of a comparison: accuracy over the stream, and below it who still knows which task at the end."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from everlearn.errors import UserError
from everlearn.report.curves import draw_curves, has_curve
from everlearn.report.heat_map import draw_heat_map, heat_map_heading
from everlearn.report.palette import INK, LETTER, LINE_OF_TEXT, LINES, MUTED, SLANT_RISE, TEXT, method_colours
from everlearn.report.plain_text import take_names_literally
from everlearn.report.results import MethodRuns, ResultDict, by_method, describe, orders_of

# Inches. The panels are placed by hand so that text keeps its size and only the height grows with the methods.
WIDTH, MARGIN, TITLE, PANEL_TITLE = 10.0, 0.3, 0.85, 0.4
CURVES_LEFT, CURVES_HEIGHT, CURVES_AXIS, ROW_HEIGHT = 0.75, 3.3, 0.7, 0.46
DOTS_PER_INCH = 200  # twice what a README shows, for sharp text


def accuracy_over_stream(results: Sequence[ResultDict], path: Path) -> None:
    """Draw the figure for results that share one order, as a PNG at `path`.

    Above, accuracy over the tasks seen so far, mean over seeds with a band of one standard deviation; below,
    final accuracy per task. Without evaluations during the stream, the upper panel is left out.
    """
    methods = by_method(results)
    orders = orders_of(results)
    if len(orders) > 1:
        raise UserError(f"the figure shows one order at a time, but the results have orders {', '.join(orders)}.")
    save_figure(accuracy_figure(methods, describe(results), method_colours(methods)), path)


def accuracy_figure(methods: Sequence[MethodRuns], subtitle: str, colours: Mapping[str, str]) -> Figure:
    """The whole figure, from top to bottom."""
    tasks = _tasks_in_order(methods)
    curves = any(has_curve(method) for method in methods)
    label_width = LETTER * max(len(method.label) for method in methods) + 0.6
    name_width = LETTER * max(len(task) for task in tasks)
    slanted = name_width > (WIDTH - label_width - CURVES_LEFT) / (len(tasks) + 1)
    heading = PANEL_TITLE + LINE_OF_TEXT + (SLANT_RISE * name_width if slanted else 0)
    rows_height = ROW_HEIGHT * len(methods)
    # Every curve has its name at its end: the panel is at least as high as they are on top of each other.
    curves_height = max(CURVES_HEIGHT, LINE_OF_TEXT * len(methods))
    curves_space = heading + curves_height + CURVES_AXIS if curves else 0.0
    height = TITLE + curves_space + heading + rows_height + MARGIN
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)

    def write(text: str, from_top: float, size: float, colour: str, weight: str) -> None:
        place = (MARGIN / WIDTH, 1 - from_top / height)
        figure.text(*place, text, size=size, color=colour, weight=weight, va="center")

    def panel(left: float, from_top: float, right: float, high: float) -> Axes:
        wide = WIDTH - left - right
        return figure.add_axes((left / WIDTH, 1 - (from_top + high) / height, wide / WIDTH, high / height))

    write(f"What is kept {'over' if curves else 'at the end of'} the stream", 0.34, 15, INK, "bold")
    write(subtitle, 0.63, TEXT, MUTED, "normal")
    if curves:
        in_grey = any(method.lifelong and colours[method.method] == MUTED for method in methods)
        chosen = f"; in colour the {len(LINES)} rows that are best on average" if in_grey else ""
        write(f"Accuracy over the tasks seen so far{chosen}", TITLE + PANEL_TITLE / 2, TEXT, INK, "bold")
        draw_curves(panel(CURVES_LEFT, TITLE + heading, label_width, curves_height), methods, tasks, slanted, colours)
    write(heat_map_heading(methods, tasks), TITLE + curves_space + PANEL_TITLE / 2, TEXT, INK, "bold")
    rows = panel(label_width - 0.25, TITLE + curves_space + heading, MARGIN, rows_height)
    draw_heat_map(rows, methods, tasks, slanted, colours)
    return figure


def _tasks_in_order(methods: Sequence[MethodRuns]) -> list[str]:
    """The tasks as the stream brought them, which the matrix knows; else as the first result lists them."""
    matrices = [run["matrix"] for method in methods if method.lifelong for run in method.runs]
    return next((matrix["tasks"] for matrix in matrices if matrix), list(methods[0].runs[0]["per_task"]))


def save_figure(figure: Figure, path: Path) -> None:
    """Write beside and rename into place, so that nobody ever sees half a picture."""
    take_names_literally(figure)
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(partial, format="png")
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise UserError(f"could not write {path}: {error.strerror}.") from error
