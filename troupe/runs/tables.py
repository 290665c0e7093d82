"""Runs and stores as terminal tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from components import metrics as m
from components.runs.available_checkpoints import format_ranges

SPARKS = "▁▂▃▄▅▆▇█"
MOST_ROWS = 24
_STEPS_TITLE = "steps of training, in which the best candidate of each group plays on"
_MIXED_NOTE = "checkpoint D of N: the update's weights were then mixed with those of others, N in all"


def runs_table(rows: Sequence[Mapping[str, Any]]) -> Group | Text:
    """One line per run, then one for each damaged run."""
    if not rows:
        return Text("no runs yet")
    table = _table("<run", "<preset", "<state", "<step", "<started")
    for row in rows:
        started = str(row["started_at"] or "")
        step = "–" if row["step"] is None else str(row["step"])
        table.add_row(row["run_id"], row["preset"] or "–", _state(row["state"]), step, started)
    damaged = [row for row in rows if row["state"] == "damaged"]
    return Group(table, *(Text(f"\n{row['run_id']} is damaged: {row['error']}", style="red") for row in damaged))


def run_table(document: Mapping[str, Any]) -> Group:
    """A run: its state, evaluations, steps (thinned to fit a screen) and seconds by stage."""
    head = Text.assemble(
        (document["run_id"], "bold"), f"  preset {document['preset']}, {document['specialisation']}  ",
        _state(document["state"]),
        f"  {_steps_line(len(document['steps']), document['num_steps'])}",
    )  # fmt: skip
    parts: list[Any] = [head]
    if document["error"]:
        parts.append(Text(document["error"], style="red"))
    parts += [Text(each, style="red") for each in document.get("damaged", ())[1:MOST_ROWS]]
    parts += [Text(), evaluations_table(document["evaluations"])]
    if document["steps"]:
        parts += [Text(), _steps_table(document["steps"])]
        if any(step.get("checkpoint_parents") for step in document["steps"]):
            parts.append(Text(_MIXED_NOTE, style="dim"))
        parts += _own_rewards(document["steps"])
        parts += [Text(), _seconds_table(document["steps"])]
    return Group(*parts)


def _steps_line(num_steps: int, wanted: int | None) -> str:
    """**Example** "2 of 3 steps"; "6 steps, 3 were asked for" after a longer run was started again with fewer."""
    if wanted is not None and num_steps > wanted:
        return f"{num_steps} steps, {wanted} were asked for"
    return f"{num_steps} of {wanted or 'unknown'} steps"


def evaluations_table(evaluations: Sequence[Mapping[str, Any]]) -> Table:
    """Held-out success by step and sampling, and how often the last agent of a team keeps or repairs proposals."""
    earned = [m.payoffs(report.get("metrics", {})) for report in evaluations]
    agents = list(dict.fromkeys(agent for each in earned for agent in each))
    of_team = [">keeps good", ">repairs bad"] if follows_proposals(evaluations) else []
    last = [f">pays {agent}" for agent in agents] or of_team
    columns = (">step", "<sampling", ">success", ">95% interval", ">n", *last)
    table = _table(*columns, title=f"held-out play, without the tree{_own_temperatures(evaluations)}")
    for report, paid in zip(evaluations, earned, strict=True):
        low, high = report["interval"]
        shares = [share(report["keep_rate"]), share(report["repair_rate"])] if of_team else []
        table.add_row(
            str(report["step"]), str(report["sampling"]), f"{report['success_rate']:.3f}", f"{low:.3f} to {high:.3f}",
            str(report["n"]), *([f"{paid[agent]:.3f}" if agent in paid else "–" for agent in agents] or shares),
        )  # fmt: skip
    return table


def follows_proposals(evaluations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an agent answered others' proposals in any of them, as the last agent of a team does."""
    return any(report[name] is not None for report in evaluations for name in ("keep_rate", "repair_rate"))


