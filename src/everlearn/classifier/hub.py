"""Putting a model on the Hugging Face hub; needs the extra `hub`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from everlearn.classifier import storage
from everlearn.errors import UserError

if TYPE_CHECKING:
    from everlearn.classifier.classifier import LifelongClassifier


def push(classifier: "LifelongClassifier", name: str, private: bool) -> str:
    """Upload the model's files as the repository `owner/name`; its address."""
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise UserError("the hub needs one more package: run `pip install 'everlearn[hub]'`.") from error
    api = HfApi()
    with tempfile.TemporaryDirectory() as folder:
        storage.save(classifier, Path(folder) / "model")
        try:
            address = api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=name,
                folder_path=Path(folder) / "model",
                allow_patterns=list(storage.SHARED),
                commit_message=f"{classifier.examples_:,} examples learned",
            )
        except Exception as error:  # the client lets errors of several libraries through, network errors among them
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(f"the model could not be put on the hub as {name}: {reason}.") from error
    return str(address)
