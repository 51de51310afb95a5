"""The tasks and classes of the stream `docstrings`: where their source files lie, which names are masked in them."""

import re
import sysconfig
from dataclasses import dataclass
from fnmatch import translate
from importlib.util import find_spec
from pathlib import Path

from everlearn.errors import UserError

MASK = "[…]"

SKIPPED_FOLDERS = frozenset({"tests", "test", "testing", "externals", "site-packages"})
"""Folders whose docstrings are about something other than the area they lie in."""

_TEST_FILE = re.compile("test|tstutils")


@dataclass(frozen=True)
class Area:
    """One class: the modules its texts are read from, as paths below the package's folder (`*` is a wildcard)."""

    label: str
    modules: tuple[str, ...]


@dataclass(frozen=True)
class TaskSource:
    """One task: a package (no name: the standard library), what to install to have it, and its areas."""

    name: str
    package: str
    distribution: str
    areas: tuple[Area, ...]


def _task(name: str, package: str, distribution: str, areas: dict[str, str]) -> TaskSource:
    return TaskSource(
        name, package, distribution, tuple(Area(f"{name}.{area}", tuple(m.split())) for area, m in areas.items())
    )


TASKS: tuple[TaskSource, ...] = (
    _task(
        "scipy",
        "scipy",
        "scipy",
        {
            "stats": "stats",
            "signal": "signal",
            "optimize": "optimize",
            "sparse": "sparse",
            "special": "special",
        },
    ),
    _task(
        "sklearn",
        "sklearn",
        "scikit-learn",
        {
            "linear_model": "linear_model svm isotonic kernel_ridge discriminant_analysis",
            "ensemble": "ensemble tree",
            "metrics": "metrics",
            "cluster": "cluster mixture",
            "preprocessing": "preprocessing impute feature_extraction",
        },
    ),
    _task(
        "torch",
        "torch",
        "torch",
        {
            "nn": "nn/modules nn/functional nn/init",
            "distributed": "distributed/distributed_c10d distributed/checkpoint distributed/elastic distributed/fsdp",
            "distributions": "distributions",
            "fx": "fx/graph* fx/node fx/proxy fx/interpreter fx/subgraph_rewriter fx/_symbolic_trace fx/passes",
            "tensor": "_tensor _tensor_docs _torch_docs functional",
        },
    ),
    _task(
        "transformers",
        "transformers",
        "transformers",
        {
            "generation": "generation",
            "trainer": "trainer* training_args* optimization data",
            "tokenization": "tokenization_* convert_slow_tokenizer models/*/tokenization_*",
            "attention": "cache_utils masking_utils modeling_flash_* modeling_rope_* integrations/*attention*",
            "processing": "image_* video_* vision_utils audio_utils feature_extraction_* processing_utils",
        },
    ),
    _task(
        "stdlib",
        "",
        "",
        {
            "network": "http urllib socket ssl ftplib smtplib imaplib poplib socketserver xmlrpc wsgiref ipaddress",
            "concurrency": "asyncio threading multiprocessing concurrent queue selectors subprocess sched",
            "files": "pathlib shutil tarfile zipfile gzip bz2 lzma tempfile os posixpath glob fnmatch filecmp _pyio",
            "text": "json csv xml html re string textwrap difflib codecs configparser shlex tokenize plistlib",
            "maths": "_pydecimal fractions statistics datetime _pydatetime calendar random numbers heapq bisect",
        },
    ),
)

_PACKAGE_WORD = re.compile(
    r"\b(?:\w*(?:torch|scipy|sklearn|numpy)\w*|scikit[- _]learn|transformers|hugging ?face|hf|stdlib"
    r"|standard library)\b",
    re.IGNORECASE,
)
_MODULE_WORDS = (
    "linear_model feature_extraction stats nn fx FX asyncio multiprocessing urllib ftplib smtplib imaplib poplib "
    "socketserver xmlrpc wsgiref ipaddress pathlib shutil tarfile zipfile bz2 lzma tempfile posixpath fnmatch filecmp "
    "textwrap difflib configparser shlex plistlib heapq"
)
"""Names of modules that are not words of English or names of formats and protocols: nobody says them otherwise."""
_MODULE_WORD = re.compile(rf"\b(?:{'|'.join(f'{word}|{word.capitalize()}' for word in _MODULE_WORDS.split())})\b")
_DOTTED_NAME = re.compile(r"(?<![\w.])~?(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*")
_MODULE_NAMES = {part for task in TASKS for area in task.areas for path in area.modules for part in path.split("/")}
# Beside the modules: usual short names of packages, and the ending of a file name, which is all that would stay of it.
_QUALIFIER_PATTERNS = {"np", "sp", "F", "nn", "py"} | {name for name in _MODULE_NAMES if not name.startswith("*")}
_QUALIFIER = re.compile("|".join(map(translate, sorted(_QUALIFIER_PATTERNS))))


def mask(text: str) -> str:
    """Hide the names that give a label away; words of English that merely hint at it stay.

    >>> mask("Like `scipy.signal.lfilter` and signal.firwin, SciPy filters a signal.")
    'Like `lfilter` and firwin, […] filters a signal.'
    >>> mask("See torch.nn or asyncio.")
    'See […] or […].'
    """
    text = _DOTTED_NAME.sub(_unqualified, text)
    text = _MODULE_WORD.sub(MASK, _PACKAGE_WORD.sub(MASK, text))
    return re.sub(rf"{re.escape(MASK)}(?:[ .]{re.escape(MASK)})+", MASK, text)


def _unqualified(name: re.Match[str]) -> str:
    """The last part of a name that a package or a module qualifies; other dotted names stay as they are."""
    *qualifiers, last = name[0].lstrip("~").split(".")
    if not any(_QUALIFIER.fullmatch(part) or _PACKAGE_WORD.fullmatch(part) for part in qualifiers):
        return name[0]
    return MASK if _QUALIFIER.fullmatch(last) else last


def package_folder(task: TaskSource) -> Path:
    """The folder of the task's package, found without importing it."""
    if not task.package:
        return Path(sysconfig.get_paths()["stdlib"])
    spec = find_spec(task.package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            f"the stream 'docstrings' reads the source of '{task.package}', which is not installed: "
            f"run `pip install {task.distribution}`."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def source_files(folder: Path, area: Area) -> list[Path]:
    """The area's Python files, in an order that does not depend on the file system."""
    found = {
        path
        for module in area.modules
        for pattern in (f"{module}.py", f"{module}/**/*.py")
        for path in folder.glob(pattern)
        if SKIPPED_FOLDERS.isdisjoint(path.relative_to(folder).parts) and not _TEST_FILE.search(path.name)
    }
    return sorted(found)
