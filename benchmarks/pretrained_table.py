"""What the proof on a pretrained model prints of its rows: tables in Markdown, curves, transcripts and the verdict."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from benchmarks.arm_runs import SAMPLINGS
from benchmarks.intervals import mean_interval
from benchmarks.markdown import markdown
from benchmarks.pretrained_runs import (
    HELD_OUT,
    MAIN,
    NUM_PASS_SAMPLES,
    REASONER,
    SHUFFLED,
    STARTS,
    SUITES,
    SWAPPED,
    UNTRAINED_PROGRAM,
    UNTRAINED_SINGLE,
    Row,
    start_of,
)
from components.evaluation.statistics import compute_paired_interval
from components.mathematics.intervals import wilson_interval

BAR_POINTS = 15.0
"""The lower end of a gain's interval must be above this, in each seed of main."""
SHUFFLED_POINTS = 5.0
"""With shuffled rewards success must end within so many points of the start."""
MOST_MINUTES = 45.0
NUM_RESAMPLES = 4000
_BARS = "▁▂▃▄▅▆▇█"
_LONGEST_SHOWN = 400
_ALONE: Mapping[str, Mapping[str, str]] = {
    UNTRAINED_SINGLE: {"team": "single agent"},
    UNTRAINED_PROGRAM: {"team": "single agent with program", "tool_agent": "its programs"},
}
"""What the table calls a lone agent, and the answers that it gives in a role of the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A paired difference in points: success before and after, in percent, and the difference with its 95% interval."""

    before: float
    after: float
    low: float
    high: float

    @property
    def points(self) -> float:
        return self.after - self.before

    def __str__(self) -> str:
        """**Example** "+87.0 (83.1 to 90.2)"."""
        return f"{self.points:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def gain_of(before: str, after: str) -> Gain:
    """The gain between two rows of digits, of the same problems."""
    one, other = [digit == "1" for digit in before], [digit == "1" for digit in after]
    low, high = compute_paired_interval(one, other)
    return Gain(before=100 * statistics.fmean(one), after=100 * statistics.fmean(other), low=100 * low, high=100 * high)


def gain(row: Row, rows: Sequence[Row], suite: str, sampling: str) -> Gain | None:
    """What a trained run gained on a suite over the untrained team; with roles swapped: over the same team as it was trained.
    None as long as one of them is missing."""
    key = f"{suite}, {sampling}"
    unswapped = f"{HELD_OUT}, {sampling}"
    others = [row] if suite == SWAPPED else [each for each in rows if each.arm == start_of(row.arm)]
    before = [
        each.solved[unswapped if suite == SWAPPED else key] for each in others if suite == SWAPPED or key in each.solved
    ]
    return gain_of(before[0], row.solved[key]) if before and key in row.solved else None


def gain_table(rows: Sequence[Row]) -> str:
    """Success before and after in percent, and the paired gain, by suite and run."""
    body = []
    for suite in SUITES:
        for row in rows:
            if row.arm not in STARTS and (cells := _gain_cells(row, rows, suite)):
                body.append([_problems(suite), name_of(row), *cells])
        body += _pool_lines(rows, suite)
    titles = ["problems", "run"]
    for sampling in SAMPLINGS:
        titles += [f"{sampling}: before", "after", "gain in points"]
    return markdown(titles, body)


def _gain_cells(row: Row, rows: Sequence[Row], suite: str) -> list[str]:
    found = [gain(row, rows, suite, sampling) for sampling in SAMPLINGS]
    if not any(found):
        return []
    return [cell for each in found for cell in (("", "", "") if each is None else _cells(each))]


def _cells(found: Gain) -> tuple[str, str, str]:
    return f"{found.before:.1f}", f"{found.after:.1f}", str(found)


def _pool_lines(rows: Sequence[Row], suite: str) -> list[list[str]]:
    """The seeds of main together: over problems and over seeds."""
    mine = [row for row in rows if row.arm == MAIN and f"{suite}, {SAMPLINGS[0]}" in row.solved]
    starts = [row for row in rows if row.arm == start_of(MAIN)]
    if len(mine) < 2 or not starts:
        return []
    lines = [[_problems(suite), f"*{MAIN}, {len(mine)} seeds, over {what}*"] for what in ("problems", "seeds")]
    for sampling in SAMPLINGS:
        key = f"{suite}, {sampling}"
        before, afters = starts[0].solved[key], [row.solved[key] for row in mine]
        over_problems = pool_gains(before, afters)
        mean, half = mean_interval([gain_of(before, after).points for after in afters])
        lines[0] += _cells(over_problems)
        lines[1] += ["", "", f"{mean:+.1f} ± {half:.1f}"]
    return lines


