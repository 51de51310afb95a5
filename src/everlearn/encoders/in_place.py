"""Gradients of packed passes, written where they belong in fp32 by the products that compute them.

Left to autograd, the gradient of each weight would be rounded to bf16, laid end to end with the others, copied and
widened; that of each bias takes two kernels, and that of an embedding is as large as the vocabulary, however few words
there are. Small batches keep a GPU busy with little but starting kernels, so the fewer there are, the better.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SUMMED_LATER = 2**22
"""Numbers that may come back to a layer for its bias to be summed with those of others: what waits takes memory."""


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
        if func is functional.linear and not kwargs and all(map(self._is_free, args[1:])):
            return self._linear(*args)
        if func is functional.embedding and len(args) == 2 and self._is_free(args[1]) and _plain_lookup(**kwargs):
            return self._lookup(*args, kwargs.get("padding_idx"))
        return func(*args, **kwargs)

    # Both are computed as rows: what comes out of an operation of one's own must be no view, or nobody may change it.

    def _linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        name, bias_name = self._taken(weight), None if bias is None else self._taken(bias)
        rows: torch.Tensor = _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias, self, name, bias_name)  # type: ignore[no-untyped-call]
        return rows.view(*x.shape[:-1], -1)

    def _lookup(self, ids: torch.Tensor, weight: torch.Tensor, padding_idx: int | None) -> torch.Tensor:
        rows: torch.Tensor = _Lookup.apply(ids.reshape(-1), weight, self, self._taken(weight), padding_idx)  # type: ignore[no-untyped-call]
        return rows.view(*ids.shape, -1)

    def place(self, name: str) -> torch.Tensor:
        """Where the gradient of a weight goes, now that it comes."""
        self._written.add(name)
        return self._places[name]

    def add_bias(self, name: str, rows: torch.Tensor) -> None:
        """Let the sum over these rows be the gradient of a bias."""
        if rows.numel() > SUMMED_LATER:
            torch.sum(rows, 0, dtype=self._places[name].dtype, out=self.place(name))
        else:
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
        # What nothing reached this time may hold what another pass left there.
        unreached = self._places.keys() - found.keys() - self._written
        if unreached:
            torch._foreach_zero_([self._places[name] for name in unreached])

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

    def _is_free(self, weight: torch.Tensor | None) -> bool:
        return weight is None or id(weight) in self._free

    def _taken(self, weight: torch.Tensor) -> str:
        return self._free.pop(id(weight))


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
        _write_product(upstream.T, rows, ctx.gradients.place(ctx.name))
        if ctx.bias_name is not None:
            ctx.gradients.add_bias(ctx.bias_name, upstream)
        return (upstream @ weight if ctx.needs_input_grad[0] else None, *[None] * 5)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        ids: torch.Tensor,
        weight: torch.Tensor,
        gradients: GradientsInPlace,
        name: str,
        padding_idx: int | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(ids)
        ctx.gradients, ctx.name, ctx.padding_idx = gradients, name, padding_idx
        return functional.embedding(ids, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[None, ...]:
        (ids,) = ctx.saved_tensors
        place = ctx.gradients.place(ctx.name)
        place.zero_().index_add_(0, ids, upstream.to(place.dtype))
        if ctx.padding_idx is not None:
            place[ctx.padding_idx].zero_()  # a text may have padding's own word in it, which never learns
        return (None,) * 5


def _plain_lookup(max_norm: float | None = None, scale_grad_by_freq: bool = False, **_: Any) -> bool:
    """Whether the lookup does nothing beside looking up."""
    return max_norm is None and not scale_grad_by_freq


def _write_product(a: torch.Tensor, b: torch.Tensor, place: torch.Tensor) -> None:
    """The product, summed and kept in the place's precision."""
    if a.is_cuda and a.dtype != place.dtype:
        torch.mm(a, b, out_dtype=place.dtype, out=place)
    else:
        place.copy_(a @ b)
