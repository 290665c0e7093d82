"""Documents as tables for people."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from components import metrics as m
from components.tracking.pages import page_url
from infra.services.password import USER, password_file
from troupe.machine.check import OPTIONAL

SPARKS = "▁▂▃▄▅▆▇█"
MOST_ROWS = 24


def runs_table(rows: Sequence[Mapping[str, Any]]) -> Group | Text:
    """One line per run, and below them one for each that is damaged."""
    if not rows:
        return Text("no runs yet")
    table = Table(box=None, header_style="bold")
    for column in ("run", "preset", "state", "step", "started"):
        table.add_column(column)
    for row in rows:
        started = str(row["started_at"] or "")
        step = "–" if row["step"] is None else str(row["step"])
        table.add_row(row["run_id"], row["preset"] or "–", _state(row["state"]), step, started)
    damaged = [row for row in rows if row["state"] == "damaged"]
    return Group(table, *(Text(f"\n{row['run_id']} is damaged: {row['error']}", style="red") for row in damaged))


def run_table(document: Mapping[str, Any]) -> Group:
    """A run: how it stands, its evaluations, its steps (thinned to a screenful), its seconds."""
    head = Text.assemble(
        (document["run_id"], "bold"), f"  preset {document['preset']}, {document['specialisation']}  ",
        _state(document["state"]),
        f"  {len(document['steps'])} of {document['num_steps'] or 'unknown'} steps",
    )  # fmt: skip
    parts: list[Any] = [head]
    if document["error"]:
        parts.append(Text(document["error"], style="red"))
    parts += [Text(each, style="red") for each in document.get("damaged", ())[1:MOST_ROWS]]
    parts += [Text(), evaluations_table(document["evaluations"])]
    if document["steps"]:
        parts += [Text(), _steps_table(document["steps"]), *_own_rewards(document["steps"])]
        parts += [Text(), _seconds_table(document["steps"])]
    return Group(*parts)


def evaluations_table(evaluations: Sequence[Mapping[str, Any]]) -> Table:
    """Held-out success by step and way of sampling, and what the last agent makes of proposals."""
    table = Table(box=None, header_style="bold", title="held-out play, without the tree", title_justify="left")
    for column in ("step", "sampling", "success", "95% interval", "n", "keeps good", "repairs bad"):
        table.add_column(column, justify="left" if column == "sampling" else "right")
    for report in evaluations:
        low, high = report["interval"]
        table.add_row(
            str(report["step"]), report["sampling"], f"{report['success_rate']:.3f}", f"{low:.3f} to {high:.3f}",
            str(report["n"]), share(report["keep_rate"]), share(report["repair_rate"]),
        )  # fmt: skip
    return table


def _steps_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    names = sorted({name for step in steps for name in step["metrics"]})
    rewards = [name for name in names if name.startswith("reward/") and name.endswith("/mean")]
    shown = {
        m.SUCCESS_RATE: "success",
        **{name: f"{name.split('/')[1].replace('_', ' ')} reward" for name in rewards},
        m.KEEP_RATE: "keeps good",
        m.REPAIR_RATE: "repairs bad",
        m.ZERO_GROUP_FRACTION: "equal groups",
    }
    table = Table(box=None, header_style="bold", title="steps", title_justify="left", padding=(0, 1, 0, 0))
    for heading in ("step", *shown.values(), "time in s"):
        table.add_column(heading, justify="right")
    table.add_column("tries", no_wrap=True)
    table.add_column("checkpoint", no_wrap=True)
    stride = max(1, -(-len(steps) // MOST_ROWS))
    for step in steps[::stride]:
        retried = [f"{_short(stage)} {count}" for stage, count in step["attempts"].items() if count > 1]
        table.add_row(
            str(step["step"]), *(share(step["metrics"].get(name)) for name in shown),
            f"{sum(step['timings'].values()):.2f}", "\n".join(retried) or "1 each",
            "\n".join(digest[:8] for digest in step["checkpoint_digest"].values()),
        )  # fmt: skip
    return table


def _own_rewards(steps: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What the run's own reward functions gave each agent, without their weights; nothing without such functions."""
    names = sorted({name for step in steps for name in step["metrics"] if m.is_own_reward(name)})
    if not names:
        return []
    table = Table(box=None, header_style="bold", title="own rewards, by agent", title_justify="left")
    for column in ("component", "agent", "first", "last", "course"):
        table.add_column(column, justify="right" if column in {"first", "last"} else "left")
    for name in names:
        agent, _, component = name.removeprefix("reward/").rpartition("/")
        values = [step["metrics"][name] for step in steps if name in step["metrics"]]
        table.add_row(component, agent, f"{values[0]:.3g}", f"{values[-1]:.3g}", spark(values))
    return [Text(), table]


