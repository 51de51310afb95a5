"""Batches ahead of time: the same ones, in the same order, and the cursor of what was handed out."""

import pytest

from everlearn import feed
from everlearn.batches import Batch
from everlearn.examples import Example
from everlearn.feed import Feed
from everlearn.problems import Classification
from everlearn.streams import Stream
from support import labelled_texts, tiny_tokens, tokenised

EXAMPLES = labelled_texts(50, range(3))


def tokenise(examples: list[Example]) -> Batch:
    return Classification(3).tokenise(examples, tiny_tokens())


@pytest.mark.parametrize("at_once", [1, 7, 16, 1000])
@pytest.mark.parametrize("size", [1, 4, 50, 64])
def test_batches_are_those_of_the_stream(size: int, at_once: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feed, "EXAMPLES_AT_ONCE", at_once)
    fed, cursors = Feed(Stream(EXAMPLES, range(50), size), tokenise), []
    for batch, expected in zip(fed, tokenised(EXAMPLES, size), strict=True):
        assert batch.tokens.values.tolist() == expected.tokens.values.tolist()
        assert batch.labels.tolist() == expected.labels.tolist()
        cursors.append(fed.cursor)
    assert cursors == [min(start + size, 50) for start in range(0, 50, size)]
    assert fed.ended
    fed.close()


def test_it_goes_on_where_a_saved_run_stood():
    fed = Feed(Stream(EXAMPLES, range(50), 4), tokenise)
    fed.skip_to(12)
    assert next(fed).tokens.values.tolist() == tokenised(EXAMPLES[12:16], 4)[0].tokens.values.tolist()
    assert fed.cursor == 16


def test_an_error_while_tokenising_reaches_whoever_asks_for_the_batch():
    def broken(examples: list[Example]) -> Batch:
        raise ValueError("no such text")

    with pytest.raises(ValueError, match="no such text"):
        next(Feed(Stream(EXAMPLES, range(50), 4), broken))
