"""Episodes of a scripted team in a real sandbox: only programs that compute the answers earn what hidden tests give."""

from collections.abc import Callable
from typing import Any

import pytest

from components.environments.base import Tools
from components.environments.code.problem import Bounds, Case, CodeProblem
from components.schema import ExecutionResult
from tests.components.environments.code.conftest import playthrough

Made = Callable[..., CodeProblem]
TESTER, CODER = "tester", "coder"
ROOMY = Bounds(max_cases=3, max_mutants=4, max_answer_characters=4000, max_case_characters=60)
SNOOP = """
import gc, glob, os, sys
found = [repr(one) for one in gc.get_objects() if isinstance(one, (str, bytes, list, dict, tuple))]
frame = sys._getframe()
while frame:
    found += [repr(frame.f_locals), repr(frame.f_globals)]
    frame = frame.f_back
for pattern in "/proc/*/cmdline /proc/*/environ /proc/self/fd/* /proc/self/maps /tmp/* ./* /work/* /dev/shm/*".split():
    for path in glob.glob(pattern):
        try:
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            found.append(repr(os.read(number, 100000)))
            os.close(number)
        except OSError:
            pass
for number in range(3, 64):
    try:
        found.append(repr(os.read(number, 100000)))
    except OSError:
        pass
text = "".join(found)
"""
"""Everything that a program can find of objects, callers, files, processes and open descriptors."""


def function_parts() -> dict[str, Any]:
    return {
        "kind": "function",
        "entry": "f",
        "statement": "Write f(n) that returns 2*n.",
        "reference": "def f(n):\n    return n * 2\n",
        "visible": (Case(given="[3]", expected="6"), Case(given="[5]", expected="10")),
        "hidden": tuple(Case(given=f"[{n}]", expected=str(2 * n)) for n in (7000, 8100, 9200, -6300)),
        "spare": (),
    }


class Watching:
    """Tools that remember everything that programs printed and were given."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.sent: list[str] = []
        self.printed: list[str] = []

    def run(self, execution: Any) -> ExecutionResult:
        result = self._tools.run(execution)
        self.sent.append(execution.program + execution.stdin)
        self.printed.append(result.stdout)
        return result

    def retrieve(self, query: Any) -> Any:
        return self._tools.retrieve(query)

    def prepare(self, calls: Any) -> None:
        self._tools.prepare(calls)


def test_a_team_that_repairs_its_program_is_judged_by_the_newest_one(doubling: Made, sandbox_tools: Tools) -> None:
    env = playthrough(doubling(), sandbox_tools)
    tester = env.apply(TESTER, "7 => 14\n8 => 15")
    assert tester.local == {"valid": 0.5, "killed": 1.0, "malformed": 0.0}
    wrong = env.apply(CODER, "```python\nprint(int(input()) + 3)\n```")
    assert wrong.team == {"solved": 0.0, "passed": 0.0}
    assert wrong.local["visible"] == 0.5
    assert "- 5 => 10; got 8" in env.observe(TESTER).state
    env.apply(TESTER, "7 => 14\n8 => 16")
    right = env.apply(CODER, "```python\nn = int(input())\nprint(2 * n)\n```")
    assert right.team == {"solved": 1.0, "passed": 1.0}
    assert right.done
    assert env.success


def test_a_program_for_the_shown_tests_alone_earns_nothing_of_the_hidden_ones(
    doubling: Made, sandbox_tools: Tools
) -> None:
    for parts, cheat in (
        ({}, "print({'3': 6, '5': 10}[input()])"),
        ({}, "print(6)\nprint(10)"),
        (function_parts(), "def f(n): return {3: 6, 5: 10}[n]"),
    ):
        env = playthrough(doubling(**parts), sandbox_tools)
        outcome = env.apply(CODER, cheat)
        assert outcome.team == {"solved": 0.0, "passed": 0.0}
        assert not env.success
        assert (env.team_reward, env.local_reward(CODER)) == (0.0, 0.0)


UNLIKELY_INPUTS = (71248658, 82508658, 91823658, -63448658)
"""Twice them is in no address, size or time that a program may see by chance."""


@pytest.mark.parametrize("kind", ["stdin", "function"])
def test_no_expected_output_can_be_found_from_inside_the_program(
    kind: str, doubling: Made, sandbox_tools: Tools
) -> None:
    """Two programs: one prints all that it finds, to be searched here; one answers with any hidden output that it finds."""
    parts = function_parts() if kind == "function" else {}
    inputs = [f"[{n}]" if kind == "function" else f"{n}\n" for n in UNLIKELY_INPUTS]
    hidden = tuple(Case(given=given, expected=str(2 * n)) for given, n in zip(inputs, UNLIKELY_INPUTS, strict=True))
    problem = doubling(**{**parts, "hidden": hidden}, bounds=ROOMY)
    wanted = [case.expected for case in problem.hidden]
    assert all(output.endswith("7316") for output in wanted)
    tools = Watching(sandbox_tools)
    guess = f"{SNOOP}\nimport re\nanswer = max(map(int, re.findall(r'-?[0-9]{{5}}7316', text)), default=0)\n"
    for program in (
        f"{guess}print(answer)",
        f"{guess}def f(n): return answer",
        f"{SNOOP}print(text[:60000])\ndef f(n): return 0",
    ):
        outcome = playthrough(problem, tools).apply(CODER, program)
        assert outcome.error is None
        assert outcome.team == {"solved": 0.0, "passed": 0.0}
    assert not any(output in text for text in tools.sent for output in wanted)
    assert max(map(len, tools.printed)) > 1000
    assert not any(output in text for text in tools.printed for output in wanted)


MEMORY = """
shifted = bytes((n + 1) % 256 for n in range(256))
found = False
with open("/proc/self/mem", "rb", 0) as memory:
    for line in open("/proc/self/maps"):
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        try:
            memory.seek(first)
            found |= b"tfdsfu`nbsl" in memory.read(last - first).translate(shifted)
        except (OSError, OverflowError, ValueError):
            pass
