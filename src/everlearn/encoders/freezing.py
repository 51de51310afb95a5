"""Trains only the top of an encoder: the paper's A-GEM analysis (appendix A.6) fine-tunes the top two layers."""

from torch import nn

from everlearn.errors import UserError


def train_only_top(model: nn.Module, layers: int) -> None:
    """Freeze embeddings and all but the last `layers` layers; a pooler on top of them stays trained."""
    count = int(getattr(model.config, "num_hidden_layers", 0))
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    if not stacks:
        raise UserError("the layers of this encoder cannot be told apart: leave out --trained-layers.")
    if layers > count:
        raise UserError(f"the encoder has {count} layers, not {layers}: lower --trained-layers.")
    pooler = getattr(model, "pooler", None)
    model.requires_grad_(False)
    for part in (*list(stacks[0])[count - layers :], *([pooler] if layers and pooler is not None else [])):
        part.requires_grad_(True)