def pool_gains(before: str, afters: Sequence[str]) -> Gain:
    """The mean gain of several seeds, with an interval by drawing problems anew with replacement (percentiles of 4,000 draws),
    each with the results of all seeds: what these trained teams would gain on other problems. Other seeds may differ by more.
    """
    before_P = np.array([digit == "1" for digit in before], dtype=np.float64)
    after_P = np.mean([[digit == "1" for digit in after] for after in afters], axis=0)
    gains_P = after_P - before_P
    draws = np.random.default_rng(0).integers(len(gains_P), size=(NUM_RESAMPLES, len(gains_P)))
    low, high = np.percentile(gains_P[draws].mean(axis=1), [2.5, 97.5])
    return Gain(
        before=100 * float(before_P.mean()),
        after=100 * float(after_P.mean()),
        low=100 * float(low),
        high=100 * float(high),
    )


def comparison_table(rows: Sequence[Row]) -> str:
    """After training: the first seed of main less each other arm, on the same held-out problems."""
    main = [row for row in rows if row.arm == MAIN][:1]
    body = [
        [name_of(row), *(str(gain_of(row.solved[key], main[0].solved[key])) for key in _keys(HELD_OUT))]
        for row in rows
        if main and row.arm not in (MAIN, *STARTS)
    ]
    return markdown([f"{MAIN}, seed 0, after training, less", *SAMPLINGS], body)


def pass_table(rows: Iterable[Row]) -> str:
    """pass@1 and pass@8 of untrained agents and teams, in percent with 95% intervals over problems."""
    body = []
    for row in rows:
        for who, counts in row.passes.items():
            if who == REASONER:  # whose answer is the team's
                continue
            title = _ALONE.get(row.arm, {}).get(who, who.replace("_", " "))
            cells = (_spell_rate(pass_at(k, counts, NUM_PASS_SAMPLES)) for k in (1, NUM_PASS_SAMPLES))
            body.append([title, str(len(counts)), *cells])
    return markdown(["untrained", "problems", "pass@1", f"pass@{NUM_PASS_SAMPLES}"], body)


def pass_at(k: int, right_P: Sequence[int], num_samples: int) -> list[float]:
    """The unbiased estimate of each problem: the chance that k of its samples, drawn without replacement, hold a right one
    (arXiv 2107.03374). `right_P` counts the right samples of each problem.

    **Example** 8 samples, 2 right: pass@1 .25, pass@4 1 - C(6, 4) / C(8, 4) = .786, pass@8 1.
    """
    assert 1 <= k <= num_samples, f"pass@{k} of {num_samples} samples"
    return [1.0 - comb(num_samples - right, k) / comb(num_samples, k) for right in right_P]


def _spell_rate(values_P: Sequence[float]) -> str:
    """The mean in percent and its interval over problems: Wilson's where each problem is a yes or no, else by resampling."""
    mean = statistics.fmean(values_P)
    if all(value in (0.0, 1.0) for value in values_P):
        low, high = wilson_interval(round(sum(values_P)), len(values_P))
    else:
        drawn = np.random.default_rng(0).integers(len(values_P), size=(NUM_RESAMPLES, len(values_P)))
        low, high = np.percentile(np.array(values_P)[drawn].mean(axis=1), [2.5, 97.5])
    return f"{100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def dose_table(rows: Iterable[Row]) -> str:
    """What each training took."""
    body = [
        [
            name_of(row),
            str(row.num_steps),
            str(row.num_tokens),
            str(row.num_updates),
            f"{row.training_seconds / 60:.1f}",
            f"{row.evaluation_seconds / 60:.1f}",
        ]
        for row in rows
        if row.arm not in STARTS
    ]
    titles = ["run", "steps", "generated tokens", "optimizer steps", "minutes of training", "of evaluation"]
    return markdown(titles, body)


