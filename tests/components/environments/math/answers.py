"""Answers of every kind, and mutations of them, for tests of the verifier."""

from random import Random

SEEDS = (
    r"\frac{1}{2}", r"\sqrt{2}/2", "(1,2]", r"\{1,2,3\}", r"x^{2}+2x+1", r"2\pi", "10**10**10", "3*x**2+1", "1000!", "x=5",
    r"(-\infty,3]\cup[5,\infty)", r"\binom{10}{3}", r"\frac{\sqrt{3}+1}{2^{10}}", r"1\pm\sqrt{3}", r"\int_0^1 x^2 dx",
    r"\sum_{k=1}^{100} k^2", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\log_2 8", "1 < x < 2", "0.333333", "9^{9^{9^9}}",
    r"\text{no solution}", r"e^{i\pi}", "7", r"\prod_{k=1}^{20}(x+k)", r"\lim_{x\to0}\frac{\sin x}{x}", "f(x)=x^2", "12+7*3",
    r"\{\{\{\{1.0,2\},\{2\}\},\{3,4\}\},\{1\}\}", r"1 \in \{1,2\}",
)  # fmt: skip
_PIECES = (
    "^", "^{9}", "!", r"\frac", r"\sqrt{", "}", "{", "(", ")", "**9**9", "9" * 12, r"\cdot", "x", "y", ",", "[", "]", r"\sum",
    r"\int", "=", "<", r"\text{", "\\", "$", r"\infty", "-", "+", "1e99", "é", "\x00", "\n", r"\left(", r"\sin", "\U0001f600",
    "%", r"\boxed{", "^^^^^", "(" * 40, "!!!", r"\binom{9999}{999}", r"\exp(", r"x^{100000}", "((x+1)^{99})^{99}", "\ud83d",
)  # fmt: skip


def mutate(rng: Random) -> str:
    """An answer after one to five random insertions, deletions, splices and repetitions."""
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 5)):
        place, kind = rng.randint(0, len(text)), rng.random()
        if kind < 0.5:
            text = text[:place] + rng.choice(_PIECES) + text[place:]
        elif kind < 0.7:
            text = text[:place] + text[place + rng.randint(1, 4) :]
        elif kind < 0.9:
            other = rng.choice(SEEDS)
            text = text[:place] + other[rng.randint(0, len(other)) :]
        else:
            text *= rng.randint(2, 4)
    return text


def make_mutated_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """`count` pairs of a mutated answer and an expected one."""
    rng = Random(seed)
    return [(mutate(rng), rng.choice(SEEDS)) for _ in range(count)]
