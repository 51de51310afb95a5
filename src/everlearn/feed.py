"""Feeds a method: batches of the stream, tokenised ahead of time by a thread of their own."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from everlearn.batches import Batch
from everlearn.examples import Example
from everlearn.streams import Stream

EXAMPLES_AT_ONCE = 512
"""Tokenised together: a fast tokenizer spreads them over all cores."""
CHUNKS_AHEAD = 4


class Feed(Iterator[Batch]):
    """Hands out each batch of the stream once, and knows how many examples have been handed out."""

    def __init__(self, stream: Stream, tokenise: Callable[[list[Example]], Batch]) -> None:
        self._stream = stream
        self._tokenise = tokenise
        self.cursor = stream.cursor
        """How many examples have been handed out; the stream itself is read further ahead."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="everlearn-tokenise")
        self._chunks: deque[Future[list[Batch]]] = deque()
        self._ready: deque[Batch] = deque()

    @property
    def length(self) -> int:
        """How many examples there are in all."""
        return self._stream.length

    @property
    def ended(self) -> bool:
        """Whether every example has been handed out."""
        return self.cursor >= self.length

    def skip_to(self, cursor: int) -> None:
        """Go on where a saved run stood. Only forward: what has been seen stays seen."""
        self._stream.skip_to(cursor)
        self.cursor = cursor

    def close(self) -> None:
        """Stop reading ahead."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def __next__(self) -> Batch:
        if self.ended:
            raise StopIteration
        while len(self._chunks) < CHUNKS_AHEAD and not self._stream.ended:
            self._chunks.append(self._worker.submit(self._prepare, self._take()))
        if not self._ready:
            self._ready.extend(self._chunks.popleft().result())
        batch = self._ready.popleft()
        self.cursor += len(batch)
        return batch

    def _take(self) -> list[list[Example]]:
        """The next batches of the stream, together about as many examples as are tokenised at once."""
        taken = [next(self._stream)]
        while not self._stream.ended and len(taken) * len(taken[0]) < EXAMPLES_AT_ONCE:
            taken.append(next(self._stream))
        return taken

    def _prepare(self, batches: list[list[Example]]) -> list[Batch]:
        together = self._tokenise([example for batch in batches for example in batch])
        return list(together.split(len(batches[0])))
