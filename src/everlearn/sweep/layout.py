"""What shows only when a run is laid out: sizes of its data, layers of its encoder, the device. Looked at once each."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from everlearn.config import Config
from everlearn.encoders import EncoderConfig, load_encoder
from everlearn.errors import UserError
from everlearn.experiment import benchmark_for, check_fit, choose_device
from everlearn.streams import STREAMS, StreamConfig
from everlearn.sweep.plan import PlannedRun, cause
from everlearn.sweep.recipe import Recipe


def check_layouts(recipe: Recipe, runs: Sequence[PlannedRun], here: bool) -> None:
    """Refuse runs that could not even start, with the line that causes it; `here` if they compute on this machine."""
    if here:
        for own in _alike(runs, lambda config: config.run.device):
            with _named(recipe, own[0]):
                choose_device(own[0].config.run.device)
    for own in _alike(runs, _encoder):
        with _named(recipe, own[0]):
            load_encoder(_encoder(own[0].config), torch.device("cpu"))
    for own in _alike(runs, _data):
        with _named(recipe, own[0]):
            benchmark = benchmark_for(own[0].config)
        for run in own:
            with _named(recipe, run):
                check_fit(run.config, benchmark)


def _alike(runs: Sequence[PlannedRun], decides: Callable[[Config], Hashable]) -> list[list[PlannedRun]]:
    """The runs in groups that differ in nothing that matters here."""
    groups: dict[Hashable, list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(decides(run.config), []).append(run)
    return list(groups.values())


def _encoder(config: Config) -> EncoderConfig:
    """The encoder, as far as it could be one that cannot be had."""
    own = config.encoder
    return EncoderConfig(encoder=own.encoder, pooling=own.pooling, trained_layers=own.trained_layers)


def _data(config: Config) -> StreamConfig:
    """The data; where the tasks are known, they are the same in every order that has a name, and read once."""
    known = STREAMS[config.stream.stream]
    same = known.tasks and config.stream.order in known.orders
    return replace(config.stream, order="") if same else config.stream


@contextmanager
def _named(recipe: Recipe, run: PlannedRun) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        place = cause(recipe, run.place, run.config.flat(), str(error))
        raise recipe.source.error(place, str(error)) from error
