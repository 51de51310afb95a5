"""Attention in fp32 on CPUs, for encoders that compute in bf16: going back through it in bf16 takes far longer."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class AttentionInFp32(TorchFunctionMode):
    """While it is entered, attention whose gradients are wanted is computed in fp32 and handed on in bf16."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Pass everything else on."""
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and _gains(*args, **kwargs):
            wide = {name: _widened(value) for name, value in kwargs.items()}
            return func(*map(_widened, args), **wide).to(torch.bfloat16)
        return func(*args, **kwargs)


def _gains(query: torch.Tensor, *others: Any, **options: Any) -> bool:
    return query.dtype == torch.bfloat16 and query.requires_grad and torch.is_grad_enabled()


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 else value
