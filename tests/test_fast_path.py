"""The fast path against the plain one: the same features, the same gradients, whatever weights are in place."""

import copy
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call
from torch.nn import functional

from everlearn import transfer
from everlearn.batches import Ragged, Sequences
from everlearn.encoders import POOLINGS, Encoder, fast_path, graphs, in_place
from everlearn.encoders.fast_path import FastPath
from everlearn.encoders.in_place import GradientsInPlace
from everlearn.encoders.packing import Shape, pack
from everlearn.encoders.trial import working_fast_path
from everlearn.methods.low_rank import AdaptedNetwork
from everlearn.transfer import own_queue
from support import tiny_encoder

CUDA = torch.cuda.is_available()
# fp32 on the CPU, by masks; on a GPU the kernels that users get, in bf16, at first plainly and then recorded.
DEVICES = [
    pytest.param(("cpu", torch.float32, {"rtol": 0, "atol": 1e-5}), id="cpu"),
    pytest.param(
        ("cuda", torch.bfloat16, {"rtol": 0.05, "atol": 0.05}),
        id="cuda",
        marks=pytest.mark.skipif(not CUDA, reason="needs a GPU"),
    ),
]


@pytest.fixture(params=DEVICES)
def encoders(request: pytest.FixtureRequest) -> Callable[..., tuple[Encoder, Encoder, dict[str, float]]]:
    """Two encoders with the same weights, one plain and one with the fast path, and how close they must come."""
    device, dtype, tolerance = request.param

    def make(**settings: Any) -> tuple[Encoder, Encoder, dict[str, float]]:
        plain = tiny_encoder(**settings).to(device)
        fast = copy.deepcopy(plain)
        fast.fast_path = FastPath(fast.pooling, 0, dtype)
        return plain, fast, tolerance

    return make


def ragged(lengths: list[int], high: int = 90, seed: int = 0) -> Ragged:
    rng = np.random.default_rng(seed)
    return Ragged.from_rows([rng.integers(5, high, size=length) for length in lengths])


def sequences(lengths: list[int], seed: int = 0) -> Sequences:
    tokens = ragged(lengths, seed=seed)
    types = Ragged(ragged(lengths, high=6, seed=seed).values - 5, tokens.lengths)
    return Sequences(tokens, types)


LENGTHS = [5, 1, 40, 17, 8, 64, 3]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("typed", [True, False])
def test_features_and_gradients_are_those_of_the_plain_path(encoders, pooling: str, typed: bool):
    plain, fast, tolerance = encoders(pooling=pooling)
    for seed in range(3):  # the first time without a recording, then with one
        given = sequences(LENGTHS, seed) if typed else Sequences(ragged(LENGTHS, seed=seed))
        expected, found = plain(given), fast(given)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, **tolerance)
        torch.manual_seed(seed)
        direction = torch.randn(found.shape).to(found)
        wanted = torch.autograd.grad((expected * direction).sum(), list(plain.parameters()), materialize_grads=True)
        got = torch.autograd.grad((found * direction).sum(), list(fast.parameters()), materialize_grads=True)
        for (name, weight), one, other in zip(plain.named_parameters(), wanted, got, strict=True):
            assert other.dtype == torch.float32
            assert other.shape == weight.shape
            if tolerance["atol"] < 0.01:
                torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4, msg=name)
        flat = [torch.cat([part.reshape(-1) for part in parts]) for parts in (wanted, got)]
        assert float(torch.cosine_similarity(*flat, dim=0)) > 0.99
        # Each weight's own, too: those of the biases are a thousandth of what all are. Where it is next to nothing, as
        # attention's key biases have it, rounding is all there is.
        views = [plain.skeleton.learned.views(vector) for vector in flat]
        for name, one in views[0].items():
            if float(one.norm()) > 1e-3 * float(flat[0].norm()):
                assert float((views[1][name] - one).norm() / one.norm()) < max(
                    0.15 * (tolerance["atol"] > 0.01), 1e-3
                ), name
        with torch.no_grad():
            torch.testing.assert_close(fast(given), expected.detach(), **tolerance)
    passes = fast.fast_path._passes
    assert len(passes._forward_passes) == len(passes._full_passes) == (found.device.type == "cuda")


