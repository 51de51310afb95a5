"""The complete description of a run: small sections, each owned by the room it configures, as one flat set of names."""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from everlearn.defaults import defaults_for
from everlearn.encoders import EncoderConfig
from everlearn.episodes import replay_size
from everlearn.errors import UserError, unknown
from everlearn.memory import MemoryConfig
from everlearn.memory.known_policies import make_policy
from everlearn.methods import MethodConfig, find_method
from everlearn.settings import flaws, setting
from everlearn.streams import StreamConfig


@dataclass(frozen=True)
class RunConfig:
    """The run itself."""

    seed: int = setting(42, "seed of every random choice", least=0)
    device: str = setting("auto", "where to compute: auto, cpu or cuda", choices=("auto", "cpu", "cuda"))
    eval_tasks: bool = setting(
        True, "evaluate before the stream and after each task too; without it only at the end, which is faster"
    )
    eval_every: int | None = setting(
        None, "also evaluate on a sample after this many examples; default: task ends only", above=0
    )
    eval_sample: int = setting(100, "examples per task in such a sample", above=0)
    checkpoint_every: int = setting(10_000, "examples between checkpoints; 0 writes none", least=0)
    log_every: int = setting(200, "examples between two lines of metrics.jsonl", above=0)
    keep_signals: int = setting(0, "test texts whose features and gates are kept in the result (anml-er)", least=0)


@dataclass(frozen=True)
class Config:
    """Everything that decides what a run does."""

    stream: StreamConfig = field(default_factory=StreamConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    run: RunConfig = field(default_factory=RunConfig)

    @classmethod
    def build(cls, given: Mapping[str, Any]) -> "Config":
        """A checked configuration from flat names, with the defaults of the stream and method for the rest.

        >>> Config.build({"method": "anml-er", "stream": "textcls"}).method.inner_lr
        0.003
        """
        known = {setting.name: setting for _, setting in settings()}
        for name in given:
            if name not in known:
                raise unknown("setting", name, known)
        chosen = {name: _coerce(known[name], value) for name, value in given.items()}
        stream = chosen.get("stream", StreamConfig.stream)
        method = chosen.get("method", MethodConfig.method)
        find_method(method)
        flat = {**defaults_for(stream, method, chosen.get("as_published", False)), **chosen}
        sections = {
            section.name: section.type(
                **{f.name: flat[f.name] for f in dataclasses.fields(section.type) if f.name in flat}
            )
            for section in dataclasses.fields(cls)
            if isinstance(section.type, type)
        }
        config = cls(**sections)
        config.check()
        return config

    def flat(self) -> dict[str, Any]:
        """Every setting by name, as plain values that YAML can hold; paths in full, to hold in any folder."""
        values = {name: v for section in vars(self).values() for name, v in vars(section).items()}
        return {name: str(value.absolute()) if isinstance(value, Path) else value for name, value in values.items()}

    def differences(self, other: "Config") -> list[str]:
        """The settings in which another configuration differs, as `name: mine, not theirs`."""
        theirs = other.flat()
        return [f"{k}: {v!r}, not {theirs[k]!r}" for k, v in self.flat().items() if v != theirs[k]]

    def check(self) -> None:
        """Refuse settings that cannot work, with the reason."""
        for message in self._problems():
            raise UserError(message)

    def _problems(self) -> Iterator[str]:
        method = self.method
        values = self.flat()
        for _, declared in settings():
            yield from flaws(declared, values[declared.name])
        if self.encoder.freeze_encoder and self.encoder.trained_layers is not None:
            yield "freeze_encoder leaves no layer to train: leave out trained_layers, or freeze_encoder."
        if self.encoder.freeze_encoder and method.method == "gem" and method.gem_gradients == "lora":
            yield "gem_gradients lora adapts the encoder, which freeze_encoder forbids: choose one of the two."
        make_policy(self.memory.memory, self.memory.memory_capacity)
        kind = find_method(method.method)
        if (kind.replays or kind.generates) and method.replay:
            if method.replay_interval < method.batch_size:
                yield (
                    f"replay_interval ({method.replay_interval}) is smaller than batch_size ({method.batch_size}): "
                    "replay cannot come more often than batches do; raise one or lower the other."
                )
            if replay_size(method.replay_interval, method.replay_rate) < 1:
                yield (
                    f"replay_rate × replay_interval is {method.replay_rate * method.replay_interval:g}, less than one "
                    "example: raise one of them, or pass --no-replay."
                )


def check_setting(name: str, value: Any) -> Any:
    """The value as the setting's type; refused if it cannot work whatever the other settings are.

    >>> check_setting("batch_size", "8")
    8
    """
    known = {declared.name: declared for _, declared in settings()}
    if name not in known:
        raise unknown("setting", name, known)
    converted = _coerce(known[name], value)
    for message in flaws(known[name], converted):
        raise UserError(message)
    return converted


def settings() -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    """Every setting with the title of its section; what a section inherits comes last, under a title of its own."""
    for section in dataclasses.fields(Config):
        assert isinstance(section.type, type)
        declared = {setting.name: setting for setting in dataclasses.fields(section.type)}
        for owner in section.type.__mro__:
            title = (owner.__doc__ or "").partition(".")[0]
            for name in vars(owner).get("__annotations__", {}):
                yield title, declared[name]


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a YAML file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"there is no configuration file {path}: check the path given with --config.") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"the configuration file {path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise UserError(f"the configuration file {path} must hold `name: value` lines.")
    return {str(name): value for name, value in content.items()}


def value_type(declared: "dataclasses.Field[Any]") -> tuple[type, bool]:
    """The type of a setting's value, and whether it may be left open (None)."""
    annotation = declared.type
    if isinstance(annotation, types.UnionType):
        (annotation,) = (t for t in typing.get_args(annotation) if t is not type(None))
        return annotation, True
    assert isinstance(annotation, type)
    return annotation, False


def _coerce(declared: "dataclasses.Field[Any]", value: Any) -> Any:
    """The value as the setting's type; YAML reads `3e-5` as a string and `1` where an order's name is meant."""
    wanted, optional = value_type(declared)
    if value is None and optional:
        return None
    if wanted is bool:
        fits = isinstance(value, bool)
    elif wanted is int:
        fits = isinstance(value, int | str) and not isinstance(value, bool)
    elif wanted is float:
        fits = isinstance(value, int | float | str) and not isinstance(value, bool)
    elif wanted is Path:
        fits = isinstance(value, str | Path)
    else:
        fits = isinstance(value, str | int) and not isinstance(value, bool)
    try:
        if fits:
            converted = wanted(value)
            return converted.expanduser() if isinstance(converted, Path) else converted
    except (ValueError, OverflowError):
        pass
    except RuntimeError as error:  # a home folder that nobody has
        raise UserError(f"{declared.name} names a folder that does not exist: {value} ({error}).") from error
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a path"}
    raise UserError(f"{declared.name} must be {names[wanted]}, not {value!r}.")
