"""The live terminal of a training run: one bar for the steps, one for the stage, and the newest figures."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from components import metrics as m
from flows.tables import share, spark
from tasks.progress import Progress as StageProgress
from tasks.progress import listening

NAMES = {
    "warm_start": "warm start",
    "refresh_weights": "refresh weights",
    "collect_rollouts": "rollout",
    "compute_rewards": "rewards",
    "compute_advantages": "advantages",
    "update_policy": "update",
    "publish_checkpoint": "publish",
    "evaluate_policy": "evaluate",
}
LINE_EVERY_SECONDS = 5.0
"""How often a log without a terminal gets a line."""


class TrainingDisplay:
    """Draws what it hears. On a terminal the picture is redrawn in place; elsewhere a line is printed now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("{task.description:16}"), BarColumn(36), MofNCompleteColumn(), TimeElapsedColumn())
        self._steps = Progress(*columns, TimeRemainingColumn(), console=console)
        self._stage = Progress(*columns, TextColumn("{task.fields[facts]}"), console=console)
        self._steps_bar = self._steps.add_task("steps", total=None, visible=False)
        self._stage_bar = self._stage.add_task("starting", total=None, facts="")
        self._rewards: dict[str, list[float]] = {}
        self._figures = Text()
        self._last_line_at = 0.0
        self._stage_name = ""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Listen to this process's progress and draw it inside the block."""
        with listening(self.hear):
            if not self._console.is_terminal:
                yield
                return
            with Live(Group(self._figures, self._steps, self._stage), console=self._console, refresh_per_second=8):
                yield

    def hear(self, progress: StageProgress) -> None:
        """Take one report into the picture."""
        if progress.stage == "iteration":
            self._finish_step(progress)
            return
        name = NAMES.get(progress.stage, progress.stage)
        if name != self._stage_name:
            self._stage.reset(self._stage_bar)
            self._stage_name = name
        facts = "  ".join(f"{key} {_figure(value)}" for key, value in progress.facts.items() if key != "reused")
        self._stage.update(
            self._stage_bar, description=name, completed=progress.done, total=progress.total, facts=facts
        )
        if progress.stage in {"warm_start", "evaluate_policy"} and progress.facts:
            self._line(f"{name} {progress.done}/{progress.total}  {facts}")

    def _finish_step(self, progress: StageProgress) -> None:
        self._steps.update(self._steps_bar, completed=progress.done, total=progress.total, visible=True)
        metrics = progress.facts.get("metrics", {})
        for name, value in metrics.items():
            if name == m.SUCCESS_RATE or (name.startswith("reward/") and name.endswith("/mean")):
                self._rewards.setdefault(name, []).append(value)
        seconds = sum(progress.facts.get("timings", {}).values())
        self._figures.plain = "\n".join(
            [
                *(f"{name:32} {share(values[-1])}  {spark(values)}" for name, values in self._rewards.items()),
                f"keeps a good proposal {share(metrics.get(m.KEEP_RATE))}   repairs a bad one "
                f"{share(metrics.get(m.REPAIR_RATE))}   groups without signal "
                f"{share(metrics.get(m.ZERO_GROUP_FRACTION))}   {seconds:.1f} s in stages",
            ]
        )
        figures = "  ".join(f"{name} {share(values[-1])}" for name, values in self._rewards.items())
        self._line(
            f"step {progress.done}/{progress.total}  {figures}  {seconds:.1f} s",
            at_once=progress.done == progress.total,
        )

    def _line(self, text: str, *, at_once: bool = False) -> None:
        """For logs: a line, unless the last one is only just printed."""
        now = monotonic()
        if not self._console.is_terminal and (at_once or now - self._last_line_at >= LINE_EVERY_SECONDS):
            self._last_line_at = now
            self._console.print(text, highlight=False)


def _figure(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
