"""A folder is emptied whatever lies in it, and nothing learns the names."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest


def empty_folder(folder: Path, *, fill: str, after: str = "print(os.listdir('.'))") -> str:
    """What a process prints that fills a folder with `fill`, empties it, and does `after`."""
    program = f"""\
import os, sys
from components.sandbox.cleanup import empty
os.chdir(sys.argv[1])
{dedent(fill)}
empty(sys.argv[1])
assert os.getcwd() == sys.argv[1], os.getcwd()
{dedent(after)}
"""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FILLS = {
    "nothing": "",
    "many files": "for i in range(3000): open(f'{i}' + 'x' * 200, 'w').close()",
    "odd names": "for name in ('..x', '...', '.x', '-rf', 'a\\nb', 'x' * 255): os.makedirs(name + '/below')",
    "bytes": "os.mkdir(b'\\xff\\xfe'); open(b'\\xff\\xfe/\\x80', 'w').close()",
    "links and pipes": "os.symlink('/', 'root'); os.symlink('loop', 'loop'); os.mkfifo('pipe'); os.link('pipe', 'again')",
    "closed folders": "os.makedirs('a/b/c'); open('a/b/c/d', 'w').close(); os.chmod('a/b', 0); os.chmod('a', 0)",
    "wide": "for i in range(300): os.makedirs(f'{i}/below/it')",
    "too deep for a path": "for _ in range(1200): os.mkdir('d' * 50); os.chdir('d' * 50)",
}


@pytest.mark.parametrize("name", FILLS)
def test_a_folder_is_emptied(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "beside").write_text("stays")
    assert empty_folder(folder, fill=FILLS[name]) == "[]"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside", "folder"]


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("stays")
    assert (
        empty_folder(tmp_path / "folder", fill="os.symlink('../kept', 'link'); os.symlink('../kept/file', 'other')")
        == "[]"
    )
    assert (tmp_path / "kept" / "file").read_text() == "stays"


def test_no_name_is_left_in_memory(tmp_path: Path) -> None:
    fill = """
        child = os.fork()
        if child == 0:
            for i in range(500): open(f'TRP-{7000 + 391}-{i}', 'w').close()
            os._exit(0)
        os.wait()
    """
    search = """
        import ctypes, re
        hits = 0
        for line in open('/proc/self/maps').read().splitlines():
            span, rights, *_, last = line.split()
            if 'r' in rights and not last.startswith('[v'):
                start, end = (int(number, 16) for number in span.split('-'))
                hits += len(re.findall(rb'TRP-[7]391', ctypes.string_at(start, end - start)))
        print(hits)
    """
    assert empty_folder(tmp_path, fill=fill, after=search) == "0"


def test_a_folder_that_cannot_be_emptied_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"OSError|NotADirectory|FileNotFound"):
        empty_folder(tmp_path / "none", fill="")
