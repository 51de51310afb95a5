"""One dropout for a whole model, whatever its configuration calls its own."""

from typing import Any

from torch import nn

# Names under which the configurations of Hugging Face models keep their dropout. Attention mostly reads them itself,
# without a module that could be found afterwards.
_FIELDS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "dropout_rate",
    "attention_dropout",
    "activation_dropout",
    "hidden_dropout",
    "embedding_dropout",
    "embed_dropout",
    "mlp_dropout",
    "resid_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
)


def set_in_settings(settings: Any, dropout: float) -> None:
    """Let a model that is built from this configuration have this dropout, as far as the names are known."""
    for name in _FIELDS:
        if isinstance(getattr(settings, name, None), float):
            setattr(settings, name, dropout)


def set_in_model(model: nn.Module, dropout: float) -> None:
    """Let every dropout module have it, by whatever name the model took it from its configuration."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
