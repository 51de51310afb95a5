"""Choosing settings on validation data: a grid, or draws from it, and the best of them again with more seeds."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from everlearn.errors import UserError
from everlearn.run_folder import write_text
from everlearn.seeding import generator
from everlearn.sweep.plan import PlannedRun, check_before_running, planned_run
from everlearn.sweep.recipe import Recipe, Row, Table
from everlearn.sweep.sweep import Sweep

CHOSEN, TRIALS = "chosen.yaml", "trials.jsonl"
SEARCH_SEED = 0
"""Which trials are drawn is part of the search, not of a run: it never depends on the runs' seeds."""


@dataclass(frozen=True)
class Trial:
    """A row with settings to try, as one run for each seed."""

    row: Row
    tried: Mapping[str, Any]
    runs: tuple[PlannedRun, ...]

    @property
    def chosen(self) -> dict[str, Any]:
        """What another recipe needs to have the same: what was tried, and what its row fixed."""
        fixed = {name: value for name, value in self.row.own.items() if name not in ("method", "split")}
        return {**fixed, **self.tried}


@dataclass(frozen=True)
class Outcome:
    """What a trial reached on validation data, by seed."""

    trial: Trial
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the seeds it was run with."""
        return fmean(self.accuracies)


def tune(sweep: Sweep) -> list[Outcome]:
    """Carry out the search that the recipe describes; the best outcome of each row.

    `chosen.yaml` holds the best settings by method, `trials.jsonl` all outcomes.
    """
    table, *others = sweep.recipe.tables
    if others:
        raise sweep.recipe.source.error(others[0].place, "a search has one table: what it chooses is kept by method.")
    trials = trials_of(sweep, table)
    every_run = [run for trial in trials for run in trial.runs]
    check_before_running(sweep.recipe, every_run)
    with sweep.folder.claimed(sweep.recipe, {run.name for run in every_run}):
        finalists = trials
        if table.finalists:
            sweep.finish([trial.runs[0] for trial in trials], tolerant=True)
            # By the first seed alone, also when the search is gone on with: else the finalists could change.
            ranked = _by_row(_outcomes(sweep, trials, seeds=1)).values()
            finalists = [outcome.trial for own in ranked for outcome in own[: table.finalists]]
        sweep.finish([run for trial in finalists for run in trial.runs], tolerant=True)
        outcomes = _outcomes(sweep, trials)
        if not outcomes:
            raise UserError(f"every trial failed: see {sweep.folder.logs}.")
        best = [_best(own) for own in _by_row(outcomes).values()]
        _write(sweep.recipe, sweep.folder.path, best, outcomes)
    return best


def trials_of(sweep: Sweep, table: Table) -> list[Trial]:
    """What the search of a table tries."""
    source = sweep.recipe.source
    methods = [str(row.settings.get("method")) for row in table.rows]
    found: list[Trial] = []
    for row in table.rows:
        if not row.search:
            raise source.error(row.place, f"'{row.name}' has no `search:`, so there is nothing to tune.")
        if row.settings.get("split", "validation") != "validation":
            raise source.error(row.place, "settings are chosen on validation data: leave out `split:`.")
        if len(row.orders) > 1:
            raise source.error(row.place, "settings are chosen on one order, as in the paper: name one in `orders:`.")
        if methods.count(str(row.settings.get("method"))) > 1:
            raise source.error(row.place, "two rows have the same method: what is chosen is kept by method.")
        found += _trials_of_row(sweep, table, row)
    return found


def _trials_of_row(sweep: Sweep, table: Table, row: Row) -> list[Trial]:
    """The grid, or as many draws from it as the table says; the n-th is always the same, so more can be added."""
    grid = [dict(zip(row.search, values, strict=True)) for values in itertools.product(*row.search.values())]
    if table.trials is not None:
        order = generator(SEARCH_SEED, f"tune/{row.name}").permutation(len(grid))
        grid = [grid[int(place)] for place in order[: table.trials]]
    trials: list[Trial] = []
    refused: list[str] = []
    for tried in grid:
        given = {**row.settings, **tried, "split": "validation", "order": row.orders[0]}
        try:
            runs = tuple(
                planned_run(sweep.recipe, table, row, {**given, "seed": seed}, sweep.data) for seed in row.seeds
            )
        except UserError as error:  # such as fewer examples between replays than in a batch
            refused.append(str(error))
            continue
        named = f"{row.name} ({flat_settings(tried)})"
        trials.append(Trial(row, tried, tuple(replace(run, row=named) for run in runs)))
    if not trials:
        raise UserError(refused[0])
    if refused:
        sweep.screen.say(f"{row.name}: {len(refused)} of {len(grid)} trials cannot work, such as: {refused[0]}")
    return trials


def _outcomes(sweep: Sweep, trials: Sequence[Trial], seeds: int | None = None) -> list[Outcome]:
    """What the trials reached so far, with all seeds or the first ones; those that failed are left out."""
    outcomes = []
    for trial in trials:
        results = [result for run in trial.runs[:seeds] if (result := sweep.result(run)) is not None]
        if results:
            outcomes.append(Outcome(trial, tuple(result["accuracy"] for result in results)))
    return outcomes


def _by_row(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each row, best first."""
    rows: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.mean):
        rows.setdefault(outcome.trial.row.name, []).append(outcome)
    return rows


def _best(outcomes: Sequence[Outcome]) -> Outcome:
    """The best of a row among those with most seeds: one lucky seed must not beat a mean over three."""
    most = max(len(outcome.accuracies) for outcome in outcomes)
    return next(outcome for outcome in outcomes if len(outcome.accuracies) == most)


def _write(recipe: Recipe, folder: Path, best: Sequence[Outcome], everything: Sequence[Outcome]) -> None:
    lines = [
        {"row": outcome.trial.row.name, "accuracy": outcome.mean, "by_seed": outcome.accuracies, **outcome.trial.tried}
        for outcome in everything
    ]
    write_text(folder / TRIALS, "".join(json.dumps(line) + "\n" for line in lines))
    chosen = {str(outcome.trial.row.settings.get("method")): outcome.trial.chosen for outcome in best}
    write_text(folder / CHOSEN, _origin(recipe, best, everything) + yaml.safe_dump(chosen, sort_keys=False))


def _origin(recipe: Recipe, best: Sequence[Outcome], everything: Sequence[Outcome]) -> str:
    """Where chosen settings come from, as comments: they are copied to where nobody knows the search any more."""
    lines = [recipe.title, recipe.command]
    for outcome in best:
        trials = sum(other.trial.row is outcome.trial.row for other in everything)
        lines.append(
            f"{outcome.trial.row.name}: {outcome.mean:.1%} on validation data with {counted(outcome)}, the best of "
            f"{trials} trial{'s' if trials > 1 else ''}"
        )
    return "".join(f"# {line}\n" for line in lines if line)


def counted(outcome: Outcome) -> str:
    """With how many seeds a trial was run, for people."""
    seeds = len(outcome.accuracies)
    return f"{seeds} seed{'s' if seeds > 1 else ''}"


def flat_settings(settings: Mapping[str, Any]) -> str:
    """Settings in one line, for people.

    >>> flat_settings({"lr": 1e-05, "batch_size": 8})
    'lr 1e-05, batch_size 8'
    """
    return ", ".join(f"{name} {value}" for name, value in settings.items())
