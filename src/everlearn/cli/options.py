"""Options of the command line, made from the settings of the configuration classes with their help texts."""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from everlearn.config import read_config, settings, value_type
from everlearn.defaults import VARYING
from everlearn.settings import help_text


def with_settings(
    *left_out: str, only: tuple[type, ...] = (), defaults: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every setting, or those of some sections, which reach it as keyword arguments."""
    names = {field.name for section in only for field in dataclasses.fields(section)}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = []
        for title, declared in settings():
            if declared.name in left_out or (only and declared.name not in names):
                continue
            text = _help(declared) if defaults else help_text(declared)
            option = typer.Option(help=text, rich_help_panel=title)
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


def given(config_file: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """What the user asked for: the file's settings, overruled by the options."""
    from_file = read_config(config_file) if config_file else {}
    return {**from_file, **{name: value for name, value in options.items() if value is not None}}