def test_what_was_learned_since_is_used(encoders):
    plain, fast, tolerance = encoders()
    given = sequences(LENGTHS)
    for _ in range(3):
        for used in (plain, fast):
            with torch.no_grad():
                for weight in used.parameters():
                    weight.mul_(1.05)
        torch.testing.assert_close(fast(given), plain(given), **tolerance)


def test_an_optimiser_s_steps_are_seen_as_they_are_taken(encoders):
    plain, fast, _ = encoders()
    losses = []
    for used in (plain, fast):
        optimiser = torch.optim.AdamW(used.parameters(), lr=1e-3, fused=True)
        for _ in range(20):
            loss = (used(sequences(LENGTHS)) - 1).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses.append(float((used(sequences(LENGTHS)) - 1).square().mean()))
    assert losses[1] < 0.9 * float((tiny_encoder()(sequences(LENGTHS)) - 1).square().mean())
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_encoders_in_threads_of_their_own_learn_what_they_learn_alone(encoders):
    """Recordings, backward passes and memory of one must not get into another's, whichever comes when."""

    def learned(used: Encoder, seed: int) -> float:
        optimiser = torch.optim.AdamW(used.parameters(), lr=1e-3, fused=True)
        rng = np.random.default_rng(seed)
        for _ in range(30):
            given = sequences(rng.integers(1, 64, size=7).tolist(), seed)
            with torch.no_grad():
                used(given)
            loss = (used(given) - seed).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return float((used(sequences(LENGTHS)) - seed).square().mean())

    def in_a_thread(place: int, used: Encoder) -> None:
        with own_queue():
            found[place] = learned(used, place)

    expected = [learned(encoders()[1], seed) for seed in range(4)]
    found = [0.0] * 4
    threads = [threading.Thread(target=in_a_thread, args=(place, encoders()[1])) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == pytest.approx(expected, rel=0.02)


def test_fast_weights_in_place_of_the_encoders_own_are_used_and_get_the_gradient(encoders):
    plain, fast, tolerance = encoders()
    given = sequences(LENGTHS)
    for step in range(4):
        results = []
        for used in (plain, fast):
            weights = {
                name: (weight.detach() * (1 + 0.1 * step)).requires_grad_() for name, weight in used.named_parameters()
            }
            features = functional_call(used, weights, (given,))
            gradient = torch.autograd.grad(features.square().sum(), list(weights.values()), materialize_grads=True)
            results.append((features, torch.cat([part.reshape(-1) for part in gradient])))
        (expected, one), (found, other) = results
        torch.testing.assert_close(found, expected, **tolerance)
        assert float(torch.cosine_similarity(one, other, dim=0)) > 0.99
    # And the encoder's own are back afterwards.
    torch.testing.assert_close(fast(given), plain(given), **tolerance)


def test_adapters_work_on_the_fast_path_as_on_the_plain_one(encoders):
    plain, fast, tolerance = encoders()
    networks = []
    for encoder in (plain, fast):
        torch.manual_seed(1)
        network = AdaptedNetwork(encoder, torch.nn.Linear(encoder.width, 2), rank=2)
        for outer in network.adapters.outer:
            torch.nn.init.normal_(outer, std=0.3)
        networks.append(network)
    for seed in range(3):  # the first time without a recording, then with one
        given = sequences(LENGTHS, seed)
        with torch.no_grad():
            assert not torch.allclose(networks[0].features(given), plain(given), **tolerance)
        expected, found = (network.features(given) for network in networks)
        torch.testing.assert_close(found, expected, **tolerance)
        torch.manual_seed(seed)
        direction = torch.randn(found.shape).to(found)
        flat = []
        for network, features in zip(networks, (expected, found), strict=True):
            gradients = torch.autograd.grad((features * direction).sum(), list(network.adapters.parameters()))
            flat.append(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        assert float(torch.cosine_similarity(*flat, dim=0)) > 0.99
        with torch.no_grad():
            torch.testing.assert_close(networks[1].features(given), expected.detach(), **tolerance)


def test_a_forward_pass_before_the_last_ones_backward_pass_does_not_disturb_it(encoders):
    plain, fast, _ = encoders()
    for _ in range(3):
        gradients = []
        for used in (plain, fast):
            first = used(sequences(LENGTHS, seed=1))
            other = {"weights": (used.weights.detach() * 1.2).requires_grad_()}
            second = functional_call(used, other, (sequences(LENGTHS, seed=2),))
            with torch.no_grad():
                third = functional_call(used, {"weights": used.weights * 0.8}, (sequences(LENGTHS, seed=3),))
            loss = first.square().sum() + (second**3).sum()
            parts = torch.autograd.grad(loss, [used.weights, other["weights"]])
            gradients.append(torch.cat([*parts, 100 * third.reshape(-1)]))
        assert float(torch.cosine_similarity(*gradients, dim=0)) > 0.99


def test_two_gradients_of_the_same_encoder_are_kept_apart(encoders):
    _, fast, _ = encoders()
    weights = list(fast.parameters())
    for _ in range(3):
        first = torch.autograd.grad(fast(sequences(LENGTHS, seed=1)).sum(), weights, materialize_grads=True)
        before = [part.clone() for part in first]
        torch.autograd.grad(fast(sequences(LENGTHS, seed=2)).square().sum(), weights, materialize_grads=True)
        assert all(torch.equal(part, kept) for part, kept in zip(first, before, strict=True))


def test_more_tokens_than_go_through_at_once(encoders, monkeypatch: pytest.MonkeyPatch):
    plain, fast, tolerance = encoders()
    monkeypatch.setattr(fast_path, "TOKENS_AT_ONCE", 50)  # less than the longest sequence
    with torch.no_grad():
        torch.testing.assert_close(fast(sequences(LENGTHS)), plain(sequences(LENGTHS)), **tolerance)


def test_a_copy_computes_with_its_own_weights(encoders):
    _, fast, _ = encoders()
    given = sequences(LENGTHS)
    before = fast(given).detach()
    clone = copy.deepcopy(fast)
    with torch.no_grad():
        for weight in fast.parameters():
            weight.mul_(1.5)
    assert torch.equal(clone(given).detach(), before)
    assert not torch.allclose(fast(given), before)


def test_tokens_are_counted_as_on_the_plain_path(encoders):
    plain, fast, _ = encoders()
    for used in (plain, fast):
        features = used(sequences(LENGTHS))
        features.sum().backward()
        assert (used.meter.tokens_forward, used.meter.tokens_backward) == (sum(LENGTHS), sum(LENGTHS))


# Packing


@pytest.mark.parametrize("lengths", [[1], [3, 5], [448] * 3, list(range(1, 100)), [64] * 16, [7] * 300])
def test_a_rounded_shape_has_room_and_little_to_spare(lengths: list[int]):
    exact = Shape.of(np.array(lengths))
    rounded = exact.rounded()
    assert exact.tokens <= rounded.tokens < max(1.125 * exact.tokens, exact.tokens + 64)
    assert rounded.longest >= exact.longest
    packed = pack(Sequences(ragged(lengths)), rounded, first_position=2)
    bounds = packed[3 * rounded.tokens :]
    own = np.diff(bounds)
    assert own[: len(lengths)].tolist() == lengths
    # Every token belongs to a sequence, and none is longer than was promised to the kernels.
    assert bounds[-1] == rounded.tokens
    assert own.min() >= 0
    assert own.max() <= rounded.longest


def test_packed_tokens_positions_and_types():
    given = Sequences(Ragged.from_rows([[7, 8, 9], [5]]), Ragged.from_rows([[0, 1, 1], [0]], np.uint8))
    shape = Shape(tokens=7, sequences=4, longest=3)
    ids, positions, types = pack(given, shape, first_position=2)[:21].reshape(3, 7)
    assert ids[:4].tolist() == [7, 8, 9, 5]
    assert positions.tolist() == [2, 3, 4, 2, 2, 2, 2]
    assert types.tolist() == [0, 1, 1, 0, 0, 0, 0]
    assert pack(given, shape, first_position=2)[21:].tolist() == [0, 3, 4, 7, 7]


def test_positions_are_never_more_than_the_longest_sequence_needs():
    """Room is rounded up to more positions than some encoders have, and an index beyond them ends a GPU's work."""
    lengths = [130, 200]
    shape = Shape.of(np.array(lengths)).rounded()
    assert shape.longest > max(lengths)
    left_over = shape.tokens - sum(lengths)
    assert left_over > 0
    positions = pack(Sequences(ragged(lengths)), shape, first_position=2)[shape.tokens : 2 * shape.tokens]
    assert positions.max() == 2 + max(lengths) - 1
    assert positions[-left_over:].tolist() == [2] * left_over


# Gradients in place


@pytest.mark.parametrize("seed", range(2))
def test_gradients_are_autograd_s_however_weights_are_used(seed: int):
    """Twice, with other numbers of rows, for what is thrown away, or not at all."""
    torch.manual_seed(seed)
    weight, bias, other = torch.randn(3, 3), torch.randn(3), torch.randn(3)
    table, dead, unused = torch.randn(5, 3), torch.randn(3, 3), torch.randn(2)
    weights = {"weight": weight, "bias": bias, "other": other, "table": table, "dead": dead, "unused": unused}
    for value in weights.values():
        value.requires_grad_()

    def compute() -> torch.Tensor:
        looked_up = functional.embedding(torch.tensor([0, 4, 4]), table)
        functional.linear(looked_up, dead, other)  # as a model whose own pooler nobody asks for
        rows = functional.linear(functional.linear(looked_up, weight, bias).tanh(), weight, bias)
        first = functional.linear(rows[:1], dead, other)
        return functional.linear(rows, table).sum() * bias.sum() + first.square().sum()

    expected = torch.autograd.grad(compute(), list(weights.values()), allow_unused=True)
    places = {name: torch.full_like(value, 7.0) for name, value in weights.items()}
    gradients = GradientsInPlace(weights, places)
    with gradients:
        output = compute()
    gradients.finish(output, torch.ones_like(output))
    for name, gradient in zip(weights, expected, strict=True):
        torch.testing.assert_close(places[name], torch.zeros_like(unused) if gradient is None else gradient)


def in_place_and_by_autograd(compute, weights):
    """The gradients of what `compute` makes of the weights, both ways."""
    expected = torch.autograd.grad(compute(), list(weights.values()))
    places = {name: torch.full_like(value, 7.0) for name, value in weights.items()}
    gradients = GradientsInPlace(weights, places)
    with gradients:
        output = compute()
    gradients.finish(output, torch.ones_like(output))
    return list(places.values()), list(expected)


def of_a_product(x, weight, bias):
    y = functional.linear(x, weight, bias)
    y *= 2
    return y.square().sum()


def of_what_was_cut(x, weight, bias):
    heads = functional.linear(x, weight, bias).view(1, 5, 3, 1).transpose(1, 2)
    heads.clamp_(-1, 1)
    return heads.square().sum()


def of_an_activation(x, weight, bias):
    return functional.relu(functional.linear(x, weight, bias), inplace=True).square().sum()


@pytest.mark.parametrize("function", [of_a_product, of_what_was_cut, of_an_activation])
def test_a_layers_output_may_be_changed(function):
    torch.manual_seed(0)
    x = torch.randn(1, 5, 4)
    weights = {"weight": torch.randn(3, 4, requires_grad=True), "bias": torch.randn(3, requires_grad=True)}
    found, expected = in_place_and_by_autograd(lambda: function(x, **weights), weights)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("padding", [None, 3, -2, 0])
def test_the_row_of_the_padding_never_learns(padding):
    torch.manual_seed(0)
    ids, table = torch.tensor([[0, 3, 3, 4]]), torch.randn(5, 2, requires_grad=True)

    def compute():
        looked_up = functional.embedding(ids, table, padding)
        looked_up += 1  # nor is what was looked up a view that nobody may change
        return looked_up.square().sum()

    found, expected = in_place_and_by_autograd(compute, {"table": table})
    torch.testing.assert_close(found, expected)


def test_large_sums_are_taken_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(in_place, "SUMMED_LATER", 10)
    weights = {"weight": torch.randn(3, 4, requires_grad=True), "bias": torch.randn(3, requires_grad=True)}
    x = torch.randn(5, 4)
    found, expected = in_place_and_by_autograd(lambda: functional.linear(x, **weights).square().sum(), weights)
    torch.testing.assert_close(found, expected)


def test_every_layer_and_embedding_of_an_encoder_writes_in_place(monkeypatch: pytest.MonkeyPatch):
    """Else all tests would pass, only more slowly."""
    written = []
    place = GradientsInPlace.place
    monkeypatch.setattr(GradientsInPlace, "place", lambda self, name: (written.append(name), place(self, name))[1])
    encoder = tiny_encoder()
    encoder.fast_path = FastPath(encoder.pooling, 0, torch.float32)
    encoder(sequences(LENGTHS)).sum().backward()
    assert sorted(written) == sorted(name for name in encoder.named_weights() if "LayerNorm" not in name)


# The trial


def test_an_encoder_that_can_goes_the_fast_way():
    encoder = tiny_encoder()
    path = working_fast_path(encoder, 0)
    assert isinstance(path, FastPath)
    assert path.recordings == 0


@pytest.mark.parametrize("fault", ["raises", "wrong bias", "wrong product", "nan"])
def test_a_backward_pass_that_fails_or_errs_is_found_out(fault, monkeypatch: pytest.MonkeyPatch, caplog):
    def write(a, b, place):
        if fault == "raises":
            raise TypeError("mm() got an unexpected keyword argument 'out_dtype'")
        place.copy_(a @ b * (1.0 if fault == "wrong bias" else -1.0 if fault == "wrong product" else torch.nan))

    monkeypatch.setattr(in_place, "_write_product", write)
    if fault == "wrong bias":
        monkeypatch.setattr(GradientsInPlace, "add_bias", lambda self, name, rows: self.place(name).fill_(1.0))
    assert working_fast_path(tiny_encoder(), 0) is None
    assert "this encoder takes the plain, slower path" in caplog.text
    assert "out_dtype" in caplog.text if fault == "raises" else "gradients of " in caplog.text


def test_an_encoder_that_attends_its_own_way_is_found_out(monkeypatch: pytest.MonkeyPatch, caplog):
    encoder = tiny_encoder()
    monkeypatch.setattr(type(encoder.skeleton.model), "set_attn_implementation", lambda self, name: None)
    assert working_fast_path(encoder, 0) is None
    assert "its attention cannot be exchanged" in caplog.text


# Recordings


class Replayed:
    """What a recording does, done anew: it reads what stands in its buffers at that moment, as a GPU would."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.replay = work
        work()


@pytest.fixture
def recorded_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Encoder:
    """An encoder whose passes are recorded, without a GPU; threads change places whenever a buffer was filled."""

    class Emulated:
        record = staticmethod(Replayed)

    def put(array: np.ndarray, tensor: torch.Tensor) -> None:
        tensor.copy_(torch.from_numpy(array))
        time.sleep(0.002)

    monkeypatch.setattr(fast_path, "Recorder", Emulated)
    monkeypatch.setattr(graphs, "put", put)
    monkeypatch.setattr(fast_path, "RECORDING_DEVICES", ("cpu",))
    encoder = tiny_encoder()
    encoder.fast_path = FastPath(encoder.pooling, 0, torch.float32)
    return encoder


def in_threads(*works: Callable[[], None]) -> None:
    """All at once; what goes wrong in one of them goes wrong here."""
    with ThreadPoolExecutor(len(works)) as threads:
        for done in [threads.submit(work) for work in works]:
            done.result()


def test_threads_that_share_a_recorded_encoder_get_their_own_features(recorded_on_the_cpu: Encoder):
    fast, plain = recorded_on_the_cpu, tiny_encoder()

    def predict(seed: int) -> None:
        given = sequences(LENGTHS, seed)
        with torch.no_grad():
            expected = plain(given)
            for _ in range(20):
                torch.testing.assert_close(fast(given), expected, rtol=0, atol=1e-5)

    in_threads(*(partial(predict, seed) for seed in range(3)))
    assert fast.fast_path.recordings == 1


def test_a_thread_that_predicts_does_not_disturb_one_that_learns(recorded_on_the_cpu: Encoder):
    fast, plain = recorded_on_the_cpu, tiny_encoder()

    def predict() -> None:
        given = sequences(LENGTHS, seed=1)
        with torch.no_grad():
            expected = plain(given)
            for _ in range(40):
                torch.testing.assert_close(fast(given), expected, rtol=0, atol=1e-5)

    def learn(seed: int) -> None:
        given = sequences(LENGTHS, seed)
        (expected,) = torch.autograd.grad(plain(given).square().sum(), plain.weights)
        for _ in range(20):
            (found,) = torch.autograd.grad(fast(given).square().sum(), fast.weights)
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)

    in_threads(predict, partial(learn, 2), partial(learn, 3))
    assert fast.fast_path.recordings == 2


def test_queues_to_record_in_are_nobody_elses_until_they_are_let_go(monkeypatch: pytest.MonkeyPatch):
    made = []
    monkeypatch.setattr(torch.cuda, "Stream", lambda priority: made.append(priority) or f"queue {len(made)}")
    monkeypatch.setattr(transfer, "_idle_queues", [])
    monkeypatch.setattr(transfer, "_queues_made", 0)
    queues = [transfer.RecordingQueue() for _ in range(transfer.MOST_RECORDING_QUEUES)]
    assert len({queue.stream for queue in queues}) == len(made) == transfer.MOST_RECORDING_QUEUES
    with pytest.raises(RuntimeError, match="encoders record already"):
        transfer.RecordingQueue()
    let_go = queues.pop(5).stream
    assert transfer.RecordingQueue().stream == let_go


def fails_at_once(work: Callable[[], None]) -> None:
    raise RuntimeError


def test_a_copy_of_an_encoder_that_cannot_be_recorded_does_not_try_again(
    recorded_on_the_cpu: Encoder, monkeypatch: pytest.MonkeyPatch, caplog
):
    encoder = recorded_on_the_cpu
    monkeypatch.setattr(fast_path.Recorder, "record", staticmethod(fails_at_once))
    # The trial finds it out; what uses the encoder afterwards, and copies of it and of copies, go on without.
    encoder.fast_path = working_fast_path(encoder, 0)
    assert encoder.fast_path is not None
    for used in (encoder, copy.deepcopy(encoder), copy.deepcopy(copy.deepcopy(encoder))):
        for _ in range(3):
            used(sequences(LENGTHS)).sum().backward()
        assert used.fast_path.recordings == 0
    notices = [record.getMessage() for record in caplog.records]
    assert notices == ["this encoder goes on without CUDA graphs (RuntimeError)"]


@pytest.mark.parametrize("broken", [True, False])
def test_after_a_failed_recording_the_device_can_still_be_used(broken: bool, monkeypatch: pytest.MonkeyPatch):
    """Where its end fails as well, PyTorch is told that it is over; the error is the first one in either case."""
    done = []

    class Generator(torch.Generator):
        def graphsafe_get_state(self) -> torch.Generator:
            return self

        def graphsafe_set_state(self, state: torch.Generator) -> torch.Generator:
            done.append(("generator", state.initial_seed()))
            return self

    class Graph:
        def capture_begin(self, **_: Any) -> None:
            done.append("begun")

        def capture_end(self) -> None:
            done.append("ended")
            if broken:
                raise RuntimeError("operation failed due to a previous error during capture")

    class Queue:
        def __init__(self) -> None:
            self.stream = self

        def wait_stream(self, other: object) -> None:
            pass

    def work() -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs, "RecordingQueue", Queue)
    replaced = {
        "CUDAGraph": Graph,
        "graph_pool_handle": lambda: (0, 1),
        "current_stream": Queue,
        "stream": lambda stream: nullcontext(),
        "current_device": lambda: 0,
        "default_generators": (Generator("cpu").manual_seed(7),),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch, "Generator", Generator)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        told = partial(lambda name, device, pool: done.append((name, device, pool)), name)
        monkeypatch.setattr(torch._C, name, told, raising=False)
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        graphs.Recorder().record(work)
    mended = [("_cuda_endAllocateToPool", 0, (0, 1)), ("_cuda_releasePool", 0, (0, 1)), ("generator", 7)]
    assert done == ["begun", "ended", *(mended if broken else [])]
    assert gc.isenabled()


@pytest.mark.skipif(not CUDA, reason="needs a GPU")
def test_an_encoder_goes_on_as_recorded_when_another_is_gone():
    encoders = [tiny_encoder().to("cuda") for _ in range(3)]
    plain, one, other = encoders
    for fast in (one, other):
        fast.fast_path = FastPath(fast.pooling, 0, torch.bfloat16)
    given = sequences(LENGTHS)
    for _ in range(3):
        for used in (one, other):
            used(given).sum().backward()
    del one, used, encoders
    gc.collect()
    torch.cuda.empty_cache()
    filler = torch.full((2**28,), torch.nan, device="cuda")
    plain.weights.grad = other.weights.grad = None
    for used in (plain, other):
        used(given).square().sum().backward()
    assert filler.isnan().all()
    assert float(torch.cosine_similarity(plain.weights.grad, other.weights.grad, dim=0)) > 0.99
