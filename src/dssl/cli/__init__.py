"""The command line: runs a command, and reports an error of the user in one line."""

from __future__ import annotations

import os
import signal
import sys

from typer.exceptions import TyperException

from dssl.cli import train, use, look, compare  # noqa: F401  # isort: skip  (they join in this order)
from dssl.cli import log
from dssl.cli.app import app
from dssl.errors import DsslError, LostError


def main() -> None:
    """Run the command line; an error that a user can cause is one line on stderr and exit code 2."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except DsslError as error:
        _fail(str(error), alike=not isinstance(error, LostError))
    except KeyboardInterrupt:
        _interrupted()
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: not an error. Keep the interpreter from flushing into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except TyperException as error:  # wrong usage; any other exception is a bug, and is shown in full
        _fail(f"{error.format_message()} (see `dssl --help`)")
    else:
        if code == 130:
            _interrupted()
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, *, alike: bool = True) -> None:
    """End with one line; if torchrun started several processes, one on each machine prints it for all."""
    if not alike or _prints():
        sentence = " ".join(message.split())
        if os.environ.get(log.VARIABLE) == "json":
            log.event("error", sentence)
        else:
            sys.stderr.write(f"dssl: error: {sentence}\n")
    sys.exit(2)


def _interrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second interrupt would only print a traceback
    if _prints():
        sys.stderr.write("dssl: interrupted; run the same command again to resume\n")
    sys.exit(130)


def _prints() -> bool:
    return os.environ.get("LOCAL_RANK", "0") == "0"


if __name__ == "__main__":
    main()
