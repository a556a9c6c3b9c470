"""A web server for the page of one run, for the person at this machine alone.

It listens on 127.0.0.1, answers only requests whose path begins with a random token and whose Host is this machine
(other names that lead here are somebody else's page), and knows nothing but a fixed table of names: no path that a
client sends is ever looked up in the file system.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any

from dssl.errors import RunError
from dssl.explore.pages import TYPES, Content, assets, data_files, nearest_file
from dssl.explore.view import View

HOST = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Server(ThreadingHTTPServer):
    """The server of one view; it is listening once it is made.

    Args:
        view: what there is to show.
        port: where to listen; 0 is any free port.
    """

    daemon_threads = True

    def __init__(self, view: View, *, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._files: dict[str, Content] = {**assets()}
        self._files |= {f"data/{name}": content for name, content in data_files(view, per=1).items()}
        self._files[""] = self._files["index.html"]
        self._nodes = len(view.ids)
        self._nearest = lru_cache(maxsize=1024)(partial(nearest_file, view, per=1))
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "a port is a number from 0 to 65535"
            raise RunError(f"cannot listen on port {port} of {HOST}: {reason}; choose another --port") from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def content(self, name: str) -> Content | None:
        """The file of a name, or none if there is no such file."""
        block = re.fullmatch(r"data/nearest/(0|[1-9][0-9]{0,9})\.bin", name)
        if block is None:
            return self._files.get(name)
        number = int(block[1])
        return self._nearest(number) if number < self._nodes else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: a browser that goes away in the middle of an answer is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dssl", ""
    timeout = 60
    disable_nagle_algorithm = True  # an answer is two small writes, the second of which would wait for the first
    server: Server

    def do_GET(self) -> None:
        """Answer with a file of the page, or say in a line why not."""
        own = ([f"{name}:{self.server.server_port}"] for name in (HOST, "localhost"))
        if self.headers.get_all("Host", []) not in own:
            self._refuse(HTTPStatus.FORBIDDEN, "This server answers only to the address that it printed.")
            return
        token, slash, name = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "The token in the address is not the one that dssl explore printed.")
            return
        content = self.server.content(name) if slash else None
        if content is None:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
            return
        self._answer(HTTPStatus.OK, TYPES[PurePosixPath(name).suffix or ".html"], content)

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        self._answer(status, "text/plain; charset=utf-8", f"{words}\n".encode())

    def _answer(self, status: HTTPStatus, kind: str, content: Content) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print no line for each request."""


def serve(view: View, *, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve a page until it is interrupted.

    Args:
        view: what there is to show.
        port: where to listen; 0 is any free port.
        browser: whether to open the page.
        say: called with a line for the user.
    """
    with suppress(KeyboardInterrupt), Server(view, port=port) as server:
        say(f"{server.address} shows {view.name}, on this machine only; Ctrl-C ends it")
        if browser and _has_screen():
            webbrowser.open(server.address)
        server.serve_forever()
    say("stopped")


def _has_screen() -> bool:
    """Whether a browser would open in a window, and not in the terminal that waits for Ctrl-C."""
    linux = sys.platform.startswith("linux")
    return not linux or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
