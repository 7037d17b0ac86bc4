"""Debian's headless Chromium for tests: opens a page, uses it like a user, and reads what it shows."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.checkers.node import PACKAGES
from tests.checkers.tools import require, unavailable

DRIVER = Path(__file__).with_name("browser.mjs")


class BrowserError(Exception):
    """The browser could not do what the test asked for."""


class Page:
    """The open page. Selectors are Playwright's: CSS, `text=…`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def open(
        self, url: str, *, width: int = 1280, height: int = 900, scheme: str = "light", touch: bool = False
    ) -> None:
        """Opens `url` with nothing kept of the page before, its storage included."""
        self._ask(do="open", url=url, width=width, height=height, scheme=scheme, touch=touch)

    def reload(self) -> None:
        """Reloads the page; its storage is kept."""
        self._call("reload")

    def fill(self, selector: str, text: str) -> None:
        """Replaces the text of a field by `text`."""
        self._call("fill", selector, text)

    def choose(self, selector: str, value: str) -> None:
        """Chooses the option with the value `value`."""
        self._call("selectOption", selector, value)

    def click(self, selector: str) -> None:
        """Clicks the element, which must be visible and enabled."""
        self._call("click", selector)

    def press(self, *keys: str) -> None:
        """Presses keys one after the other, wherever the focus is."""
        for key in keys:
            self._ask(do="key", method="press", given=[key])

    def type(self, text: str) -> None:
        """Types `text` wherever the focus is."""
        self._ask(do="key", method="type", given=[text])

    def text(self, selector: str) -> str:
        """The visible text of an element."""
        return str(self._call("innerText", selector))

    def wait(self, selector: str) -> None:
        """Waits until there is such an element, visible or not."""
        self._call("waitForSelector", selector, {"state": "attached"})

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self._call("evaluate", script)

    def violations(self) -> list[str]:
        """What axe finds on the page as it is: each rule that is violated, with an element that violates it."""
        self.run(f"{(PACKAGES / 'axe-core/axe.min.js').read_text('utf-8')};0")
        found = "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations"
        return list(self.run(f"{found}.map(({{id, nodes}}) => `${{id}}: ${{nodes[0].html}}`))"))

    def screenshot(self, path: Path) -> None:
        """Writes a screenshot of the whole page."""
        self._call("screenshot", {"path": str(path), "fullPage": True})

    @property
    def focus(self) -> str:
        """The id of the element that has the focus, else its label, else its text."""
        return str(
            self.run("(e => e.id || e.getAttribute('aria-label') || e.value || e.textContent)(document.activeElement)")
        )

    @property
    def seen(self) -> dict[str, list[str]]:
        """The messages of the page on its console, and the addresses that it requested."""
        found: dict[str, list[str]] = self._ask(do="seen")
        return found

    @property
    def seconds(self) -> float:
        """The seconds of a processor that the process of the page has used."""
        return float(self._ask(do="seconds"))

    def _call(self, method: str, *given: object) -> Any:
        return self._ask(do="call", method=method, given=given)

    def _ask(self, **command: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the browser is gone"}
        if "error" in answer:
            raise BrowserError(answer["error"])
        return answer["value"]


@contextmanager
def browser() -> Iterator[Page]:
    """A browser with one page, which `Page.open` opens again."""
    if not (PACKAGES / "playwright-core").is_dir():
        unavailable("the browser's npm package is not installed: (cd tests/checkers && npm ci)")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [require("node"), str(DRIVER), require("chromium"), *sandbox]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, encoding="utf-8") as process:
        yield Page(process)
