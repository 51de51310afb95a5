"""TensorBoard events, written as they come: no background thread, so a full disk is an error like any other."""

import time
from pathlib import Path


class EventFile:
    """Scalars in TensorBoard's own file format."""

    def __init__(self, folder: Path, first_step: int) -> None:
        # TensorBoard is slow to import, and only runs that are kept need it.
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads a folder's files in the order of their names; nanoseconds keep a resumed run's apart.
        self._file = (folder / f"events.out.tfevents.{time.time_ns()}").open("wb")
        self._records = RecordWriter(self._file)
        self._write(self._event(wall_time=time.time(), file_version="brain.Event:2"))
        # Events of an interrupted run from here on are superseded by what follows.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(self._event(wall_time=time.time(), step=first_step, session_log=start))

    def add(self, step: int, numbers: dict[str, float]) -> None:
        """Write named numbers at a step."""
        values = [self._summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
        self._write(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))

    def close(self) -> None:
        """No more events."""
        self._file.close()

    def _write(self, event: object) -> None:
        self._records.write(event.SerializeToString())  # type: ignore[attr-defined]
        self._records.flush()
