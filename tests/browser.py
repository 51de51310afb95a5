"""A headless Chromium, where the machine has one."""

import subprocess
from pathlib import Path

from chromium import FLAGS, find_chromium

CHROMIUM = find_chromium()
MISSING = "no Chromium was found: the report's page is not tested in a browser (install `chromium` to do so)"
OPTIONS = [
    *FLAGS,
    *("--hide-scrollbars", "--enable-logging=stderr"),
    # A page that asks for anything from a network does not get it, and the log says so.
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


def _run(profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def dom(page: Path, profile: Path) -> tuple[str, list[str]]:
    """The page's elements after its scripts have run, and what its console says."""
    done = _run(profile, "--virtual-time-budget=5000", "--dump-dom", page.as_uri())
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def screenshot(page: Path, target: Path, profile: Path, dark: bool) -> None:
    """A picture of the top of the page."""
    scheme = ["--blink-settings=preferredColorScheme=0", "--force-dark-mode"] if dark else []
    _run(profile, *scheme, "--window-size=1200,1600", f"--screenshot={target}", page.as_uri())
