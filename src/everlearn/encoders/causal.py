"""From an encoder to the causal language model it is the body of, for methods that write texts."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from everlearn.encoders import dropout
from everlearn.encoders.encoder import Encoder
from everlearn.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_causal(encoder: Encoder) -> "PreTrainedModel":
    """The whole model, with its output layer, from where the encoder came; with its dropout, on the same device."""
    name = getattr(encoder.skeleton.model, "name_or_path", "")
    if not name or not is_causal(encoder.whole_model()):
        raise UserError(
            "this method writes texts, and the encoder cannot: pass a causal language model with --encoder, such as "
            "openai-community/gpt2 or a folder that holds one."
        )
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    settings = AutoConfig.from_pretrained(name)
    dropout.set_in_settings(settings, encoder.dropout)
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        name, config=settings, dtype=torch.float32, use_safetensors=True
    )
    dropout.set_in_model(model, encoder.dropout)
    # Checkpoints come with penalties, temperatures and cut-offs of their own, which nobody here has asked for.
    model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
    model.to(encoder.device)  # type: ignore[arg-type]
    return model


@torch.no_grad()
def is_causal(model: nn.Module) -> bool:
    """Whether what comes later leaves no trace in what came before."""
    if getattr(model.config, "is_encoder_decoder", False):
        return False  # its encoder reads everything before a first word is said
    device, training = next(model.parameters()).device, model.training
    model.eval()
    one, other = (
        model(input_ids=torch.tensor([[1, later]], device=device)).last_hidden_state[0, 0] for later in (2, 3)
    )
    model.train(training)
    return bool(torch.allclose(one, other, atol=1e-6))
