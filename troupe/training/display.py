"""The live terminal display of a training run: held-out success, progress bars and recent metrics."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from components import metrics as m
from components.progress import Progress as StageProgress
from components.progress import subscribe
from components.schema import EvalReport
from troupe.runs.tables import scaled_spark, share

_STAGE_WORDS = re.compile(r"^(collect|compute)_|_(policy|checkpoint)$")
"""The parts of a stage's name that the display leaves out."""
_LONGEST_COURSE = 24
LINE_EVERY_SECONDS = 5.0
"""The shortest time between two lines without a terminal."""


class TrainingDisplay:
    """Shows progress reports: redrawn in place on a terminal, as occasional lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("{task.description:16}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
        self._steps = Progress(*columns, TimeRemainingColumn(), console=console)
        self._stage = Progress(*columns, TextColumn("{task.fields[facts]}"), console=console)
        self._steps_bar = self._steps.add_task("steps", total=None, visible=False)
        self._stage_bar = self._stage.add_task("starting", total=None, facts="")
        self._held_out: dict[str, list[EvalReport]] = {}
        self._rewards: dict[str, list[float]] = {}
        self._links: set[str] = set()
        self._held_out_text = Text()
        self._figures = Text()
        self._last_line_at = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show this process's progress inside the block."""
        with subscribe(self.hear):
            if not self._console.is_terminal:
                yield
                return
            picture = Group(self._held_out_text, self._figures, self._steps, self._stage)
            with Live(picture, console=self._console, refresh_per_second=8):
                yield

    def hear(self, progress: StageProgress) -> None:
        """Show one progress report."""
        taken: dict[str, Callable[[StageProgress], None]] = {
            "iteration": self._finish_step,
            "evaluated": self._take_evaluation,
            "gains": self._tell_gains,
            "links": self._show_links,
        }
        if progress.stage in taken:
            taken[progress.stage](progress)
            return
        name = _STAGE_WORDS.sub("", progress.stage).replace("_", " ")
        if name != self._stage.tasks[0].description:
            self._stage.reset(self._stage_bar)
        facts = _stage_facts(progress.facts)
        self._stage.update(
            self._stage_bar, description=name, completed=progress.done, total=progress.total, facts=facts
        )
        if progress.stage == "warm_start" and progress.facts:
            is_over = "reused" in progress.facts
            self._line(f"{name}{'' if is_over else f' {progress.done}/{progress.total}'}  {facts}", at_once=is_over)

    def _show_links(self, progress: StageProgress) -> None:
        """Print each address once, on an unwrapped line."""
        for name, address in progress.facts.items():
            if address and name not in self._links:
                self._links.add(name)
                self._console.print(f"{name:8} {address}", soft_wrap=True, highlight=False)

    def _tell_gains(self, progress: StageProgress) -> None:
        for line in progress.facts["lines"]:
            self._console.print(line, soft_wrap=True, highlight=False)

    def _take_evaluation(self, progress: StageProgress) -> None:
        report: EvalReport = progress.facts["report"]
        self._held_out.setdefault(report.sampling, []).append(report)
        self._held_out_text.plain = "\n".join(held_out_line(reports) for reports in self._held_out.values())
        self._line(held_out_line(self._held_out[report.sampling]), at_once=True)
        if report.step == 0:
            self._tell_answers(f"before training, {report.sampling}", m.answer_shares(report.metrics))

    def _finish_step(self, progress: StageProgress) -> None:
        self._steps.update(self._steps_bar, completed=progress.done, total=progress.total, visible=True)
        metrics = progress.facts.get("metrics", {})
        for name in (m.SUCCESS_RATE, *m.earning_names(metrics)):
            if name in metrics:
                self._rewards.setdefault(name, []).append(metrics[name])
        if progress.step == 0:
            self._tell_answers("in step 0", m.answer_shares(metrics))
        seconds = sum(progress.facts.get("timings", {}).values())
        shares = {
            "keeps good": m.KEEP_RATE,
            "repairs bad": m.REPAIR_RATE,
            "groups without signal": m.ZERO_GROUP_FRACTION,
        }
        told = [f"{label} {share(metrics[name])}" for label, name in shares.items() if name in metrics]
        courses = _courses(self._rewards, self._console.width)
        self._figures.plain = "\n".join([*courses, "  ".join([*told, f"{seconds:.1f} s a step"])])
        figures = "  ".join(f"{_in_training(name)} {share(values[-1])}" for name, values in self._rewards.items())
        self._line(
            f"step {progress.step} ({progress.done} of {progress.total})  {figures}  {seconds:.1f} s",
            at_once=progress.done == progress.total,
        )

    def _tell_answers(self, when: str, shares: Mapping[str, tuple[float, float]]) -> None:
        """Print which shares of the agents' answers are right and malformed: whether there is anything to learn from."""
        each = (f"{agent} {right:.0%} right, {bad:.0%} malformed" for agent, (right, bad) in shares.items())
        if told := "; ".join(each):
            self._console.print(f"answers {when}: {told}", highlight=False, soft_wrap=True)

    def _line(self, text: str, *, at_once: bool = False) -> None:
        """Print a line for logs, unless the last one was printed recently."""
        now = monotonic()
        if not self._console.is_terminal and (at_once or now - self._last_line_at >= LINE_EVERY_SECONDS):
            self._last_line_at = now
            self._console.print(text, highlight=False, soft_wrap=True)


def _stage_facts(facts: Mapping[str, Any]) -> str:
    """**Example** "loss 0.12  success 0.31"; of a finished stage "seconds 2.5", or that its result was read."""
    if facts.get("reused"):
        return "read from the store"
    rounded = {key: f"{each:.3g}" if isinstance(each, float) else each for key, each in facts.items()}
    return "  ".join(f"{key} {each}" for key, each in rounded.items() if key != "reused")


def _courses(rewards: Mapping[str, Sequence[float]], columns: int) -> Iterator[str]:
    """A line for each: its name, its newest value, and its course, shortened to fit in `columns`."""
    longest = max((len(_in_training(name)) for name in rewards), default=0)
    for name, values in rewards.items():
        room = columns - longest - 2 - len(scaled_spark(values, 1)) + 1
        yield f"{_in_training(name):{longest}}  {scaled_spark(values, max(min(room, _LONGEST_COURSE), 1))}"


def held_out_line(reports: Sequence[EvalReport]) -> str:
    """**Example** "held-out success, greedy  0.502 -> 0.734  at step 100  (0.694 to 0.771, n 500)"."""
    first, last = reports[0], reports[-1]
    low, high = last.interval
    course = f"{first.success_rate:.3f}" + (f" -> {last.success_rate:.3f}" if len(reports) > 1 else "")
    earned = "".join(f"  {agent} {value:.3f}" for agent, value in m.payoffs(last.metrics).items())
    if m.tells_payoffs_alone([asdict(each) for each in reports]):
        return f"held-out payoffs, {last.sampling:6}{earned}  at step {last.step}  (n {last.n})"
    return (
        f"held-out success, {last.sampling:6}  {course}  at step {last.step}  ({low:.3f} to {high:.3f}, n {last.n})"
        + (earned and f"; an episode pays{earned}")
    )


def _in_training(name: str) -> str:
    """The label of a rollout metric. Success of the selected branch does not measure the team: a tree goes on from the best."""
    return "solved on the selected branch" if name == m.SUCCESS_RATE else m.earning_label(name)
