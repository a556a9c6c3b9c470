"""The server of a page answers the person at this machine, and nobody and nothing else."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dssl.errors import RunError
from dssl.explore.server import CONNECTIONS, HOST, Server, _has_screen
from tests.views import made, served

VIEW = made(30)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(VIEW) as running:
        yield running


def ask(
    server: Server, path: str, *, hosts: list[str] | None = None, method: str = "GET"
) -> tuple[http.client.HTTPResponse, bytes]:
    """Ask with a request as a stranger may write it, which the library's client would not."""
    named = [f"{HOST}:{server.server_port}"] if hosts is None else hosts
    lines = [f"{method} {path} HTTP/1.1", *(f"Host: {host}" for host in named), "Connection: close", "", ""]
    with socket.create_connection((HOST, server.server_port), timeout=600) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = http.client.HTTPResponse(connection, method=method)
        answer.begin()
        return answer, answer.read()


def test_the_page_is_at_its_address(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    for name, kind in {"": "text/html", "main.js": "text/javascript", "data/meta.json": "application/json"}.items():
        answer, content = ask(server, f"/{server.token}/{name}")
        assert (answer.status, len(content) > 100) == (200, True)
        assert answer.headers["Content-Type"].startswith(kind)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Python" not in answer.headers["Server"]
    assert ask(server, f"/{server.token}/?x=1", hosts=[f"localhost:{server.server_port}"])[0].status == 200


def test_nearest_nodes_are_answered_one_by_one(server: Server) -> None:
    _, content = ask(server, f"/{server.token}/data/nearest/7.bin")
    places, cosines = VIEW.nearest(7, 8)
    assert np.array_equal(np.frombuffer(content[:48], "<i4"), places[0])
    assert np.array_equal(np.frombuffer(content[48:], "<f4"), cosines[0])


@pytest.mark.parametrize(
    "path", ["/", "/main.js", "/data/meta.json", "/wrong/", "/wrong/data/meta.json", "//", "/%00/", "*"]
)
def test_nothing_is_answered_without_the_token(server: Server, path: str) -> None:
    answer, content = ask(server, path)
    assert answer.status == 403
    assert b"made up" not in content
    assert server.token.encode() not in content


def test_part_of_the_token_or_more_of_it_will_not_do(server: Server) -> None:
    for token in (server.token[:-1], server.token + "x", server.token.swapcase(), "ü" * 32):
        assert ask(server, f"/{token}/data/meta.json")[0].status == 403


def test_two_servers_have_different_tokens(server: Server) -> None:
    with Server(VIEW) as other:
        assert other.token != server.token
        assert len(other.token) >= 32


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["evil.example"],
        ["evil.example:{port}"],
        ["127.0.0.1"],
        ["127.0.0.1:{port}", "evil.example"],
        ["[::1]:{port}"],
    ],
)
def test_a_page_of_another_name_is_refused(server: Server, hosts: list[str]) -> None:
    named = [host.format(port=server.server_port) for host in hosts]
    answer, content = ask(server, f"/{server.token}/data/meta.json", hosts=named)
    assert answer.status == 403
    assert b"made up" not in content


@pytest.mark.parametrize(
    "name",
    [
        "../config.toml",
        "data/../../config.toml",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "data//meta.json",
        "data/nearest/30.bin",
        "data/nearest/-1.bin",
        "data/nearest/007.bin",
        "data/nearest/٣.bin",
        "data/nearest/99999999999999999999.bin",
        "data/nearest/../meta.json",
        "nothing.js",
        "data",
        "web/main.js",
        "__init__.py",
    ],
)
def test_only_names_of_the_page_are_known(server: Server, name: str) -> None:
    answer, content = ask(server, f"/{server.token}/{name}")
    assert answer.status == 404
    assert content == b"There is no such page.\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_nothing_but_reading_is_possible(server: Server, method: str) -> None:
    assert ask(server, f"/{server.token}/data/meta.json", method=method)[0].status == 501


def test_other_addresses_of_this_machine_do_not_lead_to_it(server: Server) -> None:
    with socket.socket() as other, pytest.raises(OSError):
        other.settimeout(5)
        other.connect(("127.0.0.2", server.server_port))


def test_a_port_that_cannot_be_had_is_one_line(server: Server) -> None:
    with pytest.raises(RunError, match=rf"cannot listen on port {server.server_port} of 127.0.0.1: .*; choose another"):
        Server(VIEW, port=server.server_port)
    with pytest.raises(RunError, match="a port is a number from 0 to 65535"):
        Server(VIEW, port=70_000)


def test_no_browser_is_opened_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not _has_screen()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert _has_screen()


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signal to one process")
def test_ctrl_c_ends_it_with_one_line() -> None:
    code = (
        "from tests.views import made; from dssl.explore.server import serve\n"
        "serve(made(30), port=0, browser=False, say=lambda words: print(words, flush=True))"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()
    assert first.startswith("http://127.0.0.1:")
    assert first.endswith("shows made up, on this machine only; Ctrl-C ends it\n")
    assert (rest, errors, process.returncode) == ("stopped\n", "", 0)


def test_a_slow_request_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "seconds", 1.0)
    with served(VIEW) as running, socket.create_connection((HOST, running.server_port), timeout=600) as slow:
        slow.sendall(b"GET /")
        with pytest.raises(OSError):  # one byte at a time is no way to hold a connection
            for _ in range(6000):
                slow.sendall(b"x")
                time.sleep(0.1)


def test_other_methods_are_refused_before_the_request_is_complete(server: Server) -> None:
    with socket.create_connection((HOST, server.server_port), timeout=600) as connection:
        connection.sendall(b"POST")
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert (answer.status, answer.read()) == (501, b"This server answers GET requests only.\n")


def test_connections_are_capped_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "seconds", 600.0)  # those that are held do not end by their deadline
    with served(VIEW) as running:
        held = [socket.create_connection((HOST, running.server_port), timeout=600) for _ in range(CONNECTIONS)]
        with socket.create_connection((HOST, running.server_port), timeout=600) as further:
            assert further.recv(1) == b""  # closed
        for connection in held:
            connection.close()
        for _ in range(3000):
            try:
                assert ask(running, f"/{running.token}/")[0].status == 200
                break
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
        else:
            pytest.fail("no connection is free again")


def test_a_connection_may_be_used_for_several_requests(server: Server) -> None:
    client = http.client.HTTPConnection(HOST, server.server_port, timeout=600)
    for _ in range(3):
        client.request("GET", f"/{server.token}/data/meta.json")
        assert client.getresponse().read().startswith(b"{")
    client.close()
