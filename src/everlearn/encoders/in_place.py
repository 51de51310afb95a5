"""Gradients of packed passes, written where they belong in fp32 by the products that compute them.

Left to autograd, the gradient of each weight would be rounded to bf16, laid end to end with the others, copied and
widened; that of each bias takes two kernels, and that of an embedding is as large as the vocabulary, however few words
there are. On a GPU, which small batches keep busy with starting kernels, that was a quarter of a step.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class GradientsInPlace(TorchFunctionMode):
    """While it is entered, linear layers and embeddings are computed so that their gradients go to their places.

    A weight that comes a second time, as where layers share theirs, is left to autograd, as is all else.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor], places: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._weights, self._places = dict(weights), dict(places)
        self._free = {id(weight): name for name, weight in weights.items()}
        """Names of the weights that were not used yet."""
        self._written: set[str] = set()
        self._biases: list[tuple[torch.Tensor, torch.Tensor]] = []
        """What came back to layers with a bias, and the place for its sum over all rows."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Pass everything else on."""
        kwargs = kwargs or {}
        if func is functional.linear and not kwargs and self._all_free(args[1:]):
            bias = args[2] if len(args) > 2 else None
            return _Linear.apply(*args[:2], bias, self, self._taken(args[1]), self._taken(bias))  # type: ignore[no-untyped-call]
        if func is functional.embedding and _plain_lookup(**kwargs) and self._all_free(args[1:2]):
            return _Lookup.apply(*args[:2], self, self._taken(args[1]))  # type: ignore[no-untyped-call]
        return func(*args, **kwargs)

    def place(self, name: str) -> torch.Tensor:
        """Where the gradient of a weight goes, now that it comes."""
        self._written.add(name)
        return self._places[name]

    def add_bias(self, name: str, rows: torch.Tensor) -> None:
        """Let the sum over these rows be the gradient of a bias."""
        self._biases.append((rows, self.place(name)))

    def finish(self, output: torch.Tensor, upstream: torch.Tensor) -> None:
        """Go back through what was computed; afterwards every gradient is in its place."""
        gradients = torch.autograd.grad(output, list(self._weights.values()), upstream, allow_unused=True)
        self._sum_biases()
        found = {name: g for name, g in zip(self._weights, gradients, strict=True) if g is not None}
        alone = found.keys() - self._written
        if alone:
            torch._foreach_copy_([self._places[name] for name in alone], [found[name] for name in alone])
        for name in found.keys() & self._written:
            self._places[name].add_(found[name])

    def _sum_biases(self) -> None:
        """One sum over the rows of all layers side by side, instead of one for each layer."""
        by_rows: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for rows, place in self._biases:
            by_rows.setdefault(len(rows), []).append((rows, place))
        for group in by_rows.values():
            all_rows, places = zip(*group, strict=True)
            summed = torch.cat(all_rows, 1).sum(0, dtype=places[0].dtype)
            torch._foreach_copy_(list(places), torch.split(summed, [len(place) for place in places]))
        self._biases.clear()

    def _all_free(self, weights: Sequence[torch.Tensor | None]) -> bool:
        return all(weight is None or id(weight) in self._free for weight in weights)

    def _taken(self, weight: torch.Tensor | None) -> str | None:
        return None if weight is None else self._free.pop(id(weight))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        gradients: GradientsInPlace,
        name: str,
        bias_name: str | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.gradients, ctx.name, ctx.bias_name = gradients, name, bias_name
        return functional.linear(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        flat = upstream.reshape(-1, upstream.shape[-1])
        _write_product(flat.T, rows.reshape(-1, rows.shape[-1]), ctx.gradients.place(ctx.name))
        if ctx.bias_name is not None:
            ctx.gradients.add_bias(ctx.bias_name, flat)
        return (upstream @ weight if ctx.needs_input_grad[0] else None, *[None] * 5)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ids: torch.Tensor, weight: torch.Tensor, gradients: GradientsInPlace, name: str
    ) -> torch.Tensor:
        ctx.save_for_backward(ids)
        ctx.gradients, ctx.name = gradients, name
        return functional.embedding(ids, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[None, ...]:
        (ids,) = ctx.saved_tensors
        place = ctx.gradients.place(ctx.name)
        rows = upstream.reshape(-1, upstream.shape[-1]).to(place.dtype)
        place.zero_().index_add_(0, ids.reshape(-1), rows)
        return None, None, None, None


def _plain_lookup(
    padding_idx: int | None = None, max_norm: float | None = None, scale_grad_by_freq: bool = False, **_: Any
) -> bool:
    """Whether the lookup does nothing beside looking up; no text that is packed holds padding."""
    return max_norm is None and not scale_grad_by_freq


def _write_product(a: torch.Tensor, b: torch.Tensor, place: torch.Tensor) -> None:
    """The product, summed and kept in the place's precision."""
    if a.is_cuda and a.dtype != place.dtype:
        torch.mm(a, b, out_dtype=place.dtype, out=place)
    else:
        place.copy_(a @ b)
