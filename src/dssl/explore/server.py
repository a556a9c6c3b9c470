"""A web server for the page of one run, for the user of this machine alone.

It listens on 127.0.0.1. It answers only requests whose path begins with a random token and whose Host is this machine:
other host names belong to other pages. Files come from a fixed table of names, and no path of a request reaches the
file system. Requests are GET, complete within ten seconds, and at most 32 are served at a time.
"""

from __future__ import annotations

import hmac
import io
import os
import re
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from threading import BoundedSemaphore
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


SECONDS = 10.0  # from the start of a connection, or the end of an answer, to the end of the next request
CONNECTIONS = 32
GET = b"GET "
LONGEST = 1 << 16  # bytes of the first line of a request


class Server(ThreadingHTTPServer):
    """The server of one view; it listens from its construction on.

    Args:
        view: the content of the page.
        port: the port to listen on; 0 is any free port.
    """

    daemon_threads = True
    seconds = SECONDS

    def __init__(self, view: View, *, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._files: dict[str, Content] = {**assets()}
        self._files |= {f"data/{name}": content for name, content in data_files(view, per=1).items()}
        self._files[""] = self._files["index.html"]
        self._nodes = len(view.ids)
        self._free = BoundedSemaphore(CONNECTIONS)
        self._nearest = lru_cache(maxsize=1024)(partial(nearest_file, view, per=1))
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "a port is a number from 0 to 65535"
            raise RunError(f"cannot listen on port {port} of {HOST}: {reason}; choose another --port") from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a separate thread, or close it if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def content(self, name: str) -> Content | None:
        """The file of a name, or none."""
        block = re.fullmatch(r"data/nearest/(0|[1-9][0-9]{0,9})\.bin", name)
        if block is None:
            return self._files.get(name)
        number = int(block[1])
        return self._nearest(number) if number < self._nodes else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a browser may close a connection at any time."""


class _Reader(io.RawIOBase):
    """The bytes of a connection, until the deadline of the request: a slow client cannot hold a thread by single bytes.

    Args:
        connection: the socket.
        seconds: time for a request.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self.connection, self.seconds = connection, seconds
        self.begin()

    def begin(self) -> None:
        """Give the next request its time."""
        self.deadline = time.monotonic() + self.seconds

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes, or time out."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self.connection.settimeout(left)
        return self.connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dssl", ""
    disable_nagle_algorithm = True  # an answer is two small writes, the second of which would wait for the first
    server: Server

    def setup(self) -> None:
        """Read requests up to a deadline."""
        super().setup()
        self._reader = _Reader(self.connection, self.server.seconds)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Answer a request; any method but GET is refused before the rest of the request is read."""
        self.close_connection = True
        self._reader.begin()
        try:
            start = self.rfile.read(len(GET))
            if not start:
                return
            if start != GET:
                self.requestline, self.request_version = "", self.protocol_version
                self._refuse(HTTPStatus.NOT_IMPLEMENTED, "This server answers GET requests only.")
                self._drain()
                return
            self.raw_requestline = start + self.rfile.readline(LONGEST)
            if self.parse_request():
                self.do_GET()
        except TimeoutError:
            self.close_connection = True

    def _drain(self) -> None:
        """Read a refused request to its end: a connection that is closed before is reset, and the answer lost."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            for _ in range(16):
                if not self.rfile.read1(LONGEST):
                    break

    def do_GET(self) -> None:
        """Answer with a file of the page, or with a line that gives the reason."""
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
        self.connection.settimeout(6 * self.server.seconds)  # for all of the answer
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
        view: the content of the page.
        port: the port to listen on; 0 is any free port.
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
