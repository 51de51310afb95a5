"""Runs the service: the model, its journal, the web server, and an orderly end."""

import gc
import ipaddress
import os
import signal
import socket
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from everlearn.classifier import LifelongClassifier, storage
from everlearn.classifier.journal import JOURNAL, Journal
from everlearn.errors import UserError
from everlearn.progress import Screen
from everlearn.service.app import create_app
from everlearn.service.guard import in_address
from everlearn.service.learning import Learning

TOKEN_VARIABLE = "EVERLEARN_TOKEN"


def serve(
    folder: Path,
    host: str,
    port: int,
    token: str | None,
    most_waiting: int,
    params: dict[str, Any],
    screen: Screen,
) -> bool:
    """Serve the model in a folder until told to stop; make one where there is none. Whether everything is saved."""
    if token is not None and not token.strip():
        raise UserError("the token is empty: give one, or leave --token out to serve on this machine only.")
    token = (token or os.environ.get(TOKEN_VARIABLE) or "").strip() or None
    if token and not token.isprintable():
        raise UserError("the token holds a character that no header can: use letters, digits and signs.")
    if not token and not is_loopback(host):
        raise UserError(
            f"{host} can be reached by others: protect it with --token or the variable {TOKEN_VARIABLE}, "
            "or serve on 127.0.0.1."
        )
    with storage.locked(folder):
        classifier = _opened(folder, params)
        journal = Journal(folder / JOURNAL)
        gc.freeze()  # the model stays: looking through it again and again would hold up requests
        learning = Learning(folder, classifier, journal)
        app = create_app(learning, most_waiting, token, host)
        web, listening = web_server(app, host, port)
        screen.say(f"serving {folder} on http://{in_address(host)}:{listening.getsockname()[1]} (stop with Ctrl-C)")
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn ends in order at a signal and then sends it once more, to what was in force before.
            signal.signal(number, lambda *_: None)
        web.run(sockets=[listening])
        journal.close()
        problem = learning.failure or learning.save_failure
        if problem:
            screen.say(f"{folder}: not everything is saved ({problem}); what is not stays in the journal for next time")
        else:
            screen.say(f"{folder}: {classifier.examples_:,} examples learned and saved")
        return not problem


def web_server(app: FastAPI, host: str, port: int) -> tuple[uvicorn.Server, socket.socket]:
    """A server that is not running yet, and the socket it will answer on: who comes early waits."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http="h11",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
    )
    try:
        listening = config.bind_socket()
    except SystemExit as error:  # uvicorn's way to say that the address is taken
        raise UserError(f"cannot serve on {host}:{port}: the address is taken or not this machine's.") from error
    # Connections take this over. Without it the body of an answer waits up to 40 ms for its head to be acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.listen()
    return uvicorn.Server(config), listening


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _opened(folder: Path, params: dict[str, Any]) -> LifelongClassifier:
    if storage.is_model(folder):
        if params:
            raise UserError(f"{folder} holds a model already: leave out --{next(iter(params)).replace('_', '-')}.")
        return LifelongClassifier.load(folder)
    classifier = LifelongClassifier(**params).begin()
    storage.save(classifier, folder)
    return classifier
