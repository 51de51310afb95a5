"""From an encoder to the causal language model it is the body of, for methods that write texts."""

from typing import TYPE_CHECKING

import torch

from everlearn.encoders.encoder import Encoder
from everlearn.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Names under which the configurations of causal language models keep their dropout.
_DROPOUT_FIELDS = ("resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout", "dropout")


def load_causal(encoder: Encoder) -> "PreTrainedModel":
    """The whole model, with its output layer, from where the encoder came; without dropout, on the same device."""
    name = getattr(encoder.skeleton.model, "name_or_path", "")
    if not name or not _is_causal(encoder):
        raise UserError(
            "this method writes texts, and the encoder cannot: pass a causal language model with --encoder, such as "
            "openai-community/gpt2 or a folder that holds one."
        )
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = AutoConfig.from_pretrained(name)
    for field in _DROPOUT_FIELDS:
        if isinstance(getattr(settings, field, None), float):
            setattr(settings, field, 0.0)
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(name, config=settings, dtype=torch.float32)
    model.to(encoder.device)  # type: ignore[arg-type]
    return model


@torch.no_grad()
def _is_causal(encoder: Encoder) -> bool:
    """Whether what comes later leaves no trace in what came before."""
    model = encoder.whole_model().eval()
    one, other = (
        model(input_ids=torch.tensor([[1, later]], device=encoder.device)).last_hidden_state[0, 0] for later in (2, 3)
    )
    return bool(torch.allclose(one, other, atol=1e-6))
