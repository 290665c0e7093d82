"""A program in a box does what it does in a Python of its own, with its input and its files."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.sandbox.pool import BoxPool

ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "HOME": "/tmp"}

PLAIN = [
    "print('hello'); print(input())",
    "import sys; sys.exit('a message')",
    "import sys; sys.exit(256 + 7)",
    "exit()",
    "raise SystemExit",
    "import atexit; atexit.register(print, 'last'); print('first')",
    "class C:\n  def __del__(self): print('gone')\nc = C()",
    "import threading, time\ndef f():\n  time.sleep(0.05)\n  print('late')\nthreading.Thread(target=f).start()",
    "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
    "import os, sys\nprint('twice')\nsys.stdout.flush()\nos.fork() and os.wait()\nprint(1)",
    "import sys; print(__name__, sys.argv[1:], __file__[-7:], sys.stdout.encoding, sys.stdin.errors)",
    "print(sorted(k for k in globals() if not k.startswith('__')))",
    "def f(n): return n and f(n - 1)\nf(10**5)",
    "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and f(n - 1) + 1\nprint(f(50000))",
    "import sys; sys.stdout.write(chr(0xdcff)); print(repr(sys.stdin.read()))",
    "import sys; print(sys.stdin.buffer.read()); sys.stdout.close()",
    "import subprocess; print(subprocess.check_output(['/usr/bin/python3', '-c', 'print(2)']))",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int = 1\nprint(P(), P.__module__)",
    "import asyncio\nasync def f(): print('async')\nasyncio.run(f())",
    "import pickle\nclass P: pass\nprint(type(pickle.loads(pickle.dumps(P()))) is P)",
    "print(hash('text'), {'b', 'a', 'c'})",
    "try:\n  raise ValueError\nexcept ValueError:\n  raise KeyError('k')",
    "if True print(1)",
    "import os; os._exit(5)",
]


@pytest.mark.parametrize("source", PLAIN)
def test_a_program_does_what_it_does_in_a_process_of_its_own(
    bubblewrap_pool: BoxPool, source: str, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(source)
    plain = subprocess.run(
        [sys.executable, "main.py"], input="in é\nput\n", capture_output=True, encoding="utf-8", errors="replace",
        cwd=tmp_path, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    result = bubblewrap_pool.run(source, stdin="in é\nput\n")
    assert (result.stdout, result.exit_code) == (plain.stdout, plain.returncode), result
    assert last_line(result.stderr) == last_line(plain.stderr)


def test_no_module_of_ours_stands_before_a_program_s_own(bubblewrap_pool: BoxPool) -> None:
    files = {"components.py": "word = 'mine'", "usage_counters.py": "word = 'mine, too'"}
    source = "import components, usage_counters; print(components.word, usage_counters.word)"
    assert bubblewrap_pool.run(source, files=files).stdout == "mine mine, too\n"


def last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


@given(stdout=st.binary(max_size=300), stderr=st.binary(max_size=300), code=st.integers(0, 255))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_a_program_writes_is_what_is_read(
    bubblewrap_pool: BoxPool, stdout: bytes, stderr: bytes, code: int
) -> None:
    source = f"import os, sys\nsys.stdout.buffer.write({stdout!r})\nos.write(2, {stderr!r})\nsys.exit({code})"
    result = bubblewrap_pool.run(source)
    assert result.stdout == stdout.decode("utf-8", "replace")
    assert result.stderr == stderr.decode("utf-8", "replace")
    assert result.exit_code == code


@given(text=st.text(max_size=200))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_input_and_files_are_what_was_given(bubblewrap_pool: BoxPool, text: str) -> None:
    source = "import sys\nprint(ascii((sys.stdin.buffer.read(), open('a.txt', 'rb').read())))"
    result = bubblewrap_pool.run(source, stdin=text, files={"a.txt": text})
    assert result.stdout == ascii((text.encode(), text.encode())) + "\n"


@pytest.mark.parametrize("num_bytes", [1, 65535, 65536, 65537, 3 << 20])
def test_input_of_any_length_reaches_the_program(bubblewrap_pool: BoxPool, num_bytes: int) -> None:
    assert (
        bubblewrap_pool.run("import sys; print(len(sys.stdin.read()))", stdin="a" * num_bytes).stdout
        == f"{num_bytes}\n"
    )
    assert bubblewrap_pool.run("print('unread')", stdin="a" * num_bytes).stdout == "unread\n"
    assert bubblewrap_pool.run("import os; os.close(0); print('shut')", stdin="a" * num_bytes).stdout == "shut\n"


def test_output_of_a_process_that_is_left_behind_is_kept_until_the_program_ends(bubblewrap_pool: BoxPool) -> None:
    child = "if os.fork() == 0:\n  os.write(1, b'child ')\n  time.sleep(60)\n"
    source = f"import os, time\n{child}time.sleep(0.2)\nos.write(1, b'end')"
    result = bubblewrap_pool.run(source)
    assert (result.status, result.stdout) == ("ok", "child end")
    assert result.wall_seconds < 5


def test_only_regular_files_within_the_limits_come_back(bubblewrap_pool: BoxPool) -> None:
    source = dedent("""\
        import os
        open("good", "w").write("é")
        unclosed = open("unclosed", "w"); unclosed.write("written")
        open("given", "a").write(" and more")
        os.symlink("/etc/passwd", "link")
        os.mkfifo("fifo")
        os.mkdir("folder")
        os.truncate(os.open("sparse", os.O_CREAT | os.O_WRONLY), 30 << 20)
        os.link("good", "hard")
        open("locked", "w").write("x"); os.chmod("locked", 0)
    """)
    names = ("good", "unclosed", "given", "link", "fifo", "folder", "sparse", "hard", "absent", "locked")
    result = bubblewrap_pool.run(source, files={"given": "given"}, outputs=names)
    assert result.status == "ok", result
    assert result.files == {"good": "é", "unclosed": "written", "given": "given and more", "hard": "é"}
    assert result.detail == (
        "link: Too many levels of symbolic links; fifo: Not a regular file; folder: Not a regular file; "
        "sparse: Too large; absent: No such file or directory; locked: Permission denied"
    )


def test_files_together_are_limited_too(bubblewrap_pool: BoxPool) -> None:
    source = "for i in range(6): open(f'f{i}', 'w').write(str(i) * (1 << 20))"
    result = bubblewrap_pool.run(source, outputs=tuple(f"f{i}" for i in range(6)))
    assert {name: len(content) for name, content in result.files.items()} == {f"f{i}": 1 << 20 for i in range(4)}


def test_a_program_sees_one_environment(bubblewrap_pool: BoxPool) -> None:
    seen: Mapping[str, str] = eval(
        bubblewrap_pool.run("import os; print(dict(os.environ), os.getuid())").stdout.rpartition(" ")[0]
    )
    assert dict(seen) == {
        "HOME": "/tmp", "LANG": "C.UTF-8", "LOGNAME": "nobody", "PATH": "/usr/bin", "PWD": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
    }  # fmt: skip
    assert os.environ.get("PATH") not in seen.values()
