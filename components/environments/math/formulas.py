"""The process that compares formulas: math-verify on top of SymPy, one fork per pair.

It reads one JSON pair `[answer, expected]` per line and writes one line each: 1 equal, 0 different, ! ended by its limits.
Each pair is compared in a fork of the warm process with CPU time and memory limited by the kernel, so that no formula can
hang, crash or affect another one.
"""

import contextlib
import gc
import json
import os
import re
import resource
import signal
import sys

from components.environments.math.grading import compare_answers

CPU_SECONDS = 0.5
MEMORY_BYTES = 256 << 20
"""In addition to the memory of the warm process itself."""
_EQUAL, _DIFFERENT = 41, 40
_WARMING = (
    (r"x\left(3x+(1)\right)+(2)", "3*x**2+(1)*x+(3)"),
    (r"\frac{3\sqrt{2}}{4}+1", r"\frac{5}{8}\sqrt{3}"),
    (r"2\pi+\frac{1}{2}", "6.283185"),
    (r"1<x\le 3", r"(1,3]"),
    (r"\sin(x)+\log_{2}8-e^{x}", r"3+\cos x"),
    (r"\binom{5}{2}-5!", r"\sqrt[3]{x}"),
    (r"(-\infty,3]\cup[5,\infty)", r"(-\infty,2)\cup(3,\infty)"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\4&3\end{pmatrix}"),
    (r"\int_0^1 x^2 dx", r"\lim_{x\to0}\frac{\sin x}{x}"),
    (r"\sum_{k=1}^{9} k^2", r"\prod_{k=1}^{3}(x+k)"),
    (r"e^{i\pi}", r"1\pm\sqrt{3}"),
    (r"f(x)=x^2", "y=2x+1"),
    (r"\{1,2,3\}", r"1 \in \{1,2\}"),
    (r"\log_2 8", r"x^{2}+2x+1"),
    (r"2\cdot 3^{x}", r"-x<y"),
    (r"2x^2+8x=40", r"x^2+y^2=7"),
    (r"\frac{1}{2^{98}}", r"\sqrt{2}+\pi"),
    (r"f(2)=0.5", r"7=8"),
)
"""Unequal pairs that exercise most of the parser and the simplifier, whose caches every fork inherits. Without them the parser
alone would take a third of a fork's CPU time."""
_PYTHON_SPELLINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\*\*", "^"),
        (r"\^\s*(-?\d+(?:\.\d+)?)", r"^{\1}"),
        (r"(?<![\\A-Za-z])(pi|sin|cos|tan|log|ln|exp|infty)(?![A-Za-z])", r"\\\1 "),
        (r"(?<![\\A-Za-z])(?:oo|inf|infinity)(?![A-Za-z])", r"\\infty "),
        (r"(?<![\\A-Za-z_])i(?![A-Za-z]|\s*=)(?!.*\\(?:sum|prod))", "I"),
        (r"(?<![\\A-Za-z])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
    )
)


def same_formula(answer: str, expected: str) -> bool:
    """Whether math-verify finds two formulas equal. May raise anything, take long, or need much memory."""
    from latex2sympy2_extended.math_normalization import NormalizationConfig  # type: ignore[import-untyped, unused-ignore]
    from math_verify import LatexExtractionConfig, parse, verify

    from components.environments.math.exactness import may_be_compared, write_as_set

    # Its own unit handling mistakes the last letter of `2ab` and `n m` for a unit; ours ran before.
    normalization = NormalizationConfig(malformed_operators=True, nits=True, units=False, boxed="none")
    extraction = LatexExtractionConfig(normalization_config=normalization)

    def parse_parts(text: str) -> list[object]:
        for pattern, replacement in _PYTHON_SPELLINGS:
            text = pattern.sub(replacement, text)
        found: list[object] = parse(
            f"${text}$",
            extraction_config=[extraction],
            fallback_mode="no_fallback",
            parsing_timeout=None,
        )
        return found

    target = parse_parts(answer)
    gold = parse_parts(expected) if target else []  # parsing takes most of the time
    if not gold or not may_be_compared(target[0], gold[0]):
        return False
    gold[0], target[0] = write_as_set(gold[0], target[0]), write_as_set(target[0], gold[0])
    return bool(verify(gold, target, allow_set_relation_comp=True, timeout_seconds=None))


def serve() -> None:
    """Answer pairs until the end of standard input."""
    from components.environments.math.exactness import make_exact

    make_exact()
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for answer, expected in _WARMING:
        same_formula(answer, expected)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        answer, expected = json.loads(line)
        print(_answer(answer, expected), flush=True)


def _answer(answer: str, expected: str) -> str:
    child = os.fork()
    if child == 0:
        _compare_and_exit(answer, expected)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {_EQUAL: "1", _DIFFERENT: "0"}.get(code, "!")


def _compare_and_exit(answer: str, expected: str) -> None:
    """The body of a fork. The kernel ends it when its CPU time is up, even in the middle of one long multiplication."""
    code = _DIFFERENT
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        with open("/proc/self/statm", encoding="utf-8") as numbers:
            limit = int(numbers.read().split()[0]) * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        code = _EQUAL if compare_answers(answer, expected, formulas=same_formula) else _DIFFERENT
    except BaseException:  # the fork's border: whatever the algebra raises, it found no equality
        code = _DIFFERENT
    finally:
        os._exit(code)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve()
