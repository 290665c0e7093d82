"""Tables of figures that a benchmark printed: `benchmarks/measured` has them, and nothing of their runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.kept import read
from benchmarks.long_row_tables import write_attention, write_layers
from benchmarks.markdown import markdown

MEASURED = Path(__file__).resolve().parent.parent / "benchmarks" / "measured"
STRATEGIES = {"LLM_HEAVY": ".8", "BALANCED": ".5", "RULE_HEAVY": ".2"}
"""Those of fixed shares, with the share that they aim at."""
Row = Mapping[str, Any]
Column = Callable[[Row], str]


def read_rows(place: str) -> list[Row]:
    """The rows of "RECORD/TABLE"."""
    record, table = place.split("/")
    return list(read(MEASURED / record / "rows" / f"{table}.json"))


def spell(value: float | None, format_spec: str) -> str:
    """A number without a leading zero. **Example** .667, +.111, 10.5; None is "never"."""
    return "never" if value is None else re.sub(r"^([+-]?)0\.", r"\1.", f"{value:{format_spec}}")


def spell_interval(values: Sequence[float], format_spec: str) -> str:
    """A value with its 95% bounds, if it has them. **Example** (.41, .32, .51) is ".41 (.32 to .51)"."""
    value, *bounds = (spell(each, format_spec) for each in values)
    return f"{value} ({' to '.join(bounds)})" if bounds else value


def number(name: str, format_spec: str = ".3f") -> Column:
    """The column of a field with one number."""
    return lambda row: spell(row[name], format_spec)


def interval(name: str, format_spec: str = ".2f") -> Column:
    """The column of a field with a value and its bounds."""
    return lambda row: spell_interval(row[name], format_spec)


def write(place: str, columns: Mapping[str, Column]) -> str:
    """A table of all rows, by the titles of its columns."""
    return markdown([*columns], [[column(row) for column in columns.values()] for row in read_rows(place)])


def write_modes(place: str) -> str:
    """The modes as lines, the scripted advisers as columns, each cell the rate of the badge and the adviser's share."""
    rows = [row for row in read_rows("hybrid_modes/modes") if row["place"] == place and "low" not in row]
    columns = list(dict.fromkeys((row["adviser"], row["policy_steps"]) for row in rows))
    body = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        cells = {(row["adviser"], row["policy_steps"]): row for row in rows if row["mode"] == mode}
        shown = [f"{spell(cells[at]['badge'], '.3f')} ({spell(cells[at]['llm_share'], '.3f')})" for at in columns]
        title = f"`strategy: {mode}`, {STRATEGIES[mode]}" if mode in STRATEGIES else f"`{mode}`"
        body.append([title, *shown, cells[columns[0]]["commit"]])
    return markdown(["mode", *(f"{llm_actor}, {steps:,} steps" for llm_actor, steps in columns), "commit"], body)


def write_language_model() -> str:
    """What an untrained language model as adviser costs, beside the policy alone."""
    rows = read_rows("hybrid_modes/modes")
    body = []
    for row in (row for row in rows if "low" in row):
        same = [each for each in rows if all(each[name] == row[name] for name in ("place", "policy_steps"))]
        [alone] = {each["badge"] for each in same if each["mode"] == "rl_only"}
        badge = spell_interval([row["badge"], row["low"], row["high"]], ".3f")
        body.append([row["place"], badge, spell(row["llm_share"], ".3f"), spell(alone, ".3f")])
    return markdown(["place", "`adaptive` beside it", "its share", "`rl_only`"], body)


def spell_lesson(row: Row) -> str:
    """The mean steps to the badge, and their range."""
    steps = row["mean_steps"]
    return "never" if steps is None else f"{steps:,} ({row['low']:,} to {row['high']:,})"


GYMS: Mapping[str, Column] = {
    "player": lambda row: f"{row['player']}, {row['place']}",
    "starter": interval("starter"),
    "first badge": interval("first_badge"),
    "steps to it": number("steps_to_first", "d"),
    "both badges": interval("both_badges"),
    "steps to both": number("steps_to_both", "d"),
}
SCREENS: Mapping[str, Column] = {
    "episodes": lambda row: str(row["played"]),
    "after buttons": lambda row: f"{row['buttons']:,}" if row["buttons"] else "",
    "starter": interval("starter"),
}
TEACHERS: Mapping[str, Column] = {
    "reward, teacher": lambda row: f"{row['reward']}, {row['teacher']}",
    "seeds": number("seeds", "d"),
    "steps: mean (range)": spell_lesson,
}
LEDUC: Mapping[str, Column] = {
    "Leduc poker": lambda row: f"seed {row['seed']}",
    "steps": number("num_steps", "d"),
    "start": number("start"),
    "uniform play": number("uniform"),
    "last iterate": number("last"),
    "average policy": number("average"),
    "CPU s": number("training_cpu_seconds", "d"),
}
LONE_TRADER: Mapping[str, Column] = {
    "seed": number("seed", "d"),
    "start": number("start"),
    "trained": number("trained"),
    "best constant offer": number("best_offer"),
    "more than it": interval("more", "+.3f"),
    "best constant trade": number("best_trade"),
    "clairvoyant": number("clairvoyant"),
    "CPU s": number("cpu_seconds", ",d"),
}
TWO_TRADERS: Mapping[str, Column] = {
    "member": lambda row: str(row["member"]),
    "more than its start, with the trained partner": interval("than_start", "+.3f"),
    "with the partner's start": interval("than_start_beside_start", "+.3f"),
    "than the best constants": interval("than_constants", "+.3f"),
}
TABLES: Mapping[str, Callable[[], str]] = {
    "hybrid gyms": partial(write, "hybrid_learning/gyms", GYMS),
    "hybrid screens": partial(write, "hybrid_learning/screens", SCREENS),
    "hybrid modes": partial(write_modes, "twin"),
    "hybrid modes on the emulator": partial(write_modes, "emulator"),
    "hybrid language model": write_language_model,
    "hybrid teachers": partial(write, "hybrid_modes/teachers", TEACHERS),
    "leduc poker": partial(write, "leduc/runs", LEDUC),
    "trading alone": partial(write, "trading/alone", LONE_TRADER),
    "trading together": partial(write, "trading/together", TWO_TRADERS),
    "long rows layers": lambda: write_layers(read_rows("long_rows/layers")),
    "long rows attention": lambda: write_attention(read_rows("long_rows/attention")),
}
