"""LAMOL: rows, losses, answers and made-up examples, with small random language models."""

import gc
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import GenerationConfig

from everlearn.batches import Batch
from everlearn.config import Config
from everlearn.encoders import EncoderConfig, load_encoder
from everlearn.encoders.tiny import tiny_tokenizer, vocabulary
from everlearn.errors import UserError
from everlearn.experiment import build_experiment
from everlearn.methods.language import TOP_K, Wording
from everlearn.problems import Classification, Ranking
from everlearn.run import run
from support import (
    CAUSAL_LENGTH,
    CLASS_WORDS,
    MethodFactory,
    causal_folder,
    feed,
    labelled_texts,
    small_benchmark,
    tiny_encoder,
    tiny_tokens,
    tokenised,
    with_candidates,
)

CPU = torch.device("cpu")
SMALL = {"batch_size": 4, "replay_interval": 16, "replay_rate": 0.5, "lr": 1e-3}
NAMES = [" ".join(words) for words in CLASS_WORDS]
WORDING = Wording(
    question=np.array([7, 8]), labels={0: (3,), 1: (3, 4), 2: (5,)}, answer=20, end=21, generate=22, longest=12
)


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return tokenised(labelled_texts(48, range(6)), 4)


# Rows


def test_a_row_is_text_question_answer():
    assert WORDING.row(np.array([1, 2]), 1) == [1, 2, 7, 8, 20, 3, 4, 21]
    assert WORDING.prompt(np.array([1, 2])) == [1, 2, 7, 8, 20]


def test_a_long_text_is_cut_so_that_the_whole_row_fits_with_the_mark_in_front():
    assert WORDING.room == 12 - 2 - 2 - 3
    assert len(WORDING.row(np.arange(1, 50), 1)) == 11


@pytest.mark.parametrize("label", [0, 1, 2])
def test_a_row_that_was_written_is_read(label: int):
    assert WORDING.read([*WORDING.row(np.array([1, 2]), label), 21, 21]) == ([1, 2], label)


@pytest.mark.parametrize(
    "row",
    [
        [1, 2, 7, 8, 20, 3],  # never ends
        [1, 2, 7, 8, 3, 21],  # no answer
        [1, 2, 7, 20, 3, 21],  # another question
        [7, 8, 20, 3, 21],  # no text
        [1, 7, 8, 20, 9, 21],  # no such label
        [1, 7, 8, 20, 3, 5, 21],  # more than a label
        [1, 7, 8, 20, 3, 20, 21],  # two answers
        [1, 21, 7, 8, 20, 3],  # ends before the answer
        [22, 1, 7, 8, 20, 3, 21],  # a mark in the text
    ],
)
def test_what_is_no_example_is_not_read(row: list[int]):
    assert WORDING.read(row) is None


# Losses and answers


def test_answering_is_the_loss_of_the_answer_alone(make_method: MethodFactory, batches: list[Batch]):
    network = make_method("lamol", problem=Classification(6, NAMES), **SMALL).network
    found = network.answer_losses(batches[0].tokens, batches[0].labels)
    written = network.writing_losses(batches[0].tokens, batches[0].labels)
    for row, label in enumerate(batches[0].labels.tolist()):
        ids = network.wording.row(batches[0].tokens[row], label)
        start = ids.index(network.wording.answer)
        with torch.no_grad():
            logits = network.model(input_ids=torch.tensor([ids])).logits[0]
            expected = functional.cross_entropy(logits[start:-1], torch.tensor(ids[start + 1 :]))
            torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-5)
            whole = torch.tensor([network.wording.generate, *ids])
            logits = network.model(input_ids=whole.unsqueeze(0)).logits[0]
            expected = functional.cross_entropy(logits[:-1], whole[1:])
            torch.testing.assert_close(written[row], expected, rtol=1e-4, atol=1e-5)


