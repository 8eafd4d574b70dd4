"""A real browser for the tests of the report: Debian's chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]
VIOLATIONS = (
    "window.violations = []; addEventListener('securitypolicyviolation', (event) => "
    "violations.push(event.violatedDirective));"
)


def executable() -> str:
    """The browser that WEFT_BROWSER names, or the first one of those that are usual; without one,
    tests are skipped or fail.
    """
    named = os.environ.get("WEFT_BROWSER")
    found = next(filter(None, map(shutil.which, [named] if named else BROWSERS)), None)
    if found is None:
        missing = (
            f"no browser: {named or ', '.join(BROWSERS)}; install chromium, or name a browser in "
            f"WEFT_BROWSER"
        )
        if os.environ.get("WEFT_REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@contextmanager
def launched() -> Iterator:
    """A browser without a window."""
    path = executable()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def open_page(browser, *, width: int = 1280, **options):
    """A new page: its context, the page, the addresses that it requests, and what it logs."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(30_000)  # on a busy machine
    page = context.new_page()
    requested, logged = [], []
    page.on("request", lambda request: requested.append(request.url))
    page.on("console", lambda message: logged.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: logged.append(f"error: {error}"))
    return context, page, requested, logged


@contextmanager
def opened(
    browser, file: Path, *, width: int = 1280, before: str = "", says: str | None = None, **options
) -> Iterator:
    """The page in a file, with all charts drawn.

    It may request nothing but itself, violate no policy, and log nothing; or one thing that begins
    with `says`."""
    context, page, requested, said = open_page(browser, width=width, **options)
    page.add_init_script(VIOLATIONS + before)
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-charts=drawn]", state="attached")
    yield page
    violations = page.evaluate("violations")
    context.close()
    assert requested == [file.as_uri()], f"requested: {requested}"
    expected = not said if says is None else len(said) == 1 and said[0].startswith(says)
    assert expected, f"the console says: {said}"
    assert not violations, f"violated: {violations}"
