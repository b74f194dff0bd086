"""A browser, and a server on the loopback."""

import os
import shutil
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from checks import Looked
from playwright.sync_api import sync_playwright

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no other host can be asked
]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        """Say nothing: pytest shows what fails."""


@contextmanager
def served(folder):
    """Serve a folder and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session")
def serve():
    """A function that serves a folder until the tests end and returns its address."""
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(served(folder))


@pytest.fixture(scope="session")
def browser():
    """A Chromium: the one that CHROMIUM names, or the one that is installed."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), MAC)
    if not Path(program).exists():
        pytest.fail("no Chromium found: install one, or name its program in CHROMIUM")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def context(browser):
    """What a reader opens pages in."""
    browser_context = browser.new_context(reduced_motion="reduce")
    yield browser_context
    browser_context.close()


@pytest.fixture(scope="session")
def looked():
    """What is known of texts: what is the same elsewhere need not be looked at again."""
    return Looked()
