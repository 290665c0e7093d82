"""Tables of figures that a benchmark printed: their runs were not kept, so `benchmarks/measured` has what the pages stated."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.kept import read
from benchmarks.markdown import markdown

MEASURED = Path(__file__).resolve().parent.parent / "benchmarks" / "measured"
SHARES = {
    "LLM_HEAVY": "`strategy: LLM_HEAVY`, .8",
    "BALANCED": "`strategy: BALANCED`, .5",
    "RULE_HEAVY": "`strategy: RULE_HEAVY`, .2",
}
Row = Mapping[str, Any]


def read_rows(place: str) -> list[Row]:
    """The rows of "RECORD/TABLE"."""
    record, table = place.split("/")
    return list(read(MEASURED / record / "rows" / f"{table}.json"))


def spell(value: float | None, format_spec: str = ".3f") -> str:
    """A number without its leading zero. **Example** .667, never, +.111."""
    return "never" if value is None else f"{value:{format_spec}}".replace("0.", ".", 1)


def spell_interval(values: Sequence[float], format_spec: str = ".2f") -> str:
    """A value with its 95% bounds, if it has them. **Example** (.41, .32, .51) is ".41 (.32 to .51)"."""
    value, *bounds = (spell(each, format_spec) for each in values)
    return f"{value} ({' to '.join(bounds)})" if bounds else value


def write_gyms() -> str:
    """Both gyms of the cartridge, by player and place."""
    body = [
        [
            f"{row['player']}, {row['place']}",
            spell_interval(row["starter"]),
            spell_interval(row["first_badge"]),
            spell(row["steps_to_first"], "d"),
            spell_interval(row["both_badges"]),
            spell(row["steps_to_both"], "d"),
        ]
        for row in read_rows("hybrid_learning/gyms")
    ]
    return markdown(["player", "starter", "first badge", "steps to it", "both badges", "steps to both"], body)


def write_screens() -> str:
    """How often a policy that sees the screen finds the starter."""
    body = [
        [row["played"], f"{row['buttons']:,}" if row["buttons"] else "", spell_interval(row["starter"])]
        for row in read_rows("hybrid_learning/screens")
    ]
    return markdown(["episodes", "after buttons", "starter"], body)


def write_modes(place: str) -> str:
    """The modes as lines, the scripted advisers as columns, each cell the rate of the badge and the adviser's share."""
    rows = [row for row in read_rows("hybrid_modes/modes") if row["place"] == place and "low" not in row]
    columns = list(dict.fromkeys((row["policy_steps"], row["adviser"]) for row in rows))
    cells = {(row["mode"], row["policy_steps"], row["adviser"]): row for row in rows}
    body = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        of_mode = [cells[mode, *column] for column in columns]
        shown = [f"{spell(row['badge'])} ({spell(row['llm_share'])})" for row in of_mode]
        body.append([SHARES.get(mode, f"`{mode}`"), *shown, of_mode[0]["commit"]])
    titles = [f"{adviser}, {steps:,} steps" for steps, adviser in columns]
    return markdown(["mode", *titles, "commit"], body)


def write_language_model() -> str:
    """What an untrained language model as adviser costs, beside the policy alone."""
    rows = read_rows("hybrid_modes/modes")
    body = []
    for row in (row for row in rows if "low" in row):
        alone = next(
            each
            for each in rows
            if (each["mode"], each["adviser"], each["place"]) == ("rl_only", "competent", row["place"])
            and each["policy_steps"] == row["policy_steps"]
        )
        badge = spell_interval([row["badge"], row["low"], row["high"]], ".3f")
        body.append([row["place"], badge, spell(row["llm_share"]), spell(alone["badge"])])
    return markdown(["place", "`adaptive` beside it", "its share", "`rl_only`"], body)


def write_teachers() -> str:
    """The steps to the badge, by reward and teacher."""
    body = []
    for row in read_rows("hybrid_modes/teachers"):
        steps = "never" if row["mean_steps"] is None else f"{row['mean_steps']:,} ({row['low']:,} to {row['high']:,})"
        body.append([f"{row['reward']}, {row['teacher']}", str(row["seeds"]), steps])
    return markdown(["reward, teacher", "seeds", "steps: mean (range)"], body)


def write_leduc() -> str:
    """Exploitabilities of the runs of Leduc poker."""
    numbers = ("start", "uniform", "last", "average")
    body = [
        [
            f"seed {row['seed']}",
            str(row["num_steps"]),
            *(f"{row[name]:.3f}" for name in numbers),
            f"{row['training_cpu_seconds']}",
        ]
        for row in read_rows("leduc/runs")
    ]
    return markdown(["Leduc poker", "steps", "start", "uniform play", "last iterate", "average policy", "CPU s"], body)


def write_lone_trader() -> str:
    """One member that learns to offer, by seed."""
    body = [
        [
            f"{row['seed']}",
            *(spell(row[name]) for name in ("start", "trained", "best_offer")),
            spell_interval(row["more"], "+.3f"),
            *(spell(row[name]) for name in ("best_trade", "clairvoyant")),
            f"{row['cpu_seconds']:,}",
        ]
        for row in read_rows("trading/alone")
    ]
    titles = [
        "seed",
        "start",
        "trained",
        "best constant offer",
        "more than it",
        "best constant trade",
        "clairvoyant",
        "CPU s",
    ]
    return markdown(titles, body)


def write_two_traders() -> str:
    """Two members that learn, beside their starts and the best constants."""
    names = ("than_start", "than_start_beside_start", "than_constants")
    body = [
        [row["member"], *(spell_interval(row[name], "+.3f") for name in names)] for row in read_rows("trading/together")
    ]
    titles = [
        "member",
        "more than its start, with the trained partner",
        "with the partner's start",
        "than the best constants",
    ]
    return markdown(titles, body)


TABLES: Mapping[str, Callable[[], str]] = {
    "hybrid gyms": write_gyms,
    "hybrid screens": write_screens,
    "hybrid modes": partial(write_modes, "twin"),
    "hybrid modes on the emulator": partial(write_modes, "emulator"),
    "hybrid language model": write_language_model,
    "hybrid teachers": write_teachers,
    "leduc poker": write_leduc,
    "trading alone": write_lone_trader,
    "trading together": write_two_traders,
}
