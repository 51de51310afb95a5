"""What is shown while runs are under way, also when none of them says anything for a while."""

import time

from everlearn.sweep import board
from everlearn.sweep.board import Board
from everlearn.sweep.events import Event, Job
from sweep_support import Listener


def test_the_time_left_goes_on_while_nothing_is_heard(monkeypatch):
    monkeypatch.setattr(board, "SECONDS_BETWEEN_TICKS", 0.01)
    monkeypatch.setattr(board, "SECONDS_BETWEEN_LINES", 0.05)
    screen, job = Listener(), Job("seq", "SEQ, order 1", "seq", {}, "", 1)
    with Board(screen, [job], 0, 1) as shown:
        shown.show(Event("started", job))
        shown.show(Event("advanced", job, share=0.4))
        deadline = time.monotonic() + 60
        while len(screen.said) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    said = len(screen.said)
    assert all(line.startswith("[0/1] SEQ, order 1: 40%; about ") for line in screen.said)
    time.sleep(0.2)
    assert len(screen.said) == said  # it is over
