"""The command line: it runs the commands of the ``cli_*`` modules, and says in one line what went wrong."""

from __future__ import annotations

import os
import signal
import sys

from dssl.cli import fit, look, study  # noqa: F401  (they join the application)
from dssl.cli.app import app
from dssl.errors import DsslError, LostError


def main() -> None:
    """Run the command line; what a user can cause is one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except DsslError as error:
        _fail(str(error), alike=not isinstance(error, LostError))
    except KeyboardInterrupt:
        _interrupted()
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is wrong. Keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except Exception as error:
        if not hasattr(error, "format_message"):  # no usage error of Typer's, but a bug of ours: show all of it
            raise
        _fail(f"{error.format_message()} (see `dssl --help`)")
    else:
        if code == 130:
            _interrupted()
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, *, alike: bool = True) -> None:
    """End with one line; of the processes that torchrun started, one on each machine says what all have to say."""
    if not alike or _speaks():
        sys.stderr.write(f"dssl: error: {' '.join(message.split())}\n")
    sys.exit(2)


def _interrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would only be a traceback: the end has begun
    if _speaks():
        sys.stderr.write("dssl: interrupted; if it was training, the same command goes on where it stopped\n")
    sys.exit(130)


def _speaks() -> bool:
    return os.environ.get("LOCAL_RANK", "0") == "0"


if __name__ == "__main__":
    main()
