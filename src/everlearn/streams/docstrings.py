"""The embedded stream: English prose from the docstrings of packages that are on every machine this one runs on."""

import ast
import inspect
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from everlearn.errors import UserError
from everlearn.examples import Example
from everlearn.streams import orders
from everlearn.streams.base import Benchmark, StreamConfig, Task
from everlearn.streams.docstring_areas import TASKS, mask, package_folder, source_files
from everlearn.streams.sampling import check_sizes

DESCRIPTION = (
    "first paragraphs of docstrings from SciPy, scikit-learn, PyTorch, transformers and the standard library: "
    "5 tasks, 25 classes, nothing to download"
)
TASK_NAMES = tuple(task.name for task in TASKS)
LABELS = tuple(area.label for task in TASKS for area in task.areas)
ORDERS = {
    "1": ("scipy", "transformers", "stdlib", "sklearn", "torch"),
    "2": ("torch", "sklearn", "stdlib", "transformers", "scipy"),
    "3": ("stdlib", "scipy", "torch", "transformers", "sklearn"),
    "4": ("sklearn", "torch", "transformers", "scipy", "stdlib"),
}
SPLITS = ("train", "validation", "test")
TEXTS_PER_CLASS = {"train": 80, "validation": 20, "test": 20}
"""How many texts of a class each split holds unless the user asks for another size (fewer where there are fewer)."""
FEWEST_TEXTS = 50
"""With fewer, a class could be missing from a split: the installed package is not what it should be."""
HELD_OUT_SHARE = 0.17
"""Share of all texts that goes to validation, and again to test."""
MIN_WORDS, MAX_WORDS = 8, 80
NEAR_DUPLICATE = 0.6
"""Two texts that share this much of their word triples (Jaccard) say the same."""

Pool = dict[str, dict[str, list[str]]]
"""Texts by label and split, in a fixed order."""

# Where the opening prose ends: sections, fields, doctests, lists, directives, underlined titles.
_END_OF_PROSE = re.compile(
    r"""^[ \t]*(?:
        (?:parameters?|params|arguments?|args|returns?|yields?|raises|warns|examples?|notes?|references|see\ also|
           attributes|methods|warnings?|usage|shape|inputs?|outputs?|keyword\ arg\w*)[ \t]*:{0,2}[ \t]*$
        | (?:args|arguments|parameters|returns?|raises|yields|note|example)[ \t]*:
        | :(?:param|parameter|arg|type|returns?|rtype|raises?|ivar|cvar|var)\b
        | @\w+ | >>> | \.\.[ ] | [-*+•][ ] | \d+[.)][ ]
        | [^\n]+\n[ \t]*[-=~^]{3,}[ \t]*$
    )
    | (?<=[.][ ])(?:args|returns?|raises):""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_SIGNATURE = re.compile(r"[\w.\s=,]*\(.*\)(?:\s*->.*)?[.:]?", re.DOTALL)
_TEMPLATE = re.compile(r"%\(\w+\)|%[sdr]\b|\{\w*\}|\{\{")
_MARKUP = (
    (re.compile(r":[a-zA-Z][\w:+-]*:`[~!]?([^`<]*?)(?:\s*<[^`]*>)?`"), r"\1"),
    (re.compile(r"`([^`<]+?)\s*<[^`]*>`_*|\[([^\]]+)\]\([^)\s]+\)|\[`~?([\w.]+)`\]"), r"\1\2\3"),
    (re.compile(r"<?\b(?:https?|ftp)://[^\s>)]+>?|\[\w+\]_"), ""),
    (re.compile(r"`+(?:_+(?!\w))?|(?<![\w)*])\*{1,2}(?=\w)|(?<=\w)\*{1,2}(?![\w(*])"), ""),
    (re.compile(r"\s\((?:[Ss]ee)?\s*\)"), ""),
    (re.compile(r"\s*:+\s*$"), "."),
    (re.compile(r"\s+(?=[.,;]\s)|\s+(?=[.,;]$)"), ""),
)
_PLAIN_WORD = re.compile(r"[\"'(\[]*[A-Za-z][a-z]*(?:[-'/][A-Za-z]?[a-z]+)*[\"')\],.;:!?]*")
_FUNCTION_WORD = re.compile(
    "(?:an?|and|are|as|at|be|by|for|from|if|in|is|it|of|on|or|that|the|this|to|when|with)", re.I
)


def load(config: StreamConfig) -> Benchmark:
    """The benchmark, its tasks in the order asked for; label numbers do not depend on the order."""
    names = orders.choose(config.order, ORDERS, TASK_NAMES)
    check_sizes(config)
    sizes = {"train": config.train_size, "validation": config.val_size, "test": config.test_size}
    tasks = (Task(name, *(_examples(name, split, sizes[split]) for split in SPLITS)) for name in names)
    return Benchmark(name="docstrings", labels=LABELS, tasks=tuple(tasks))


def _examples(task: str, split: str, size: int | None) -> list[Example]:
    """The task's texts, classes taking turns, so that any number of them is as balanced as it can be."""
    turns = sorted(
        (turn, LABELS.index(label), text)
        for label, splits in _pool().items()
        if label.startswith(f"{task}.")
        for turn, text in enumerate(splits[split])
    )
    if size is None:
        turns = [entry for entry in turns if entry[0] < TEXTS_PER_CLASS[split]]
    elif size > len(turns):
        option = {"train": "--train-size", "validation": "--val-size", "test": "--test-size"}[split]
        raise UserError(f"the task '{task}' has {len(turns)} {split} examples, too few for {option} {size}: lower it.")
    return [Example(text, label) for _, label, text in turns[:size]]


@cache
def _pool() -> Pool:
    """All texts, without near-duplicates, split; the same on every call, whatever the run's seed."""
    labels_of: dict[str, set[str]] = defaultdict(set)
    for task in TASKS:
        folder = package_folder(task)
        for area in task.areas:
            files = source_files(folder, area)
            texts = {_opening_prose(docstring) for path in files for docstring in _docstrings(path.read_bytes())} - {""}
            if len(texts) < FEWEST_TEXTS:
                raise UserError(
                    f"only {len(texts)} docstrings for the class '{area.label}' were found in {folder}: "
                    f"install {task.distribution or 'Python'} with its source files."
                )
            for text in texts:
                labels_of[text].add(area.label)
    pool: Pool = {label: {split: [] for split in SPLITS} for label in LABELS}
    # Sorting by digest makes the order, and which of several near-duplicates stays, independent of the files' order.
    for group in _near_duplicates(sorted(labels_of, key=lambda text: (_digest(text), text))):
        labels = set().union(*(labels_of[text] for text in group))
        if len(labels) == 1:
            pool[labels.pop()][_split(group[0])].append(group[0])
    return pool


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _digest(text: str) -> bytes:
    return blake2b(" ".join(_words(text)).encode(), digest_size=16, person=b"docstrings").digest()


def _split(text: str) -> str:
    """The split is a property of the text alone, so that it survives new versions of the packages."""
    position = int.from_bytes(_digest(text)[-8:]) / 2**64
    return "test" if position < HELD_OUT_SHARE else "validation" if position < 2 * HELD_OUT_SHARE else "train"


def _near_duplicates(texts: Sequence[str]) -> list[list[str]]:
    """The texts in groups: near-duplicates of near-duplicates belong together, most groups have one member."""
    columns: dict[tuple[str, ...], int] = {}
    entries = [
        (row, columns.setdefault(triple, len(columns)))
        for row, words in enumerate(map(_words, texts))
        for triple in dict.fromkeys(zip(words, words[1:], words[2:], strict=False))
    ]
    shape = (len(texts), len(columns))
    contains = csr_array((np.ones(len(entries), dtype=np.int32), tuple(zip(*entries, strict=True))), shape=shape)
    shared = (contains @ contains.T).tocoo()
    row, column = shared.coords
    triples = contains.sum(axis=1)
    near = shared.data >= NEAR_DUPLICATE * (triples[row] + triples[column] - shared.data)
    pairs = csr_array((shared.data[near], (row[near], column[near])), shape=shared.shape)
    groups: dict[int, list[str]] = defaultdict(list)
    for text, group in zip(texts, connected_components(pairs, directed=False)[1], strict=True):
        groups[int(group)].append(text)
    return list(groups.values())


def _docstrings(source: bytes) -> Iterator[str]:
    """The docstrings in a file, with those that SciPy and PyTorch attach by a call; none if it does not parse."""
    try:
        with warnings.catch_warnings():
            # Other people's code may hold escapes that Python warns about; the user can do nothing about them.
            warnings.simplefilter("ignore")
            waiting: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError):
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""
        elif isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
            yield from _attached_docstring(node.value)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))


