"""Drives a headless Chromium through its DevTools protocol: just enough for the tests of the page."""

import base64
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """The browser on this machine, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """A browser with one page; a context manager."""

    def __init__(self, program: str, profile: Path) -> None:
        self._process = subprocess.Popen(
            [program, *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._numbers = itertools.count(1)
        self.messages: list[str] = []
        """What the page complained about: errors, and files it may not load."""
        self._open = ExitStack()
        self._page: ClientConnection = self._open.enter_context(
            connect(self._address(profile), max_size=None, open_timeout=30)
        )
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait(20)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command, and its result."""
        number = next(self._numbers)
        self._page.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._page.recv(timeout=30))
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            if message.get("method") == "Runtime.exceptionThrown":
                self.messages.append(json.dumps(message["params"]["exceptionDetails"]))
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.messages.append(message["params"]["entry"]["text"])

    def open(self, address: str) -> None:
        """Go to an address and wait until it is there."""
        self.send("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, condition: str, seconds: float = 20) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never true: {condition}\n{self.run('document.body.innerText')}"
            time.sleep(0.05)

    def fill(self, field: str, text: str) -> None:
        """Type into a field, key by key as far as the page can tell."""
        self.run(f"document.getElementById({json.dumps(field)}).select()")
        self.run(f"document.getElementById({json.dumps(field)}).focus()")
        self.send("Input.insertText", text=text)

    def press_enter(self) -> None:
        """The key, wherever the focus is."""
        self._press("Enter", 13, text="\r")

    def press_tab(self) -> None:
        """On to what has the focus next."""
        self._press("Tab", 9)

    def _press(self, key: str, number: int, **more: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number, **more)

    def look_like(self, width: int, height: int, phone: bool = False, dark: bool = False) -> None:
        """Take the shape of a device and its colours."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG file."""
        taken = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _address(self, profile: Path) -> str:
        end = time.monotonic() + 60
        port_file = profile / "DevToolsActivePort"
        while time.monotonic() < end:
            if port_file.exists() and (content := port_file.read_text().splitlines()):
                with urllib.request.urlopen(f"http://127.0.0.1:{content[0]}/json/list", timeout=10) as answer:
                    pages = [target for target in json.load(answer) if target["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            assert self._process.poll() is None, "the browser ended"
            time.sleep(0.1)
        raise AssertionError("the browser did not start")