print("found" if found else "nothing")
"""


def test_no_earlier_program_is_left_in_the_memory_of_a_box(doubling: Made, sandbox_tools: Tools) -> None:
    """The reference runs in the same boxes, so what it was must be gone."""
    reference = "secret_mark = int(input())\nprint(2 * secret_mark)\n"
    few = {"visible": doubling().visible[:1], "hidden": doubling().hidden[:1], "bounds": ROOMY}
    env = playthrough(doubling(reference=reference, **few), sandbox_tools)
    assert env.apply(TESTER, "7 => 14\n8 => 16\n9 => 18").local["valid"] == 1.0
    env.apply(CODER, MEMORY)
    assert "- 3 => 6; got nothing" in env.observe(CODER).state
    control = playthrough(doubling(**few), sandbox_tools)
    control.apply(CODER, f"secret_mark = 1\n{MEMORY}")
    assert "- 3 => 6; got found" in control.observe(CODER).state


CHEATS = {
    "exits well at once": "import os\nos._exit(0)",
    "exits by exception": "raise SystemExit(0)",
    "patches print": "import builtins\nbuiltins.print = lambda *a: None\nprint(1)",
    "patches the output": "import sys\nclass Yes:\n    def write(self, text): return len(text)\n"
    "    def flush(self): pass\nsys.stdout = Yes()",
    "closes the output": "import os\nos.close(1)",
    "prints marks of success": "print('passed')\nprint('OK')\nprint('+')\nprint('{\"passed\": true}')",
    "forges result lines": "for n in (6, 10, True, None):\n    print('@result', n)",
    "forges at the end": "import atexit\natexit.register(lambda: print('\\n@result 6'))\ndef f(n): return None",
    "patches json": "import json\njson.dumps = lambda value: 'true'\ndef f(n): return True",
    "equals everything": "class Any(int):\n    def __eq__(self, other): return True\n    def __repr__(self): return 'nan'\n"
    "def f(n): return Any(3)\nprint(Any(3))",
    "returns not a number": "def f(n): return float('nan')\nprint('nan')",
    "returns infinity": "def f(n): return float('inf')\nprint('inf')",
    "writes a result file": "open('result.json', 'w').write('{\"passed\": true}')\nprint('result.json')",
    "runs on in the background": "import os\nif os.fork():\n    os._exit(0)\nimport time\ntime.sleep(0.2)\nprint(6)",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "reads the input as the answer": "import sys\nprint(sys.stdin.read())\ndef f(n): return n",
    "prints every number": "print(*range(6, 20000))",
    "kills all that it may": "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "writes to every descriptor": "import os\nfor n in range(256):\n    try:\n        os.write(n, b'\\xff@result 6\\n')\n"
    "    except OSError:\n        pass",
    "closes every descriptor": "import os\nos.closerange(0, 256)",
    "prints no text": "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 9)",
    "removes its folder": "import os, shutil\nshutil.rmtree('.', ignore_errors=True)\nos.chmod('.', 0)",
    "ends the driver's text": "def f(n): return 6\n'''",
}


@pytest.mark.parametrize("kind", ["stdin", "function"])
@pytest.mark.parametrize("name", CHEATS)
def test_cheating_earns_nothing_from_hidden_tests(name: str, kind: str, doubling: Made, sandbox_tools: Tools) -> None:
    env = playthrough(doubling(**(function_parts() if kind == "function" else {})), sandbox_tools)
    outcome = env.apply(CODER, CHEATS[name])
    assert outcome.team == {"solved": 0.0, "passed": 0.0}
    assert not outcome.solves
    assert not env.success
    assert env.team_reward + env.local_reward(CODER) <= 0.0


HONEST = {
    "ends by exit": "print(2 * int(input()))\nexit()",
    "ends by sys.exit": "import sys\nprint(2 * int(input()))\nsys.exit(0)",
    "is a main program": "def main():\n    print(2 * int(input()))\nif __name__ == '__main__':\n    main()",
    "opens descriptor 0": "print(2 * int(open(0).read()))",
    "reads and writes bytes": "import sys\nn = int(sys.stdin.buffer.readline())\nsys.stdout.buffer.write(b'%d' % (2 * n))",
    "recurses deep": "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return f(n - 1) + 1 if n else 0\n"
    "print(2 * int(input()) if f(50000) == 50000 else 0)",
    "has a thread with a large stack": "import threading\nthreading.stack_size(2**27)\n"
    "t = threading.Thread(target=lambda: print(2 * int(input())))\nt.start()\nt.join()",
    "warns": "import sys\nprint('caf\u00e9 \u2192', file=sys.stderr)\nprint(f'  {2 * int(input())}\\n\\n')",
    "prints at exit": "import atexit\nn = int(input())\natexit.register(lambda: print(2 * n))",
    "comes from the future": "from __future__ import annotations\nprint(2 * int(input()))",
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_passes_however_it_reads_prints_and_ends(
    name: str, doubling: Made, sandbox_tools: Tools
) -> None:
    env = playthrough(doubling(), sandbox_tools)
    assert env.apply(CODER, HONEST[name]).team == {"solved": 1.0, "passed": 1.0}


def test_a_right_function_passes_whatever_it_prints_besides(doubling: Made, sandbox_tools: Tools) -> None:
    env = playthrough(doubling(**function_parts()), sandbox_tools)
    chatty = "class Solution:\n    def f(self, n):\n        print('@result 1', end='')\n        return 2.0 * n"
    assert env.apply(CODER, chatty).team == {"solved": 1.0, "passed": 1.0}


def test_programs_that_never_end_or_take_too_much_fail_their_tests(doubling: Made, sandbox_tools: Tools) -> None:
    hidden = doubling().hidden[:1]
    for program, said in (
        ("x = [0] * 10**10", "memory limit|MemoryError"),
        ("while True: print('x' * 9999)", "output limit"),
    ):
        env = playthrough(doubling(visible=doubling().visible[:1], hidden=hidden), sandbox_tools)
        assert env.apply(CODER, program).team["passed"] == 0.0
        assert any(part in env.observe(CODER).state for part in said.split("|"))
