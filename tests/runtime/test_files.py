from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dssl.errors import RunError
from dssl.runtime import files


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    files.write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), files.replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"a": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["value.json"]


def test_a_write_replaces_and_makes_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "text.txt"
    files.write_text(path, "one")
    files.write_text(path, "två")
    assert path.read_text(encoding="utf-8") == "två"


def test_a_lock_is_held_once_names_its_process_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / ".lock"
    for _ in range(2):
        with files.locked(path):
            with pytest.raises(BlockingIOError, match=f"^{os.getpid()}$"), files.locked(path):
                pass
            assert path.exists()  # the one who was refused took nothing away
        assert not path.exists()


def test_a_lock_ends_with_a_failure_inside_and_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with pytest.raises(RuntimeError), files.locked(path):
        raise RuntimeError
    code = (
        f"import os, pathlib; from dssl.runtime import files; held = files.locked(pathlib.Path({str(path)!r})); "
        "held.__enter__(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert path.exists()
    with files.locked(path):
        assert path.read_text() == str(os.getpid())


def test_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        files.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


def killed(code: str, *arguments: object) -> None:
    """Run a piece of code in a process that ends by SIGKILL."""
    start = "import os, sys; from pathlib import Path; from dssl.runtime import files; path = Path(sys.argv[1])\n"
    done = subprocess.run([sys.executable, "-c", start + code, *map(str, arguments)], check=False)
    assert done.returncode == -9


def test_temporary_files_of_killed_processes_are_removed_by_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    killed("with files.replacing(path) as t:\n t.write_text('half'); os.kill(os.getpid(), 9)", path)
    (tmp_path / ".value.notes.json").write_text("the user's own")
    alive = f".value.{files._machine()}-1.json"  # process 1 never ends
    (tmp_path / alive).write_text("being written")
    assert len(list(tmp_path.iterdir())) == 3
    files.write_text(path, "whole")
    assert {entry.name for entry in tmp_path.iterdir()} == {"value.json", ".value.notes.json", alive}


def test_a_folder_is_replaced_in_one_step_and_a_failure_leaves_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder"
    for text in ("one", "two"):
        with files.replacing_folder(folder) as making:
            (making / "inner").mkdir()
            (making / "inner" / "file").write_text(text)
            assert text == "one" or (folder / "inner" / "file").read_text() == "one"
        assert (folder / "inner" / "file").read_text() == text
    with pytest.raises(RuntimeError), files.replacing_folder(folder) as making:
        (making / "half").write_text("x")
        raise RuntimeError
    assert (folder / "inner" / "file").read_text() == "two"
    assert [entry.name for entry in folder.parent.iterdir()] == ["folder"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_whose_writer_was_killed_is_there_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    folder = tmp_path / "folder"
    with files.replacing_folder(folder) as making:
        (making / "file").write_text("old")
    # Killed before the exchange; and where there is none, between the two renames.
    where = "files._exchange = lambda *_: os.kill(os.getpid(), 9)\n"
    if not exchange:
        where = "files._exchange = lambda *_: False; rename = Path.rename\n"
        where += "Path.rename = lambda a, b: (rename(a, b), os.kill(os.getpid(), 9))\n"
    killed(where + "with files.replacing_folder(path) as making:\n (making / 'file').write_text('new')", folder)
    assert folder.exists() == exchange
    if not exchange:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    with files.replacing_folder(folder) as making:
        (making / "file").write_text("newer")
        assert (folder / "file").read_text() == "old"
    assert (folder / "file").read_text() == "newer"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_lock_that_is_a_link_or_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("content")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / "pipe")
    for name, words in {"link": "is a symbolic link", "pipe": "is a pipe or device"}.items():
        with pytest.raises(RunError, match=words), files.locked(tmp_path / name):
            pass
    assert (tmp_path / "precious").read_text() == "content"


def test_reading_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match="is a pipe, device or socket"):
        files.read_text(tmp_path / "pipe", "fit again")


def test_the_umask_decides_who_reads_a_file(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    before = os.umask(0o022)
    try:
        with files.replacing(tmp_path / "w.safetensors") as path:
            save_file({"a": np.zeros(2)}, path)
    finally:
        os.umask(before)
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o777 == 0o644


def test_a_lock_on_a_full_disk_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    for name in ("write", "truncate"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError) as error, files.locked(tmp_path / ".lock"):
                pass
            assert error.value.filename == str(tmp_path / ".lock")


def test_an_open_file_is_held_until_it_is_closed(tmp_path: Path) -> None:
    code = (
        f"from dssl.runtime import files; f = open({str(tmp_path / 'x')!r}, 'a'); files.hold(f.fileno()); f.write('b')"
    )
    with (tmp_path / "x").open("a") as file:
        files.hold(file.fileno())
        other = subprocess.Popen([sys.executable, "-c", code])
        with pytest.raises(subprocess.TimeoutExpired):  # whether it has started yet or waits
            other.wait(1)
        file.write("a")
    assert other.wait() == 0
    assert (tmp_path / "x").read_text() == "ab"
