"""The command line. Its options are the settings of the configuration classes, with their help texts."""

import inspect
import io
import json
import sys
from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any, Optional, cast

import typer
from rich.console import Console
from rich.table import Table

from everlearn import __version__, cli_experiments
from everlearn.comparison import FIGURE, compare_methods
from everlearn.config import Config, read_config, settings, value_type
from everlearn.defaults import VARYING
from everlearn.description import describe_tasks
from everlearn.encoders import KNOWN
from everlearn.errors import UserError, unknown
from everlearn.experiment import benchmark_for
from everlearn.memory import POLICIES
from everlearn.methods import METHODS
from everlearn.progress import Screen
from everlearn.report.results import ResultDict
from everlearn.report.table import comparison_table
from everlearn.report.tasks import draw_tasks, tasks_table
from everlearn.run import run as run_once
from everlearn.settings import help_text
from everlearn.streams import STREAMS, StreamConfig, download

app = typer.Typer(
    help="Text models that keep learning from a stream, in one pass, without forgetting.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Fetch benchmark data.", no_args_is_help=True)
app.add_typer(data_app, name="data")
cli_experiments.register(app)

INTERRUPTED = 130
"""The exit code with which Typer ends a command at Ctrl-C."""
ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file of settings; options given here win.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that --out holds.")]


def main() -> None:
    """Run the command line; a user's mistake ends with one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        # Names such as α must not end a command on a terminal that cannot show them.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except UserError as error:
        print(f"everlearn: {error}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print(
                "everlearn: stopped; a run with --out goes on from its last checkpoint with --resume, a sweep with the "
                "same command.",
                file=sys.stderr,
            )
        raise


def with_settings(*left_out: str, only: type | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every setting, or those of one section, which reach it as keyword arguments."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = []
        for title, declared in settings():
            if declared.name in left_out or (only and declared.name not in vars(only)["__dataclass_fields__"]):
                continue
            option = typer.Option(help=_help(declared), rich_help_panel=title)
            # None means that the option was not given, so that the stream's and method's own default applies.
            annotation: Any = Annotated[Optional[value_type(declared)[0]], option]  # noqa: UP045
            options.append(
                inspect.Parameter(declared.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            )
        command.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
        return command

    return decorate


def _help(declared: "Field[Any]") -> str:
    text, default = help_text(declared), declared.default
    if declared.name in VARYING:
        return f"{text} (default: by stream and method{'' if default is None else f', else {default}'})"
    return text if default is None else f"{text} (default: {default})"


def _given(config_file: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """What the user asked for: the file's settings, overruled by the options."""
    from_file = read_config(config_file) if config_file else {}
    return {**from_file, **{name: value for name, value in options.items() if value is not None}}


@app.command()
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
    built = Config.build(_given(config, options))
    result = run_once(built, out, resume, screen)
    if as_json:
        print(json.dumps(result, indent=2))
        return
    Console().print(comparison_table([cast(ResultDict, result)]))
    if out is None:
        screen.say("nothing was saved: pass --out DIR to keep the result and to be able to resume.")


@app.command()
@with_settings("method", "seed")
def compare(
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas.")],
    out: Annotated[Path, typer.Option(help="Folder for the runs, the table and the figure.")],
    seeds: Annotated[str, typer.Option(help="Seeds to run each method with, separated by commas.")] = "42",
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
    results = compare_methods(_given(config, options), names, chosen_seeds, out, resume, screen)
    if as_json:
        print(json.dumps(results, indent=2))
        return
    Console().print(comparison_table(results))
    screen.say(f"figure: {out / FIGURE}")


@app.command("list")
def list_known(what: Annotated[str, typer.Argument(help="methods, streams, encoders or memories")]) -> None:
    """Show the methods, streams, encoders or memory policies there are."""
    lists: dict[str, dict[str, str]] = {
        "methods": {name: method.summary for name, method in METHODS.items()},
        "streams": {name: stream.description for name, stream in STREAMS.items()},
        "encoders": {name: encoder.description for name, encoder in KNOWN.items()},
        "memories": {name: policy.description for name, policy in POLICIES.items()},
    }
    if what not in lists:
        raise unknown("list", what, lists)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, description in lists[what].items():
        table.add_row(f"[bold]{name}[/bold]", description)
    Console().print(table)


@app.command()
@with_settings("stream", "split", only=StreamConfig)
def describe(
    stream: Annotated[str, typer.Argument(help="the stream (see `everlearn list streams`)")],
    encoder: Annotated[str, typer.Option(help="Groups fewrel's relations where no cluster file does.")] = "minilm",
    out: Annotated[Path | None, typer.Option(help="Also draw a figure of the tasks into this PNG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the description as JSON, and nothing else.")] = False,
    **options: Any,
) -> None:
    """Show what a stream is made of: its tasks in order, their classes, examples and lengths."""
    screen = Screen()
    benchmark = benchmark_for(Config.build({**_given(None, options), "stream": stream, "encoder": encoder}))
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


def _version(asked: bool) -> None:
    if asked:
        print(f"everlearn {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Text models that keep learning from a stream, in one pass, without forgetting."""
