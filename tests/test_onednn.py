"""Linear layers through oneDNN give what PyTorch's own give."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from everlearn.encoders import onednn
from everlearn.encoders.onednn import LinearByOneDnn
from support import tiny_encoder
from test_encoders import sequences_of

needs_it = pytest.mark.skipif(not onednn.works(), reason="this PyTorch has no oneDNN")


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


@needs_it
@pytest.mark.parametrize("shape", [(1, 24), (9, 24), (3, 5, 24)])
@pytest.mark.parametrize("biased", [True, False])
def test_a_layer_and_its_gradients(shape: tuple[int, ...], biased: bool):
    rows, weight, bias = leaf(*shape), leaf(7, 24), leaf(7) if biased else None
    leaves = [rows, weight, *([bias] if biased else [])]
    expected = functional.linear(rows, weight, bias)
    wanted = torch.autograd.grad(expected.sin().sum(), leaves)
    with LinearByOneDnn():
        found = functional.linear(rows, weight, bias)
        got = torch.autograd.grad(found.sin().sum(), leaves)
    assert found.grad_fn.name() != expected.grad_fn.name()  # it really went another way
    torch.testing.assert_close(found, expected)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)


@needs_it
def test_an_encoder_and_its_gradients(monkeypatch: pytest.MonkeyPatch):
    texts = ["the of and", "it for on", "x", "the of and to in it for on with as"]
    results = []
    monkeypatch.setattr(onednn, "WIDE_ENOUGH", 1)
    for helps in (True, False):
        monkeypatch.setattr(onednn, "helps", lambda helps=helps: helps)
        used = tiny_encoder()
        features = used(sequences_of(used, texts))
        features.square().sum().backward()
        results.append((features.detach(), used.weights.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_other_numbers_than_fp32_are_left_alone():
    rows, weight = leaf(3, 8).double(), leaf(2, 8).double()
    with LinearByOneDnn():
        assert torch.equal(functional.linear(rows, weight), rows @ weight.T)


def test_it_is_for_the_processors_that_gain_and_draws_no_random_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(onednn, "PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    before = torch.get_rng_state()
    for maker, gains in (("GenuineIntel", False), ("AuthenticAMD", onednn.works())):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nvendor_id : {maker}\n")
        onednn.helps.cache_clear()
        onednn.works.cache_clear()
        assert onednn.helps() is gains
    (tmp_path / "cpuinfo").unlink()
    onednn.helps.cache_clear()
    assert not onednn.helps()
    onednn.helps.cache_clear()
    assert torch.equal(torch.get_rng_state(), before)
