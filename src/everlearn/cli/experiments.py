"""Commands for experiments: run, compare, describe, list, data."""

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from everlearn.cli.app import EXPERIMENTS, app
from everlearn.cli.options import given, with_settings
from everlearn.comparison import FIGURE, compare_methods
from everlearn.config import Config
from everlearn.description import describe_tasks
from everlearn.encoders import KNOWN
from everlearn.errors import UserError, unknown
from everlearn.experiment import benchmark_for
from everlearn.memory import POLICIES
from everlearn.methods import METHODS, Method
from everlearn.progress import Screen
from everlearn.report.phases import time_spent
from everlearn.report.results import ResultDict
from everlearn.report.table import comparison_table, duration
from everlearn.report.tasks import draw_tasks, tasks_table
from everlearn.run import run as run_once
from everlearn.streams import STREAMS, StreamConfig, download

data_app = typer.Typer(help="Fetch benchmark data.", no_args_is_help=True)
app.add_typer(data_app, name="data", rich_help_panel=EXPERIMENTS)

ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file of settings; options given here win.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that --out holds.")]


@app.command(rich_help_panel=EXPERIMENTS)
@with_settings()
def run(
    config: ConfigFile = None,
    out: Annotated[Path | None, typer.Option(help="Folder for config, metrics, result and checkpoints.")] = None,
    resume: Resume = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
    **options: Any,
) -> None:
    """Learn from a stream with one method, evaluate, and show what it reached and what it cost."""
    if resume and out is None:
        raise UserError("--resume needs the folder of the run to go on with: pass --out DIR.")
    screen = Screen()
    built = Config.build(given(config, options))
    result = run_once(built, out, resume, screen)
    if as_json:
        print(json.dumps(result, indent=2))
        return
    Console().print(comparison_table([cast(ResultDict, result)]))
    if out is None:
        screen.say("nothing was saved: pass --out DIR to keep the result and to be able to resume.")


@app.command(rich_help_panel=EXPERIMENTS)
@with_settings()
def profile(
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
    **options: Any,
) -> None:
    """Make a run and show where its time went; on a GPU each phase waits for the device, which slows the run down."""
    result = run_once(Config.build(given(config, options)), screen=Screen(), profiled=True)
    if as_json:
        print(json.dumps(result, indent=2))
        return
    train = result["ledger"]["train"]
    rows = time_spent(result["ledger"])
    total = sum(seconds for _, seconds in rows)
    table = Table("phase", "time", "share")
    for name, seconds in rows:
        table.add_row(name, duration(seconds), f"{seconds / total:.0%}")
    Console().print(table)
    Console().print(
        f"{train['stream_examples'] / train['seconds']:,.0f} examples/s, "
        f"{train['tokens_forward'] / train['seconds']:,.0f} tokens/s while learning"
    )


@app.command(rich_help_panel=EXPERIMENTS)
@with_settings("method", "seed")
def compare(
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas.")],
    out: Annotated[Path, typer.Option(help="Folder for the runs, the table and the figure.")],
    seeds: Annotated[str, typer.Option(help="Seeds to run each method with, separated by commas.")] = "42",
    together: Annotated[int, typer.Option(help="Runs at once in this process, where a GPU has room for several.")] = 1,
    config: ConfigFile = None,
    resume: Resume = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")] = False,
    **options: Any,
) -> None:
    """Run several methods on the same stream; one table and one figure of accuracy over the stream."""
    try:
        chosen_seeds = [int(seed) for seed in seeds.split(",")]
    except ValueError as error:
        raise UserError(f"--seeds must be whole numbers separated by commas, not '{seeds}'.") from error
    screen = Screen()
    names = [name.strip() for name in methods.split(",") if name.strip()]
    results = compare_methods(given(config, options), names, chosen_seeds, out, resume, screen, together)
    if as_json:
        print(json.dumps(results, indent=2))
        return
    Console().print(comparison_table(results))
    screen.say(f"figure: {out / FIGURE}")


@app.command("list", rich_help_panel=EXPERIMENTS)
def list_known(what: Annotated[str, typer.Argument(help="methods, streams, encoders or memories")]) -> None:
    """Show the methods, streams, encoders or memory policies there are."""
    lists: dict[str, dict[str, tuple[str, ...]]] = {
        "methods": {name: _about(method) for name, method in METHODS.items()},
        "streams": {name: (stream.description,) for name, stream in STREAMS.items()},
        "encoders": {name: (encoder.description,) for name, encoder in KNOWN.items()},
        "memories": {name: (policy.description,) for name, policy in POLICIES.items()},
    }
    if what not in lists:
        raise unknown("list", what, lists)
    table = Table(box=None, show_header=what == "methods", pad_edge=False, header_style="dim")
    for header in METHOD_COLUMNS if what == "methods" else ("", ""):
        table.add_column(header, no_wrap=header in METHOD_COLUMNS[:3])
    for name, about in lists[what].items():
        table.add_row(f"[bold]{name}[/bold]", *about)
    Console().print(table)


METHOD_COLUMNS = ("method", "family", "replays", "at test time", "what it does")


def _about(method: type[Method]) -> tuple[str, ...]:
    source = "memory" if method.replays else "generated" if method.generates else "–"
    return method.family, source, method.test_cost, method.summary


@app.command(rich_help_panel=EXPERIMENTS)
@with_settings("stream", only=(StreamConfig,))
def describe(
    stream: Annotated[str, typer.Argument(help="the stream (see `everlearn list streams`)")],
    encoder: Annotated[str, typer.Option(help="Groups fewrel's relations where no cluster file does.")] = "minilm",
    out: Annotated[Path | None, typer.Option(help="Also draw a figure of the tasks into this PNG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the description as JSON, and nothing else.")] = False,
    **options: Any,
) -> None:
    """Show what a stream is made of: its tasks in order, their classes, examples and lengths."""
    screen = Screen()
    benchmark = benchmark_for(Config.build({**given(None, options), "stream": stream, "encoder": encoder}))
    screen.say_all(benchmark.notes)
    tasks = describe_tasks(benchmark)
    if out:
        draw_tasks(benchmark.name, tasks, out)
        screen.say(f"figure: {out}")
    if as_json:
        print(json.dumps({"stream": benchmark.name, "tasks": tasks}, indent=2))
        return
    Console().print(tasks_table(benchmark.name, tasks))


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="the benchmark: textcls")],
    out: Annotated[Path | None, typer.Option(help="Folder to put the data in; default: data/NAME.")] = None,
) -> None:
    """Download a benchmark's data from the Hugging Face hub; files that are already there are kept."""
    download.get(name, out or Path("data") / name, Screen().say)
