"""Linear layers on CPUs where PyTorch's default library for fp32 products leaves half of the processor idle.

On x86, PyTorch multiplies fp32 matrices with Intel's MKL, which takes its older, narrower instructions on processors of
other makers. oneDNN, which comes with PyTorch too, takes the wide ones everywhere: about twice as fast there, and equal
but for rounding.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

WIDE = ("AVX512", "AVX512_VNNI", "AMX")
"""What PyTorch calls processors with the instructions that make the difference."""
PROCESSOR = Path("/proc/cpuinfo")
ROUNDING = 1e-5
WIDE_ENOUGH = 128
"""Through narrower encoders the detour takes longer than it saves."""


@cache
def helps() -> bool:
    """Whether this processor gains by it."""
    if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return False
    if torch.backends.cpu.get_cpu_capability() not in WIDE or "AuthenticAMD" not in _processor():
        return False
    return works()


@cache
def works() -> bool:
    """Whether this PyTorch has the product, under the name it is called by here, and it is right."""
    numbers = torch.linspace(-1, 1, 7 * 16)  # not drawn: nobody's random numbers move
    rows, weight, bias = numbers.view(7, 16), numbers[: 5 * 16].view(5, 16).sin(), numbers[:5]
    try:
        found = _product(rows, weight, bias)
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(found, torch.nn.functional.linear(rows, weight, bias), atol=ROUNDING, rtol=ROUNDING)


class LinearByOneDnn(TorchFunctionMode):
    """While it is entered, fp32 linear layers of this thread go through oneDNN, forward and backward."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Pass everything else on."""
        if func is torch.nn.functional.linear and not kwargs and _fits(*args[:2]):
            return _Linear.apply(args[0], args[1], args[2] if len(args) > 2 else None)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(rows, weight)
        return _product(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        flat = gradient.reshape(-1, gradient.shape[-1])
        return (
            _product(gradient, weight.T) if of_rows else None,
            _product(flat.T, rows.reshape(-1, rows.shape[-1]).T) if of_weight else None,
            flat.sum(dim=0) if of_bias else None,
        )


def _fits(rows: torch.Tensor, weight: torch.Tensor) -> bool:
    return rows.dtype == weight.dtype == torch.float32 and weight.dim() == 2 and rows.numel() > 0


def _product(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """rows · weightᵀ + bias."""
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


def _processor() -> str:
    try:
        return PROCESSOR.read_text(errors="replace")[:4096]
    except OSError:
        return ""
