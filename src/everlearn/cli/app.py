"""The program: its commands register here, and its errors end here."""

import io
import sys
from typing import Annotated

import typer

from everlearn import __version__
from everlearn.errors import UserError

app = typer.Typer(
    help="Text models that keep learning from a stream, in one pass, and forget little.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130
"""The exit code with which Typer ends a command at Ctrl-C."""


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
    except ValueError as error:
        # By its name: to import scikit-learn for it would make every command slower.
        if type(error).__name__ != "NotFittedError":
            raise
        print("everlearn: this model knows no label yet: let it learn some examples first.", file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print(
                "everlearn: stopped; a run with --out goes on from its last checkpoint with --resume, a sweep with the "
                "same command.",
                file=sys.stderr,
            )
        raise


EXPERIMENTS, STUDIES, MODELS = "Experiments", "Many runs", "A classifier that keeps learning"
"""Under what the list of commands shows them."""


def _version(asked: bool) -> None:
    if asked:
        print(f"everlearn {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    """Text models that keep learning from a stream, in one pass, and forget little."""
