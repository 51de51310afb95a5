"""The commands for experiments: sweep, tune and report."""

from pathlib import Path
from typing import Annotated

import typer

from everlearn.cli.app import STUDIES, app
from everlearn.progress import Screen
from everlearn.sweep.folder import SweepFolder
from everlearn.sweep.recipe import read_recipe
from everlearn.sweep.reporting import write_report
from everlearn.sweep.sweep import Means, Sweep, parse_data
from everlearn.sweep.tune import CHOSEN, TRIALS, counted, flat_settings
from everlearn.sweep.tune import tune as search

RecipePath = Annotated[Path, typer.Argument(help="A recipe: a YAML file such as recipes/smoke.yaml.")]
Out = Annotated[Path, typer.Option(help="Folder for the runs; the same command goes on with what it holds.")]
EngineName = Annotated[str, typer.Option("--engine", help="What carries out the runs: local or ray.")]
Address = Annotated[str | None, typer.Option(help="Ray cluster to use; without it Ray starts on this machine.")]
Jobs = Annotated[
    int | None, typer.Option(help="Runs at once; default: one for each GPU, or for each core where there is none.")
]
Together = Annotated[
    int, typer.Option(help="How many of the runs at once share a process, for runs that share a GPU (local engine).")
]
Threads = Annotated[int, typer.Option(help="CPU threads of each run; CPU results are bit-equal for the same number.")]
Gpus = Annotated[
    float | None,
    typer.Option(help="GPUs that Ray sets aside for each run; a part lets runs share one. Default: an equal share."),
]
Data = Annotated[
    list[str] | None, typer.Option(help="STREAM=DIR: where a stream's data lies, in place of what the recipe says.")
]


@app.command(rich_help_panel=STUDIES)
def sweep(
    recipe: RecipePath,
    out: Out,
    engine: EngineName = "local",
    address: Address = None,
    jobs: Jobs = None,
    together: Together = 1,
    threads: Threads = 1,
    gpus: Gpus = None,
    data: Data = None,
    table: Annotated[str | None, typer.Option(help="Carry out one table of the recipe only.")] = None,
    reuse: Annotated[list[Path] | None, typer.Option(help="Another sweep's folder to take equal runs from.")] = None,
) -> None:
    """Carry out every run of a recipe; what is done is skipped, what was stopped goes on."""
    read = read_recipe(recipe)
    means = Means(engine, jobs, together, threads, address, gpus)
    others = [SweepFolder.existing(path) for path in reuse or ()]
    screen = Screen()
    Sweep(read, SweepFolder(out), means, screen, parse_data(read, data or ()), others).carry_out(table)
    screen.say(f"all runs are done: `everlearn report {out}` shows them")


@app.command(rich_help_panel=STUDIES)
def tune(
    recipe: RecipePath,
    out: Out,
    engine: EngineName = "local",
    address: Address = None,
    jobs: Jobs = None,
    together: Together = 1,
    threads: Threads = 1,
    gpus: Gpus = None,
    data: Data = None,
) -> None:
    """Choose settings on validation data from what a recipe says to try; the same command goes on with a search."""
    read = read_recipe(recipe)
    screen = Screen()
    means = Means(engine, jobs, together, threads, address, gpus)
    best = search(Sweep(read, SweepFolder(out), means, screen, parse_data(read, data or ())))
    for outcome in best:
        tried = flat_settings(outcome.trial.tried)
        screen.say(f"{outcome.trial.row.name}: {outcome.mean:.1%} on validation data ({counted(outcome)}) with {tried}")
    screen.say(f"chosen settings: {out / CHOSEN}; all trials: {out / TRIALS}")


@app.command(rich_help_panel=STUDIES)
def report(
    folder: Annotated[Path, typer.Argument(help="The folder that was given to `everlearn sweep --out`.")],
    out: Annotated[Path | None, typer.Option(help="Where to write; default: `report` in that folder.")] = None,
) -> None:
    """Write one HTML page, Markdown and LaTeX tables and PNG and SVG figures of a sweep."""
    screen = Screen()
    page = write_report(folder, out or folder / "report", screen.say)
    screen.say(f"page: {page}")
