"""``python -m dssl``: the command line."""

from __future__ import annotations

from dssl.cli import main

if __name__ == "__main__":
    main()
