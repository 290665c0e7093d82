"""What the rows of the tables of arms say, in sentences made from them: no more than their intervals give."""

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.arm_pairs import (
    ARMS,
    OWN_START,
    PAIRS,
    Comparison,
    columns,
    comparisons,
    gains_by_seed,
)
from benchmarks.arm_runs import Trained
from benchmarks.power import LEVEL


def claims(rows: Iterable[Trained], *, budget_tokens: int) -> str:
    """The sentences below the tables."""
    found = list(rows)
    parts = [differences_told(comparisons(found)), left_out(comparisons(found)), gains_told(found), falls(found)]
    return "\n\n".join(part for part in [*parts, tokens_told(found, budget_tokens=budget_tokens)] if part)


def differences_told(made: Sequence[Comparison]) -> str:
    """How many comparisons there are, which survive the correction, and which are no more than hints."""
    surviving, hints = [each for each in made if each.survives], [each for each in made if each.is_hint]
    head = (
        f"{len(made)} comparisons, of which {LEVEL * len(made):.1f} would leave 0 out of their intervals by chance alone. "
        f"After Holm's correction for all of them {_count(len(surviving))} at the {100 * LEVEL:g}% level"
    )
    parts = ["\n".join([f"{head}:", *_means_by_pair(surviving)]) if surviving else f"{head}."]
    if hints:
        uncorrected = f"{len(hints)} more leave 0 out of intervals that are not corrected, and may be chance:"
        parts.append("\n".join([uncorrected, *_means_by_pair(hints)]))
    parts.append(f"The other {len(made) - len(surviving) - len(hints)} are open.")
    return "\n\n".join(parts)


def _means_by_pair(made: Sequence[Comparison]) -> list[str]:
    lines = []
    for arm, other in dict.fromkeys((each.arm, each.other) for each in made):
        mine = [each for each in made if (each.arm, each.other) == (arm, other)]
        cells = "; ".join(f"{each.game}, {each.sampling} {each.mean:+.1f}" for each in mine)
        lines.append(f"- *{arm}*, less *{other}*: {cells}")
    return lines


def _count(number: int) -> str:
    return {0: "none stands", 1: "one stands"}.get(number, f"{number} stand")


def left_out(made: Sequence[Comparison]) -> str:
    """The seeds that began elsewhere, by pair and game."""
    lines = []
    for arm, other in PAIRS:
        games = {each.game: each for each in made if (each.arm, each.other) == (arm, other) and each.num_left_out}
        if games:
            counts = [f"{each.num_left_out} of {each.num_seeds} on {game}" for game, each in games.items()]
            lines.append(f"- *{arm}*, less *{other}*: {', '.join(counts)}")
    return "\n".join(["Seeds that began elsewhere and are left out:", *lines]) if lines else ""


def gains_told(rows: Sequence[Trained]) -> str:
    """Arms from starts of their own, compared by what each gained over its start; means, which no interval bounds here."""
    lines = []
    for arm, other in [pair for pair in PAIRS if {*pair} & {*OWN_START}]:
        cells = []
        for game, sampling in columns(rows):
            mine, theirs = (gains_by_seed(rows, each, game, sampling) for each in (arm, other))
            if common := mine.keys() & theirs.keys():
                points = statistics.mean(mine[seed] - theirs[seed] for seed in common)
                cells.append(f"{game}, {sampling} {points:+.1f}")
        if cells:
            lines.append(f"- *{arm}*, less *{other}*: {'; '.join(cells)}")
    head = "From starts of their own, by design, by gain over the start of each, mean points without an interval:"
    return "\n".join([head, *lines]) if lines else ""


def falls(rows: Sequence[Trained]) -> str:
    """The trained arms whose success is lower after training than before it in every seed."""
    lines = []
    for arm in [name for name, (_, when) in ARMS.items() if when == "after"]:
        for game, sampling in columns(rows):
            gains = gains_by_seed(rows, arm, game, sampling)
            if gains and max(gains.values()) < 0:
                lines.append(
                    f"- *{arm}*, on {game}, {sampling}: {', '.join(f'{each:+.1f}' for each in gains.values())}"
                )
    return "\n".join(["Lower after training than before it in every seed, in points by seed:", *(lines or ["- none"])])


def tokens_told(rows: Sequence[Trained], *, budget_tokens: int) -> str:
    """How far the runs' tokens are from the budget."""
    if not rows:
        return ""
    over = 100 * (max(row.num_tokens for row in rows) / budget_tokens - 1)
    return f"The last step is not cut at the budget: a run has up to {over:.1f}% more tokens than {budget_tokens}."
