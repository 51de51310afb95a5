"""A sweep's worker that is killed once, right after a checkpoint: `python dying_worker.py MARK N`."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from everlearn import checkpoint


def die_after_a_checkpoint(mark: Path) -> None:
    """Have this process killed when it has saved a checkpoint, unless `mark` says that one was killed already."""
    save = checkpoint.save

    def deadly(*arguments: Any) -> None:
        save(*arguments)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.save = deadly


if __name__ == "__main__":
    from everlearn.sweep.worker import main

    die_after_a_checkpoint(Path(sys.argv[1]))
    main(int(sys.argv[2]))
