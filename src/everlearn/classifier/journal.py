"""The journal of a served model: every example, on disk before it is acknowledged, in the order of learning."""

import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlearn.classifier.labels import Label
from everlearn.errors import UserError

JOURNAL = "journal.sqlite"
"""Its name in the folder of a model."""

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS examples (
    id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, label TEXT NOT NULL, received REAL NOT NULL
);
"""


class JournalFullError(Exception):
    """Nothing more can be written: the disk is full or fails."""


@dataclass(frozen=True)
class Entry:
    """An example with its number; numbers grow by one and are never used again."""

    id: int
    text: str
    label: Label


class Journal:
    """A file of SQLite, in which a commit has reached the disk when it returns."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")  # a text that is deleted is also overwritten
            self._db.executescript(_TABLES)
            self._db.execute("INSERT OR IGNORE INTO facts VALUES ('identity', ?)", (uuid.uuid4().hex,))
        except sqlite3.Error as error:
            raise UserError(f"the journal {path} cannot be opened ({error}): make room, or mend it.") from error
        (self.identity,) = self._db.execute("SELECT value FROM facts WHERE name = 'identity'").fetchone()
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'examples'").fetchone()
        self._last: int = row[0] if row else 0

    def place(self, position: int) -> dict[str, Any]:
        """What a model keeps with it that has learned everything up to this number."""
        return {"journal": self.identity, "position": position}

    def position(self, place: Mapping[str, Any] | None) -> int:
        """Up to which number a model has learned that keeps this place; 0 where it is one in another journal."""
        return int(place["position"]) if place and place["journal"] == self.identity else 0

    @property
    def last(self) -> int:
        """The number of the newest example; 0 where there never was one."""
        return self._last

    @property
    def first(self) -> int:
        """The number of the oldest example that is still there; the next one's where there is none."""
        with self._lock:
            (first,) = self._db.execute("SELECT min(id) FROM examples").fetchone()
        return first if first is not None else self._last + 1

    def append(self, examples: Sequence[tuple[str, Label]]) -> list[int]:
        """Write examples, all or none; their numbers, once they are on the disk."""
        now = time.time()
        with self._lock:
            numbers = list(range(self._last + 1, self._last + 1 + len(examples)))
            rows = [
                (number, text, json.dumps(label), now) for number, (text, label) in zip(numbers, examples, strict=True)
            ]
            try:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany("INSERT INTO examples VALUES (?, ?, ?, ?)", rows)
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise JournalFullError(str(error)) from error
            self._last = numbers[-1] if numbers else self._last
        return numbers

    def read(self, after: int, most: int) -> list[Entry]:
        """The next examples behind a number."""
        query = "SELECT id, text, label FROM examples WHERE id > ? ORDER BY id LIMIT ?"
        with self._lock:
            rows = self._db.execute(query, (after, most)).fetchall()
        return [Entry(number, text, json.loads(label)) for number, text, label in rows]

    def prune(self, upto: int) -> None:
        """Delete examples that no checkpoint needs any more."""
        with self._lock:
            try:
                self._db.execute("DELETE FROM examples WHERE id <= ?", (upto,))
            except sqlite3.Error as error:
                raise JournalFullError(str(error)) from error

    def erase(self, upto: int, erasure: str) -> None:
        """Delete examples from the disk, from the write-ahead log too, because of something that was forgotten.

        It is noted which forgetting that was: who is interrupted before comes back to it, and nobody does it twice.
        """
        with self._lock:
            (done,) = self._db.execute("SELECT value FROM facts WHERE name = 'erasure'").fetchone() or ("",)
        if done == erasure:
            return
        self.prune(upto)
        with self._lock:
            try:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._db.execute("INSERT OR REPLACE INTO facts VALUES ('erasure', ?)", (erasure,))
            except sqlite3.Error as error:
                raise JournalFullError(str(error)) from error

    def go_on_from(self, number: int) -> None:
        """Never give out a number that the model counts as learned, though the journal may be an older copy."""
        if number > self._last:
            self.append([("", "")])
            with self._lock:
                self._db.execute("DELETE FROM examples WHERE id = ?", (self._last,))
                self._db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'examples'", (number,))
            self._last = number

    def close(self) -> None:
        """Put everything into one file."""
        with self._lock:
            self._db.close()