def curves(rows: Iterable[Row]) -> str:
    """The share of each agent's candidates that solve, one bar a step, the last agent's first."""
    lines = []
    for row in rows:
        for agent, rates in reversed(row.solve_rates.items()):
            if rates:
                lines.append(f"{name_of(row):25} {agent:10} {spell_curve(rates)}")
    return "\n".join(lines)


def spell_curve(rates: Sequence[float]) -> str:
    """One bar a step, and the first and the last rate; empty without a step."""
    bars = "".join(_BARS[min(int(rate * len(_BARS)), len(_BARS) - 1)] for rate in rates)
    return f"{bars}  {rates[0]:.2f} -> {rates[-1]:.2f}" if rates else ""


def transcripts(rows: Sequence[Row]) -> str:
    """What each agent said before and after training, at the first held-out problems."""
    mine = [row for row in rows if row.arm == MAIN][:1]
    found = [row for row in rows if row.arm == start_of(MAIN)][:1] + mine
    lines = []
    for number in range(min((len(row.transcripts) for row in found), default=0)):
        asked = found[0].transcripts[number]
        lines.append(f"Held-out problem {number}: {asked['problem']}  (the answer is {asked['answer']})")
        for row in found:
            told = row.transcripts[number]
            lines.append(f"  {name_of(row)}: {'solved' if told['success'] else 'not solved'}")
            for role, text in told["said"]:
                lines += [f"    {role}: {shown}" for shown in [_escape_line(text)]]
    return "\n".join(lines)


def _escape_line(text: str) -> str:
    """One line: line ends and other control characters as escapes, a long text cut."""
    line = repr(text)[1:-1]
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]} [...]"


def verdict(rows: Sequence[Row], *, num_seeds: int) -> str:
    """Whether the runs that are there show what was to be shown; what fails is named, what is missing is open."""
    lines = []
    mains = {row.seed: row for row in rows if row.arm == MAIN}
    for seed in range(num_seeds):
        for sampling in SAMPLINGS:
            found = None if seed not in mains else gain(mains[seed], rows, HELD_OUT, sampling)
            met = None if found is None else found.low > BAR_POINTS
            asked = f"{MAIN}, seed {seed}, {sampling}: the gain's lower end is above {BAR_POINTS:g} points"
            lines.append(_judge(met, asked, "" if found is None else f"gain {found}"))
    shuffled = [row for row in rows if row.arm == SHUFFLED]
    for sampling in SAMPLINGS:
        found = gain(shuffled[0], rows, HELD_OUT, sampling) if shuffled else None
        met = None if found is None else abs(found.points) <= SHUFFLED_POINTS
        asked = f"{SHUFFLED} rewards, {sampling}: success ends within {SHUFFLED_POINTS:g} points of the start"
        lines.append(_judge(met, asked, "" if found is None else f"difference {found}"))
    for row in rows:
        if row.arm not in STARTS:
            minutes = row.training_seconds / 60
            asked = f"{name_of(row)}: training takes at most {MOST_MINUTES:g} minutes"
            lines.append(_judge(minutes <= MOST_MINUTES, asked, f"{minutes:.1f} minutes"))
    return "\n".join(lines)


def _judge(met: bool | None, asked: str, found: str) -> str:
    word = "open" if met is None else "yes" if met else "FAILED"
    return f"{word:6} {asked}" + (f": {found}" if found else "")


def name_of(row: Row) -> str:
    """**Example** "main, seed 0"."""
    return row.arm if row.arm in STARTS else f"{row.arm}, seed {row.seed}"


def _problems(suite: str) -> str:
    return f"{suite} (before: as trained)" if suite == SWAPPED else suite


def _keys(suite: str) -> list[str]:
    return [f"{suite}, {sampling}" for sampling in SAMPLINGS]


def describe_row(row: Row) -> str:
    """One line about a finished run."""
    rates: Mapping[str, float] = {key: _rate(digits) for key, digits in row.solved.items()}
    success = ", ".join(f"{key} {100 * rate:.1f}%" for key, rate in rates.items())
    counts = f"{row.num_steps} steps, {row.num_tokens} tokens, {row.training_seconds / 60:.1f} minutes of training"
    return f"{name_of(row)}: {success} ({counts}, {row.evaluation_seconds / 60:.1f} of evaluation)"


def _rate(digits: str) -> float:
    return digits.count("1") / len(digits) if digits else math.nan