def test_the_loss_is_answering_and_a_quarter_of_writing(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("lamol", **SMALL)
    tokens, labels = batches[0].tokens, batches[0].labels
    expected = method.network.answer_losses(tokens, labels).mean()
    expected = expected + 0.25 * method.network.writing_losses(tokens, labels).mean()
    torch.testing.assert_close(method.loss(method.network, batches[0]), expected)


def test_an_answer_is_token_by_token_the_likeliest_among_the_choices(make_method: MethodFactory):
    problem = Ranking(NAMES, tiny_tokens())
    network = make_method("lamol", problem=problem, **SMALL).network
    examples = with_candidates(labelled_texts(12, range(6)), range(6))
    (batch,) = tokenised(examples, 12, problem)
    expected = []
    for row, example in enumerate(examples):
        so_far, left = network.wording.prompt(batch.tokens[row]), list(example.candidates)
        said: list[int] = []
        while not said or said[-1] != network.wording.end:
            words = {c: [*network.wording.labels[c], network.wording.end] for c in left}
            with torch.no_grad():
                logits = network.model(input_ids=torch.tensor([so_far + said])).logits[0, -1]
            said.append(max({word[len(said)] for word in words.values()}, key=lambda t: float(logits[t])))
            left = [c for c, word in words.items() if word[: len(said)] == said]
        expected.append(left[0])
    assert network.answers(batch.tokens, problem.choices(batch)).tolist() == expected


# Writing


def test_names_that_the_tokenizer_cannot_tell_apart_get_numbers(make_method: MethodFactory):
    """To a vocabulary that knows neither word they are the same; the first keeps its name, so that labels may grow."""
    network = make_method("lamol", problem=Classification(1, ["日"]), **SMALL).network
    alone = network.wording.labels[0]
    network.name_labels({0: "日", 1: "本", 2: "語", 3: NAMES[3]})
    labels = network.wording.labels
    assert labels[0] == alone
    assert len(set(labels.values())) == 4
    assert labels[1] != alone
    assert labels[1][0] == alone[0]  # the name is still in it


def test_what_it_learned_it_can_write(make_method: MethodFactory):
    """After a few hundred short texts most of what it writes can be read, with words of the label's class."""
    problem = Classification(2, ["good", "bad"])
    method = make_method("lamol", problem=problem, **{**SMALL, "lr": 5e-3, "replay": False, "writing_weight": 1.0})
    feed(method, tokenised(labelled_texts(600, [0, 1]), 4, problem))
    written = method.network.write(40, seed=1)
    assert len(written) > 20
    assert set(written.labels.tolist()) == {0, 1}
    words = [{vocabulary().index(word) for word in CLASS_WORDS[label]} for label in (0, 1)]
    right = [
        len(words[label] & set(written.tokens[row].tolist()))
        > len(words[1 - label] & set(written.tokens[row].tolist()))
        for row, label in enumerate(written.labels.tolist())
    ]
    assert np.mean(right) > 0.8


def test_writing_is_repeatable_and_leaves_the_global_generator_alone(make_method: MethodFactory):
    network = make_method("lamol", **SMALL).network
    written: list[torch.Tensor] = []
    generate = network._generate
    network._generate = lambda *a, **k: written.append(generate(*a, **k)) or written[-1]
    before = torch.get_rng_state()
    for seed in (1, 1, 2):
        network.write(4, seed)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(written[0], written[1])
    assert not torch.equal(written[0], written[2])


def test_the_ledger_counts_what_is_written(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("lamol", **SMALL)
    feed(method, batches)
    train = method.ledger.train
    assert train.examples_generated == 3 * 8
    assert (train.replays, train.memory_reads, train.memory_writes) == (3, 0, 0)
    weights = sum(weight.numel() for weight in method.network.parameters())
    assert method.ledger.parameters_trained == weights
    # Each text passes twice, once to be answered and once to be written.
    learned = sum(
        2 * len(method.network.wording.row(b.tokens[r], int(b.labels[r]))) + 1 for b in batches for r in range(4)
    )
    assert train.tokens_forward > train.tokens_backward >= learned


def test_without_replay_nothing_is_written(make_method: MethodFactory, batches: list[Batch]):
    method = make_method("lamol", replay=False, **SMALL)
    feed(method, batches)
    assert method.ledger.train.examples_generated == 0


# Models


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_language_model_has_the_dropout_of_the_settings(
    dropout: float, make_method: MethodFactory, batches: list[Batch]
):
    encoder = load_encoder(EncoderConfig(causal_folder(), max_length=CAUSAL_LENGTH, dropout=dropout), CPU)
    network = make_method("lamol", encoder=encoder, **SMALL).network
    once, again = (network.answer_losses(batches[0].tokens, batches[0].labels) for _ in range(2))
    assert torch.equal(once, again) == (dropout == 0.0)
    assert {module.p for module in network.modules() if isinstance(module, nn.Dropout)} == {dropout}


def test_the_language_model_computes_in_the_precision_of_the_settings(make_method: MethodFactory, batches: list[Batch]):
    """Learning, answering and writing; the weights stay fp32 and so do the losses."""
    methods, dtypes = [], []
    for precision in ("fp32", "bf16"):
        encoder = load_encoder(EncoderConfig(causal_folder(), max_length=CAUSAL_LENGTH, precision=precision), CPU)
        methods.append(make_method("lamol", problem=Classification(6, NAMES), encoder=encoder, **SMALL))
    exact, rounded = methods
    losses = [method.network.answer_losses(batches[0].tokens, batches[0].labels) for method in methods]
    assert losses[1].dtype == torch.float32
    assert not torch.equal(*losses)
    torch.testing.assert_close(*losses, rtol=0.02, atol=0.02)
    attention = rounded.network.model.transformer.h[0].attn.c_attn
    attention.register_forward_hook(lambda _module, _inputs, output: dtypes.append(output.dtype))
    for use in (
        lambda: rounded.observe(batches[0]),
        lambda: rounded.judge(batches[0]),
        lambda: rounded.network.write(4, seed=1),
        lambda: rounded.network.answers(batches[0].tokens, [np.arange(6)] * 4),
    ):
        dtypes.clear()
        use()
        assert set(dtypes) == {torch.bfloat16}
    assert {weight.dtype for weight in rounded.network.parameters()} == {torch.float32}
    # And they learn nearly the same.
    exact.observe(batches[0])
    for method in methods:
        feed(method, batches[1:])
    losses = [method.network.answer_losses(batches[0].tokens, batches[0].labels).mean() for method in methods]
    torch.testing.assert_close(*losses, rtol=0.1, atol=0.1)


def test_an_experiment_keeps_no_encoder_that_its_method_does_not_use(monkeypatch: pytest.MonkeyPatch):
    """The language model holds all the weights there are; the encoder it was found by would be a second copy."""
    loaded: list[Any] = []

    def load(*given: Any) -> Any:
        encoder = load_encoder(*given)
        loaded.append(weakref.ref(encoder))
        return encoder

    monkeypatch.setattr("everlearn.experiment.load_encoder", load)
    given = {"method": "lamol", "encoder": causal_folder(), "max_length": CAUSAL_LENGTH, **SMALL}
    experiment = build_experiment(Config.build(given), small_benchmark())
    gc.collect()
    assert [reference() for reference in loaded] == [None]
    assert len(next(experiment.stream)) == 4


def test_a_checkpoints_own_taste_in_texts_changes_nothing(make_method: MethodFactory, tmp_path: Path):
    """A penalty for repeating would change answers, a temperature what is written."""
    shutil.copytree(causal_folder(), tmp_path, dirs_exist_ok=True)
    GenerationConfig(repetition_penalty=1.3, temperature=0.3, do_sample=True).save_pretrained(tmp_path)
    answered, made_up = [], []
    (asked,) = tokenised(labelled_texts(24, range(6), seed=5), 24)
    for folder in (causal_folder(), str(tmp_path)):
        encoder = load_encoder(EncoderConfig(folder, max_length=CAUSAL_LENGTH), CPU)
        network = make_method("lamol", problem=Classification(6, NAMES), encoder=encoder, **SMALL).network
        answered.append(network.answers(asked.tokens, [np.arange(6)] * 24))
        ids = torch.full((8, 1), network.wording.generate)
        torch.manual_seed(1)
        made_up.append(network._generate(ids, torch.ones_like(ids), 20, do_sample=True, top_k=TOP_K))
    assert answered[0].tolist() == answered[1].tolist()
    assert torch.equal(*made_up)


def test_an_encoder_that_cannot_write_is_refused(make_method: MethodFactory):
    with pytest.raises(UserError, match="--encoder"):
        make_method("lamol", encoder=tiny_encoder(), **SMALL)


def test_a_bidirectional_encoder_in_a_folder_is_refused(make_method: MethodFactory, tmp_path: Path):
    from everlearn.encoders.tiny import tiny_model

    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    encoder = load_encoder(EncoderConfig(encoder=str(tmp_path)), torch.device("cpu"))
    with pytest.raises(UserError, match="causal"):
        make_method("lamol", encoder=encoder, **SMALL)


def test_a_length_without_room_for_a_text_is_refused(make_method: MethodFactory):
    encoder = load_encoder(EncoderConfig(encoder=causal_folder(), max_length=10), torch.device("cpu"))
    with pytest.raises(UserError, match="--max-length"):
        make_method("lamol", encoder=encoder, **SMALL)


def test_any_causal_language_model_will_do(make_method: MethodFactory, batches: list[Batch], tmp_path: Path):
    """One of another family, whose output layer is not its input layer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    encoder = load_encoder(EncoderConfig(encoder=str(tmp_path), max_length=CAUSAL_LENGTH), torch.device("cpu"))
    method: Any = make_method("lamol", encoder=encoder, **SMALL)
    feed(method, batches[:5])
    assert len(method.predictor().predict(batches[6])) == 4


def test_a_whole_run_with_a_language_model_from_a_folder():
    settings = {"encoder": causal_folder(), "max_length": CAUSAL_LENGTH, "replay_interval": 16, "replay_rate": 0.25}
    result = run(Config.build({"method": "lamol", "batch_size": 4, **settings}), benchmark=small_benchmark())
    assert result["ledger"]["train"]["examples_generated"] == 3 * 4
    assert 0 <= result["accuracy"] <= 1
