"""The command that serves a model."""

from typing import Annotated, Any

import typer

from everlearn.cli.app import MODELS, app
from everlearn.cli.models import NEW_MODEL, Model, model_params
from everlearn.cli.options import given, with_settings
from everlearn.errors import UserError
from everlearn.progress import Screen


@app.command(rich_help_panel=MODELS)
@with_settings(*NEW_MODEL.left_out, only=NEW_MODEL.sections, defaults=False)
def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to serve on; others than this machine's own need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to serve on; 0 takes any that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(help="Token that clients have to send; also from EVERLEARN_TOKEN.")
    ] = None,
    most_waiting: Annotated[int, typer.Option(help="Examples that may wait to be learned before 429.", min=1)] = 10_000,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice, for a new model.")] = None,
    **options: Any,
) -> None:
    """Serve a model over HTTP: it takes examples, learns them behind the scenes and predicts meanwhile."""
    try:
        from everlearn.service.server import serve as run_service
    except ImportError as error:
        raise UserError(f"serving needs more packages ({error}): run `pip install 'everlearn[service]'`.") from error
    chosen = model_params({**given(None, options), **({} if seed is None else {"seed": seed})})
    if not run_service(model, host, port, token, most_waiting, chosen, Screen()):
        raise typer.Exit(1)