def _attached_docstring(call: ast.Call) -> Iterator[str]:
    """The text in a call such as `add_docstr(torch.abs, "..." + more)`: the first literal of its last argument."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.lstrip("_").startswith(("add_newdoc", "add_docstr")) and call.args:
        literals = (node.value for node in ast.walk(call.args[-1]) if isinstance(node, ast.Constant))
        yield from (inspect.cleandoc(value) for value in [next(literals, "")] if isinstance(value, str))


def _opening_prose(docstring: str) -> str:
    """The first paragraph as plain masked text, with the next ones while it is too short; empty if it is not prose."""
    end = _END_OF_PROSE.search(docstring)
    text = ""
    for paragraph in re.split(r"\n[ \t]*\n", docstring[: end.start()] if end else docstring):
        if _SIGNATURE.fullmatch(paragraph.strip()) and not text:
            continue
        if _TEMPLATE.search(paragraph) or not paragraph[:1].isalnum() or len(text.split()) >= MIN_WORDS:
            break
        text = f"{text} {_plain(paragraph)}".lstrip()
    text = mask(_first_sentences(text))
    words = text.split()
    plain = sum(_PLAIN_WORD.fullmatch(word) is not None for word in words)
    function_words = sum(_FUNCTION_WORD.fullmatch(word) is not None for word in words)
    return text if len(words) >= MIN_WORDS and plain >= 0.75 * len(words) and function_words >= 2 else ""


def _plain(paragraph: str) -> str:
    """The paragraph on one line, without markup, links and references, ended with a full stop.

    >>> _plain("Solve ``a x = b`` with :func:`~scipy.linalg.solve` [1]_")
    'Solve a x = b with scipy.linalg.solve.'
    """
    for pattern, replacement in _MARKUP:
        paragraph = pattern.sub(replacement, paragraph)
    line = " ".join(paragraph.split())
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _first_sentences(text: str) -> str:
    """As many whole sentences as fit the longest text allowed.

    >>> _first_sentences("One sentence. " + "word " * 80)
    'One sentence.'
    """
    kept: list[str] = []
    for sentence in re.split(r"(?<=[.!?]) ", text):
        if len(" ".join([*kept, sentence]).split()) > MAX_WORDS:
            break
        kept.append(sentence)
    return " ".join(kept)
