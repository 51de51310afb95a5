import pytest

from everlearn.streams.cleaning import SENTENCE_JOIN, SPACE_JOIN, clean, join


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Hello World", "hello world"),
        (r"one\ntwo", "one two"),
        (r"one\\two", "onetwo"),
        ("a   b\t c\n d", "a b c d"),
        ("wow!!! really??? yes...", "wow! really? yes."),
        ("what?!", "what?!"),
        ("only $5", "only $ 5"),
        ("costs $ 5", "costs $ 5"),
        ("see http://a.example/x?y=1 now", "see now"),
        ("see HTTPS://A.example now", "see now"),
        ("see www.a.example now", "see now"),
        (r"at http://a.example/x\nNext line", "at next line"),
        ("awww. nice", "awww. nice"),
        ("  ", ""),
    ],
)
def test_each_rule(raw, cleaned):
    assert clean(raw) == cleaned


def test_cleaning_again_changes_nothing():
    once = clean(r"Sale!!\n\n$9.99... at www.shop.example/a (\"Great\")")
    assert clean(once) == once


def test_title_and_description_become_two_sentences():
    assert clean(join(["Oil falls.", "Prices fell"], SENTENCE_JOIN)) == "oil falls. prices fell"


def test_the_parts_of_a_question_are_parted_by_a_space():
    assert join([" why? ", "because", "ok"], SPACE_JOIN) == "why? because ok"
