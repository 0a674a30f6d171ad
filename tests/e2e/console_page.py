"""The console in a real browser, for tests of what it shows."""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.stack import HANGS_SECONDS, Stack, eventually
from tests.e2e.test_admin import admin_key

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE: Final = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>\'"&\u202e\x1b[31m'
_WATCH: Final = """window.broken = [];
document.addEventListener('securitypolicyviolation', event => window.broken.push(event.blockedURI));"""

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where its driver is missing."""
    playwright: Any = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        started = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


class Console:
    """A page of its own, and what went wrong in it."""

    def __init__(self, browser: Any, site: Stack, width: int = 1440, scheme: str = "light") -> None:
        self.site = site
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * HANGS_SECONDS)
        self.problems: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.add_init_script(_WATCH)

    def _said(self, message: Any) -> None:
        # What a browser says of every answer that is not 200, and of a server that is gone, is no mistake of the page.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.problems.append(message.text)

    def open(self) -> Any:
        self.page.goto(f"http://127.0.0.1:{self.site.admin_port}/console")
        return self.page

    def enter(self, key: str) -> None:
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.keyboard.press("Enter")

    def live(self) -> Any:
        self.open()
        self.enter(admin_key(self.site))
        self.page.wait_for_selector("#link[data-state=live]")
        return self.page

    def until(self, holds: str) -> None:
        """Wait until an expression is true. Playwright's own way evaluates text, which the page forbids."""
        eventually(lambda: bool(self.page.evaluate(holds) or self.page.wait_for_timeout(50)), holds)

    def tile(self, name: str) -> Any:
        return self.page.locator(".tile", has=self.page.get_by_text(name, exact=True))

    def close(self) -> None:
        broken = self.page.evaluate("window.broken")
        self.context.close()
        assert (self.problems, broken) == ([], [])
