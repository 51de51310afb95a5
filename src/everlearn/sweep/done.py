"""Which runs of a sweep are done: finished here, or in another sweep's folder, with the same settings and data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlearn.errors import UserError
from everlearn.report.results import ResultDict
from everlearn.sweep.folder import DamagedError, SweepFolder
from everlearn.sweep.plan import PlannedRun
from everlearn.sweep.reading import Fingerprints


@dataclass(frozen=True)
class Done:
    """Looks through a sweep's folder, and through those it may take finished runs from."""

    folder: SweepFolder
    reuse: Sequence[SweepFolder]
    fingerprints: Fingerprints
    say: Callable[[str], None]

    def left(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Those that have to be carried out; what is in their way is moved or removed."""
        finished: list[tuple[PlannedRun, ResultDict]] = []
        damaged: list[tuple[PlannedRun, str]] = []
        for run in runs:
            try:
                if (result := self.folder.result(run)) is not None:
                    finished.append((run, result))
            except DamagedError as error:
                damaged.append((run, str(error)))
        # Before anything is removed: whoever gave the wrong data loses nothing.
        self._refuse_other_data(finished)
        for run, flaw in damaged:
            aside = self.folder.set_aside(run)
            self.say(f"{run.label}: its result is damaged ({flaw}) and now in {aside}: computing it again")
        done = {run.name for run, _ in finished}
        for other in self.reuse:
            wanted = [run for run in runs if run.name not in done]
            done |= self._taken_from(other, wanted) if wanted else set()
        left = [run for run in runs if run.name not in done]
        for run in left:
            if self.folder.of(run).exists() and not self.folder.can_go_on(run):
                self.say(f"{run.label}: its settings, or the place of its data, have changed: starting over")
                self.folder.discard(run)
        return left

    def _refuse_other_data(self, finished: Sequence[tuple[PlannedRun, ResultDict]]) -> None:
        others = [run for run, result in finished if not self._has_the_same_data(run, result)]
        if others:
            stream = others[0].config.stream
            raise UserError(
                f"the output folder {self.folder.path} holds runs that were computed on other data than "
                f"{stream.data or f'the stream {stream.stream} has now'} ({len(others)}, such as {others[0].name}): "
                "choose another folder, or delete these runs."
            )

    def _taken_from(self, other: SweepFolder, wanted: Sequence[PlannedRun]) -> set[str]:
        """The names of the runs that could be taken over from another sweep, which are copied."""
        taken: set[str] = set()
        foreign = damaged = 0
        for run in wanted:
            try:
                result = other.result(run)
            except DamagedError:
                damaged += 1
                continue
            if result is None:
                continue
            if self._has_the_same_data(run, result):
                self.folder.take_over(run, other)
                taken.add(run.name)
            else:
                foreign += 1
        reasons = {"computed on other data": foreign, "damaged": damaged}
        refused = [f"; {reason}, and therefore not taken: {count}" for reason, count in reasons.items() if count]
        self.say(f"runs taken from {other.path}: {len(taken)}{''.join(refused)}")
        return taken

    def _has_the_same_data(self, run: PlannedRun, result: ResultDict) -> bool:
        return result["data"] == self.fingerprints.of(run.config, self.say)
