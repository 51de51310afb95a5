"""A sweep: plan the runs of a recipe, skip what is done, carry out the rest."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from everlearn.errors import UserError, unknown
from everlearn.experiment import draws_on_its_own
from everlearn.progress import Screen
from everlearn.report.results import ResultDict
from everlearn.sweep.board import Board
from everlearn.sweep.done import Done
from everlearn.sweep.events import Engine, Job
from everlearn.sweep.folder import DamagedError, SweepFolder
from everlearn.sweep.layout import check_layouts
from everlearn.sweep.local import LocalEngine
from everlearn.sweep.plan import PlannedRun, check_before_running, plan
from everlearn.sweep.reading import Fingerprints
from everlearn.sweep.recipe import Recipe

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Means:
    """With what a sweep is carried out."""

    engine: str = "local"
    jobs: int | None = None
    """Runs at once; by default one for each GPU, or for each core where none is used."""
    together: int = 1
    """How many of them share a process."""
    threads: int = 1
    """CPU threads of each run, the same for all: on a CPU their number changes the last bits of a result."""
    address: str | None = None
    gpus: float | None = None
    """GPUs that Ray sets aside for each run; a part lets runs share one. By default an equal share of all."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise unknown("engine", self.engine, ENGINES)


@dataclass(frozen=True)
class Sweep:
    """A recipe, where its runs lie, and with what they are carried out."""

    recipe: Recipe
    folder: SweepFolder
    means: Means
    screen: Screen
    data: Mapping[str, Path] = field(default_factory=dict)
    reuse: Sequence[SweepFolder] = ()
    fingerprints: Fingerprints = field(default_factory=Fingerprints)

    def carry_out(self, only: str | None = None) -> None:
        """Everything of the recipe, or one of its tables, that is not done yet."""
        for row in (row for table in self.recipe.tables for row in table.rows if row.search):
            raise self.recipe.source.error((*row.place, "search"), "this recipe is for `everlearn tune`.")
        everything = plan(self.recipe, self.data)
        wanted = plan(self.recipe, self.data, only)
        check_before_running(self.recipe, wanted)
        with self.folder.claimed(self.recipe, {run.name for run in everything}):
            self.finish(wanted)

    def finish(self, runs: Sequence[PlannedRun], tolerant: bool = False) -> None:
        """Carry out those of the runs that are not done; an error at the end if some failed.

        With `tolerant`, those that fail are given up for good.
        """
        hopeless = [run for run in runs if tolerant and self.folder.was_given_up(run)]
        if hopeless:
            where = self.folder.given_up
            self.screen.say(
                f"runs that failed before and are left out: {len(hopeless)}; delete {where} to try them again"
            )
        open_runs = Done(self.folder, self.reuse, self.fingerprints, self.screen.say).left(
            [run for run in runs if run not in hopeless]
        )
        done = len(runs) - len(hopeless) - len(open_runs)
        if done:
            self.screen.say(f"{done} of {len(runs)} runs are done already")
        if not open_runs:
            return
        check_layouts(self.recipe, open_runs, here=self.means.engine == "local")
        by_name = {run.name: run for run in open_runs}
        if self.means.together > 1:
            for run in (run for run in open_runs if not draws_on_its_own(run.config)):
                raise UserError(
                    f"--together does not go with {run.label}: dropout, and methods that write texts, draw from a "
                    "generator that all runs of a process share; leave it out."
                )
        engine = make_engine(self.means, self.folder, {run.config.run.device for run in open_runs})
        jobs = [self._job(run, engine.at_once) for run in open_runs]
        failures: dict[str, str] = {}
        with Board(self.screen, jobs, done, engine.at_once) as board:
            for event in engine.carry_out(jobs):
                outcome = ""
                if event.kind == "failed":
                    failures[event.job.label] = event.text
                    if tolerant:
                        self.folder.give_up(by_name[event.job.name], event.text)
                elif event.kind == "ended":
                    result = self.result(by_name[event.job.name])
                    outcome = f"accuracy {result['accuracy']:.1%}" if result else "no result"
                board.show(event, outcome)
        if failures and not tolerant:
            label, reason = next(iter(failures.items()))
            others = f"the others are kept in {self.folder.path}, and the same command goes on from there"
            raise UserError(
                f"{len(failures)} of {len(runs)} runs failed, the first ({label}) because {reason.rstrip('.')}; "
                f"{others if len(failures) < len(runs) else 'nothing was computed'}."
            )

    def result(self, run: PlannedRun) -> ResultDict | None:
        """What a run reached, if it has ended and can be trusted."""
        try:
            return self.folder.result(run)
        except DamagedError:
            return None

    def _job(self, run: PlannedRun, at_once: int) -> Job:
        folder = str(self.folder.of(run).absolute())
        kind = f"{run.config.stream.stream} {run.config.method.method}"
        return Job(run.name, run.label, kind, run.config.flat(), folder, self.means.threads, at_once)


def make_engine(means: Means, folder: SweepFolder, devices: Collection[str]) -> Engine:
    """The engine asked for; `devices` are those that the runs want to compute on."""
    if means.jobs is not None and means.jobs < 1:
        raise UserError(f"--jobs must be at least 1, not {means.jobs}.")
    for option, value in (("--threads", means.threads), ("--together", means.together)):
        if value < 1:
            raise UserError(f"{option} must be at least 1, not {value}.")
    on_gpu = set(devices) != {"cpu"}
    gpus = torch.cuda.device_count() if torch.cuda.is_available() and on_gpu else 0
    at_once = means.jobs or gpus or max(1, (os.cpu_count() or 1) // means.threads)
    if means.engine == "local":
        if means.address:
            raise UserError("--address is for --engine ray: the local engine uses this machine.")
        return LocalEngine(means.jobs or max(at_once, means.together), means.threads, gpus, folder.logs, means.together)
    if means.together > 1:
        raise UserError("--together is for --engine local: on Ray every run has a process.")
    from everlearn.sweep.on_ray import RayEngine

    # A cluster is as large as it is; this machine is shared out like it is among local workers.
    jobs = means.jobs if means.address else at_once
    return RayEngine(jobs, means.threads, means.gpus, means.address, folder.logs, on_gpu)


def parse_data(recipe: Recipe, given: Sequence[str]) -> dict[str, Path]:
    """`STREAM=DIR`, or `DIR` alone where the recipe reads the data of one stream only."""
    streams = {str(row.settings.get("stream")) for t in recipe.tables for row in t.rows if row.settings.get("data")}
    found: dict[str, Path] = {}
    for entry in given:
        stream, equals, path = entry.partition("=")
        if not equals:
            if len(streams) != 1:
                names = ", ".join(sorted(streams)) or "none"
                raise UserError(f"--data {entry} does not say which stream it is for: write STREAM=DIR ({names}).")
            stream, path = next(iter(streams)), entry
        if stream not in streams:
            raise unknown("stream with data in this recipe", stream, streams)
        found[stream] = Path(path).expanduser()
    return found