def _short(stage: str) -> str:
    """A word for a stage. **Example** "compute_rewards" is "rewards", "update_policy" is "update"."""
    return stage.removeprefix("collect_").removeprefix("compute_").split("_")[0]


def _seconds_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", title="seconds by stage, all steps", title_justify="left")
    for column in ("stage", "median", "total", "course"):
        table.add_column(column, justify="left" if column in {"stage", "course"} else "right")
    for name in steps[-1]["timings"]:
        values = [step["timings"].get(name, 0.0) for step in steps]
        median = sorted(values)[len(values) // 2]
        table.add_row(
            name.removeprefix("time/").removesuffix("_seconds"), f"{median:.2f}", f"{sum(values):.1f}", spark(values)
        )
    return table


def garbage_table(document: Mapping[str, Any], *, dry_run: bool) -> Group:
    """What went from a store, or would go: checkpoints by run, then everything together."""
    table = Table(box=None, header_style="bold")
    for column in ("run", "checkpoints", "after updates"):
        table.add_column(column, justify="right" if column == "checkpoints" else "left", overflow="fold")
    for run_id, steps in document["checkpoints"].items():
        table.add_row(run_id, str(len(steps)), stretches(steps))
    verb = "would go" if dry_run else "removed"
    lines = [
        f"{verb}: {_counted(document, '')}, old checkpoints among them",
        f"{'would stay' if dry_run else 'kept'}: {_counted(document, 'kept_')}",
    ]
    if document["num_young_objects"]:
        lines.append(f"of these only for their youth: {_counted(document, 'young_')}; --grace-hours sets how young")
    if document["num_multiparts"]:
        lines.append(f"{verb}: {document['num_multiparts']:,} unfinished uploads")
    if document["num_marked"]:
        lines.append(f"marked in MLflow as removed: {document['num_marked']:,} model versions")
    text = Text("\n".join(lines))
    return Group(table, Text(), text) if document["checkpoints"] else Group(text)


def _counted(document: Mapping[str, Any], which: str) -> str:
    """**Example** "1,204 objects, 310.5 MiB"."""
    return f"{document[f'num_{which}objects']:,} objects, {document[f'num_{which}bytes'] / 2**20:,.1f} MiB"


def stretches(numbers: Sequence[int]) -> str:
    """Rising numbers, neighbours joined. **Example** `stretches([1, 2, 3, 7])` is "1-3, 7"."""
    joined: list[list[int]] = []
    for number in numbers:
        if joined and number == joined[-1][-1] + 1:
            joined[-1] = [joined[-1][0], number]
        else:
            joined.append([number])
    return ", ".join("-".join(str(end) for end in each) for each in joined)


def services_table(document: Mapping[str, Any]) -> Table:
    """Where the local services answer."""
    table = Table(box=None, show_header=False)
    places = {
        "Prefect": ("prefect", "ui_url"),
        "MLflow": ("mlflow", "url"),
        "S3": ("s3", "endpoint"),
        "worker": ("worker", "pid"),
    }
    for title, (service, field) in places.items():
        found = document[service]
        if found is None:
            table.add_row(title, Text("down", style="dim"))
        else:
            address = str(found.get(field, "up"))
            table.add_row(title, Text(page_url(address) if title == "MLflow" else address))
    return table


def access_lines(document: Mapping[str, Any], home: Path) -> list[str]:
    """How the owner gets into the pages that are up, and how his own programs do. The password itself is not told."""
    read = f"`cat {shlex.quote(str(password_file(home)))}`"
    lines = []
    if document["prefect"]:
        lines.append(f"Prefect's pages ask for a password: {read}")
    if document["mlflow"]:
        lines.append(f"MLflow's pages ask for a name, {USER}, and the same password: {read}")
    if any(document.values()):
        lines.append('mlflow, prefect, aws and Python clients in this shell: eval "$(troupe env)"')
    return lines


def doctor_table(checks: Sequence[Mapping[str, Any]]) -> Table:
    """One line a check, with the remedy where it failed."""
    table = Table(box=None, show_header=False)
    for check in checks:
        mark = Text("ok", style="green") if check["ok"] else Text("missing", style="yellow")
        if not check["ok"] and check["remedy"].startswith(OPTIONAL):
            mark = Text("optional", style="dim")
        table.add_row(
            mark, check["name"], check["detail"] if check["ok"] else f"{check['detail']}\n  {check['remedy']}"
        )
    return table


def sandbox_status_table(document: Mapping[str, Any]) -> Table:
    """How the sandbox stands on this machine."""
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    taken = document["auto"]
    table.add_row("auto takes", Text(taken or "nothing: no backend works", style="green" if taken else "red"))
    for name, backend in document["backends"].items():
        table.add_row(name, backend["detail"] if backend["works"] else f"{backend['detail']}\n  {backend['remedy']}")
    table.add_row("docker daemon", _daemon(document["engine"]))
    table.add_row("image", document["image_digest"])
    for name, value in document["limits"].items():
        table.add_row(name, value)
    table.add_row("boxes running", ", ".join(f"{name} {count}" for name, count in document["boxes"].items()))
    table.add_row(
        "leftovers", f"{document['leftovers']}; the next sandbox removes them" if document["leftovers"] else "0"
    )
    return table


def sandbox_build_table(document: Mapping[str, Any]) -> Table:
    """What was built."""
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("digest", document["digest"])
    table.add_row("size", f"{document['num_bytes'] / 2**20:.1f} MiB")
    table.add_row("folder", document["folder"])
    daemon = document["engine"]
    table.add_row(
        "docker daemon",
        f"none: {document['why_no_engine']}; bubblewrap needs none" if daemon is None else _daemon(daemon),
    )
    table.add_row("seconds", f"{document['seconds']:.1f}")
    return table


def _daemon(daemon: Mapping[str, Any] | None) -> str:
    if daemon is None:
        return "none runs"
    return f"version {daemon['version']} at {daemon['host']}, {'private' if daemon['private'] else 'not ours'}"


def spark(values: Sequence[float], width: int = 40) -> str:
    """A line of blocks, each the mean of a slice of `values`. **Example** `spark([0, 1])` is "▁█"."""
    if not values:
        return ""
    width = min(width, len(values))
    slices = [values[i * len(values) // width : (i + 1) * len(values) // width] for i in range(width)]
    means = [sum(each) / len(each) for each in slices]
    low, high = min(means), max(means)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((value - low) * scale)] for value in means)


def scaled_spark(values: Sequence[float], width: int = 24) -> str:
    """The newest value, and the course between its least and its greatest mean. **Example** "0.71  0.31 ▁▄█ 0.71"."""
    if not values:
        return ""
    return f"{share(values[-1])}  {share(min(values))} {spark(values, width)} {share(max(values))}"


def share(value: float | None) -> str:
    """A number between 0 and 1 with two decimals, or a dash for none."""
    return "–" if value is None else f"{value:.2f}"


def _state(name: str) -> Text:
    styles = {"completed": "green", "running": "cyan", "failed": "red", "damaged": "red", "interrupted": "yellow"}
    return Text(name, style=styles.get(name, ""))
