"""The model card: what a model learned, when and from how much, in the form of the Hugging Face hub."""

from typing import TYPE_CHECKING, Any

import yaml

from everlearn import __version__

if TYPE_CHECKING:
    from everlearn.classifier.classifier import LifelongClassifier

BASE_MODELS = {"minilm": "sentence-transformers/all-MiniLM-L6-v2", "bert": "google-bert/bert-base-uncased"}

MOST_LABELS = 200
"""Labels that the card lists; the model itself knows all of them."""


def model_card(classifier: "LifelongClassifier") -> str:
    """The card as Markdown with a YAML head."""
    counts = classifier.counts_
    memory = classifier.learner_.memory
    params = classifier.params_
    encoder = BASE_MODELS.get(params["encoder"], params["encoder"])
    frozen = "as it is" if params["freeze_encoder"] else "trained along"
    lines = [
        "---",
        yaml.safe_dump(_head(classifier), sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        "",
        "# A text classifier that keeps learning",
        "",
        f"Made with everlearn {__version__}. It learned {classifier.examples_:,} examples with {len(counts):,} labels, "
        f"one after the other and each once, between {classifier.created_} and {classifier.updated_}.",
        "",
        f"- method: `{params['method']}`",
        f"- encoder: `{encoder}`, {frozen}",
        f"- memory: {len(memory):,} examples as token ids, from which the texts can be read: share the model only "
        "with those who may read them",
        "",
        "```python",
        "from everlearn import LifelongClassifier",
        "",
        "clf = LifelongClassifier.load(folder)",
        "clf.predict(texts)",
        "clf.partial_fit(more_texts, more_labels)",
        "```",
        "",
        "| label | examples learned |",
        "| :-- | --: |",
        *(f"| {_cell(label)} | {count:,} |" for label, count in list(counts.items())[:MOST_LABELS]),
    ]
    if len(counts) > MOST_LABELS:
        lines.append(f"| and {len(counts) - MOST_LABELS:,} more | |")
    if classifier.held_out_ and counts:
        measured = classifier.forgetting()
        lines += [
            "",
            f"Accuracy on {sum(measured.examples.values()):,} held-out examples: {measured.accuracy:.1%}; lost since "
            f"the best measured for each label: {measured.mean:.1%} on average.",
        ]
    return "\n".join(lines) + "\n"


def _head(classifier: "LifelongClassifier") -> dict[str, Any]:
    head: dict[str, Any] = {
        "library_name": "everlearn",
        "pipeline_tag": "text-classification",
        "tags": ["everlearn", "continual-learning", "lifelong-learning"],
    }
    if classifier.params_["encoder"] in BASE_MODELS:
        head["base_model"] = BASE_MODELS[classifier.params_["encoder"]]
    return head


def _cell(label: object) -> str:
    return " ".join(str(label).replace("|", "\\|").split())