def _own_temperatures(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """**Example** "; sample: judge at 0.7"; empty if no agent has a temperature of its own."""
    own = {f"{role} at {value:g}" for each in evaluations for role, value in (each.get("temperatures") or {}).items()}
    return f"; sample: {', '.join(sorted(own))}" if own else ""


def _table(*columns: str, title: str | None = None) -> Table:
    """An empty table; a column "<name" is left-aligned, ">name" right-aligned."""
    table = Table(box=None, header_style="bold", title=title, title_justify="left")
    for column in columns:
        table.add_column(column[1:], justify="left" if column[0] == "<" else "right", overflow="fold")
    return table


def _steps_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    names = sorted({name for step in steps for name in step["metrics"]})
    rewards = m.earning_names(names)
    shares = {m.KEEP_RATE: "keeps good", m.REPAIR_RATE: "repairs bad", m.ZERO_GROUP_FRACTION: "equal groups"}
    shown = {
        m.SUCCESS_RATE: m.TRAINING_SUCCESS,
        **{name: m.earning_label(name).replace("_", " ") for name in rewards},
        **{name: label for name, label in shares.items() if name in names},
    }
    table = _table(*(f">{heading}" for heading in ("step", *shown.values(), "time in s")), title=_STEPS_TITLE)
    table.padding = (0, 1, 0, 0)
    table.add_column("tries", no_wrap=True)
    table.add_column("checkpoint", no_wrap=True)
    stride = max(1, -(-len(steps) // MOST_ROWS))
    for step in steps[::stride]:
        retried = [f"{_short(stage)} {count}" for stage, count in step["attempts"].items() if count > 1]
        table.add_row(
            str(step["step"]), *(share(step["metrics"].get(name)) for name in shown),
            f"{sum(step['timings'].values()):.2f}", "\n".join(retried) or "1 each",
            "\n".join(
                digest[:8] + _describe_parents(step.get("checkpoint_parents", {}).get(policy, ()))
                for policy, digest in step["checkpoint_digest"].items()
            ),
        )  # fmt: skip
    return table


def _describe_parents(parents: Sequence[str]) -> str:
    """**Example** " of 2" for a checkpoint that was mixed from two; empty for one that an update left."""
    return f" of {len(parents)}" if parents else ""


def _own_rewards(steps: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The unweighted values of the user's reward functions by agent; empty without such functions."""
    names = sorted({name for step in steps for name in step["metrics"] if m.is_own_reward(name)})
    if not names:
        return []
    table = _table("<component", "<agent", ">first", ">last", "<course", title="own rewards, by agent")
    for name in names:
        agent, _, component = name.removeprefix("reward/").rpartition("/")
        values = [step["metrics"][name] for step in steps if name in step["metrics"]]
        table.add_row(component, agent, f"{values[0]:.3g}", f"{values[-1]:.3g}", spark(values))
    return [Text(), table]


def _short(stage: str) -> str:
    """A short name for a stage. **Example** "compute_rewards" is "rewards", "update_policy" is "update"."""
    return stage.removeprefix("collect_").removeprefix("compute_").split("_")[0]


def _seconds_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("<stage", ">median", ">total", "<course", title="seconds by stage, all steps")
    for name in steps[-1]["timings"]:
        values = [step["timings"].get(name, 0.0) for step in steps]
        median = sorted(values)[len(values) // 2]
        table.add_row(
            name.removeprefix("time/").removesuffix("_seconds"), f"{median:.2f}", f"{sum(values):.1f}", spark(values)
        )
    return table


def garbage_table(document: Mapping[str, Any], *, dry_run: bool) -> Group:
    """What was removed from a store, or would be: checkpoints by run, then totals."""
    table = _table("<run", ">checkpoints", "<after updates")
    for run_id, steps in document["checkpoints"].items():
        table.add_row(run_id, str(len(steps)), format_ranges(steps))
    verb = "would go" if dry_run else "removed"
    lines = [
        f"{verb}: {_count(document, '')}, old checkpoints among them",
        f"{'would stay' if dry_run else 'kept'}: {_count(document, 'kept_')}",
    ]
    if document["num_young_objects"]:
        lines.append(f"of these only because they are young: {_count(document, 'young_')}; --grace-hours sets the age")
    if document["num_rollouts"]:
        lines.append(f"{verb}: {document['num_rollouts']:,} results of old rollouts, rewards and batches")
    if document["num_shared"]:
        lines.append(f"{verb}: {document['num_shared']:,} shared results that no run uses")
    if document["num_multiparts"]:
        lines.append(f"{verb}: {document['num_multiparts']:,} unfinished uploads")
    if document["num_marked"]:
        lines.append(f"marked in MLflow as removed: {document['num_marked']:,} model versions")
    text = Text("\n".join(lines))
    return Group(table, Text(), text) if document["checkpoints"] else Group(text)


def _count(document: Mapping[str, Any], which: str) -> str:
    """**Example** "1,204 objects, 310.5 MiB"."""
    return f"{document[f'num_{which}objects']:,} objects, {document[f'num_{which}bytes'] / 2**20:,.1f} MiB"


def spark(values: Sequence[float], width: int = 40) -> str:
    """A sparkline; each block is the mean of a slice of `values`. **Example** `spark([0, 1])` is "▁█"."""
    width = min(width, len(values))
    slices = [values[i * len(values) // width : (i + 1) * len(values) // width] for i in range(width)]
    means = [sum(each) / len(each) for each in slices]
    low, high = min(means), max(means)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((value - low) * scale)] for value in means)


def scale_spark(values: Sequence[float], width: int = 24) -> str:
    """The newest value, then a sparkline between the minimum and the maximum. **Example** "0.71  0.31 ▁▄█ 0.71"."""
    if not values:
        return ""
    return f"{share(values[-1])}  {share(min(values))} {spark(values, width)} {share(max(values))}"


def share(value: float | None) -> str:
    """A number with two decimals, or a dash for None."""
    return "–" if value is None else f"{value:.2f}"


def _state(name: str) -> Text:
    styles = {"completed": "green", "running": "cyan", "failed": "red", "damaged": "red", "interrupted": "yellow"}
    return Text(name, style=styles.get(name, ""))
