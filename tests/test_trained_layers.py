"""What the paper's analyses need of the core: the top of an encoder trained alone, A-GEM's checks, ANML's gate."""

from pathlib import Path

import numpy as np
import pytest
import torch

from everlearn.config import Config
from everlearn.encoders import EncoderConfig, load_encoder
from everlearn.errors import UserError
from everlearn.methods.network import Network
from everlearn.run import run
from support import feed, labelled_texts, tiny_encoder, tokenised

SMALL = {
    **{"batch_size": 4, "lr": 1e-2, "meta_lr": 1e-2, "inner_lr": 1e-2, "support_batches": 2},
    **{"replay_interval": 8, "replay_rate": 0.5},
}


PAPER = ("seq", "replay", "a-gem", "maml-er", "oml-er", "anml-er", "mtl")


def layer_of(name: str) -> str:
    """`layer 1`, or the part of the network that a weight belongs to otherwise."""
    if "encoder.layer." in name:
        return f"layer {name.split('encoder.layer.')[1].split('.')[0]}"
    return "embeddings" if "embeddings" in name else name.split(".")[0]


def named_weights(network: Network) -> dict[str, torch.Tensor]:
    """The encoder's weights by their own names, and the head's."""
    head = {f"head.{name}": weight for name, weight in network.head.named_parameters()}
    return {name: weight.detach().clone() for name, weight in {**network.encoder.named_weights(), **head}.items()}


@pytest.mark.parametrize(("layers", "moving"), [(1, {"head", "layer 1"}), (2, {"head", "layer 0", "layer 1"})])
@pytest.mark.parametrize("name", PAPER)
def test_only_the_top_of_the_encoder_learns(make_method, name, layers, moving):
    method = make_method(name, encoder=tiny_encoder(trained_layers=layers), **SMALL)
    before = named_weights(method.network)
    feed(method, tokenised(labelled_texts(48, range(6)), 4))
    method.finish()
    after = named_weights(method.network)
    assert {layer_of(key) for key in after if not torch.equal(after[key], before[key])} == moving
    assert method.ledger.parameters_trained == sum(w.numel() for w in method.network.trained().values())


def test_more_layers_than_there_are_is_an_error():
    with pytest.raises(UserError, match="the encoder has 2 layers, not 3"):
        load_encoder(EncoderConfig(encoder="tiny", trained_layers=3), torch.device("cpu"))
    with pytest.raises(UserError, match="trained_layers must be at least 1"):
        Config.build({"trained_layers": 0})
    with pytest.raises(UserError, match="freeze_encoder leaves no layer to train"):
        Config.build({"trained_layers": 1, "freeze_encoder": True})


def test_the_gate_is_what_stands_between_before_and_after(make_method):
    method = make_method("anml-er", **SMALL)
    (batch,) = tokenised(labelled_texts(5, range(5)), 5)
    signals = method.signals(batch)
    assert method.ledger.train.tokens_forward == 0
    assert method.ledger.test.tokens_forward > 0
    assert {name: tuple(values.shape) for name, values in signals.items()} == dict.fromkeys(signals, (5, 32))
    assert ((signals["gate"] > 0) & (signals["gate"] < 1)).all()
    torch.testing.assert_close(signals["after"], signals["before"] * signals["gate"])
    features = method.network.eval().features(method.problem.sequences(batch))
    torch.testing.assert_close(signals["after"], features.detach())


@pytest.mark.parametrize("name", [name for name in PAPER if name != "anml-er"])
def test_a_method_without_a_gate_has_nothing_to_show(make_method, name):
    assert not make_method(name, **SMALL).signals(tokenised(labelled_texts(2, range(2)), 2)[0])


def test_a_run_keeps_signals_and_checks_where_asked(tmp_path: Path):
    sample = Path(__file__).parent.parent / "recipes" / "sample" / "fewrel"
    common = {"stream": "fewrel", "data": sample, "encoder": "tiny", "device": "cpu", "max_length": 64}
    sparse = {"replay_interval": 16, "replay_rate": 0.25}
    gated = run(Config.build({**common, **sparse, "method": "anml-er", "keep_signals": 3}))
    assert np.array(gated["signals"]["gate"]).shape == (3, 32)
    checked = run(Config.build({**common, **sparse, "method": "a-gem"}))
    assert "signals" not in checked
    assert sum(checked["checks_per_task"].values()) == checked["ledger"]["train"]["replays"] > 0
    assert all(checked["violations"][task] <= count for task, count in checked["checks_per_task"].items())
    assert [task["task"] for task in checked["tasks"]] == list(checked["matrix"]["tasks"])
    assert sum(task["train"] for task in checked["tasks"]) == 150
    assert sum(task["classes"] for task in checked["tasks"]) == 12
