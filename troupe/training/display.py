"""The live display of a training run: held-out success, progress bars, the time to go, and recent metrics."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from time import monotonic
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from components import metrics as m
from components.reporting.progress import Progress as StageProgress
from components.reporting.progress import subscribe
from components.schema import EvalReport
from components.stage_roles import Roles
from troupe.consoles import Heartbeat
from troupe.runs.tables import scale_spark, share

_STAGE_WORDS = re.compile(r"^(collect|compute)_|_(policy|checkpoint)$")
"""The parts of a stage's name that the display leaves out."""
_LONGEST_COURSE = 24
_STEPS_ESTIMATED_FROM = 5
LINE_EVERY_SECONDS = 5.0
"""The shortest time between two lines of steps without a terminal."""


class StepClock:
    """Estimates from the newest steps how long the others will take. **Example** 4 and 6 s, 10 to go: 50 s.

    `now` gives seconds. A step ends with `finish`; evaluations after it count as a part of the next.
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._began_at: float | None = None
        self._seconds: deque[float] = deque(maxlen=_STEPS_ESTIMATED_FROM)
        self._num_to_go = 0.0

    def start(self) -> None:
        """The first step begins, unless it has begun."""
        if self._began_at is None:
            self._began_at = self._now()

    def finish(self, num_to_go: float) -> None:
        """A step has ended, and so many are to go."""
        if self._began_at is not None:
            self._seconds.append(self._now() - self._began_at)
        self._began_at, self._num_to_go = self._now(), num_to_go

    def remaining_seconds(self) -> float | None:
        """The seconds to go; None before the first step has ended, and after the last."""
        if not self._seconds or self._began_at is None or self._num_to_go <= 0:
            return None
        each = sum(self._seconds) / len(self._seconds)
        return max(each * self._num_to_go - (self._now() - self._began_at), each * (self._num_to_go - 1))

    def words(self) -> str:
        """**Example** "about 0:12:30 to go"; empty if that is unknown."""
        seconds = self.remaining_seconds()
        return "" if seconds is None else f"about {timedelta(seconds=round(seconds))} to go"


class _Remaining(ProgressColumn):
    """The words of a clock."""

    def __init__(self, clock: StepClock) -> None:
        super().__init__()
        self._clock = clock

    def render(self, task: Task) -> Text:
        return Text(self._clock.words(), style="progress.remaining")


class TrainingDisplay:
    """Shows progress reports: redrawn in place on a terminal; elsewhere as lines, with no long silence between two."""

    def __init__(self, console: Console, roles: Roles | None = None) -> None:
        """`roles` are those of the stages that report; None: those of a team."""
        self._console = console
        self._roles = roles or Roles()
        self._clock = StepClock()
        columns = (TextColumn("{task.description:16}"), BarColumn(24))
        self._steps = Progress(
            *columns, MofNCompleteColumn(), TimeElapsedColumn(), _Remaining(self._clock), console=console
        )
        self._stage = Progress(
            *columns,
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[facts]}"),
            console=console,
        )
        self._steps_bar = self._steps.add_task("steps", total=None, visible=False)
        self._stage_bar = self._stage.add_task("starting", total=None, facts="", done="")
        self._policy_shares: dict[str, float] = {}
        self._held_out: dict[str, list[EvalReport]] = {}
        self._rewards: dict[str, list[float]] = {}
        self._links: set[str] = set()
        self._held_out_text = Text()
        self._figures = Text()
        self._last_line_at = 0.0
        self._heartbeat = Heartbeat(self.say_stage)

    @contextmanager
    def show(self) -> Iterator[None]:
        """Show this process's progress inside the block."""
        with subscribe(self.hear):
            if self._console.quiet:
                yield
            elif not self._console.is_terminal:
                with self._heartbeat.beating():
                    yield
            else:
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
        written = self._roles[progress.stage].writes
        if written in ("rollouts", "experience"):
            self._clock.start()
        is_held_out = written in ("plays", "evaluations")
        name = "held-out play" if is_held_out else _STAGE_WORDS.sub("", progress.stage).replace("_", " ")
        if name != self._stage.tasks[0].description:
            self._stage.reset(self._stage_bar)
            self._policy_shares.clear()
        done, total = self._count_done(progress)
        facts = stage_facts(progress.facts)
        shown = f"{int(done)}/{total}" if progress.total != 1 else f"{done / total:.0%}" if done else ""
        self._stage.update(self._stage_bar, description=name, completed=done, total=total, facts=facts, done=shown)
        if written == "initial checkpoints" and progress.facts:
            self._show_warm_start(progress, facts)

    def _count_done(self, progress: StageProgress) -> tuple[float, int]:
        """What is done of how much; of several policies that are updated at once, all together."""
        if (policy := progress.facts.get("policy")) is None:
            return progress.done, progress.total
        self._policy_shares[policy] = progress.done
        return sum(self._policy_shares.values()), len(self._policy_shares)

    def _show_warm_start(self, progress: StageProgress, facts: str) -> None:
        """Print how cloning went and why it stopped; on a terminal the reason alone, since the bar shows the rest."""
        is_over = "reused" in progress.facts
        line = f"warm start{'' if is_over else f' {progress.done:g}/{progress.total}'}  {facts}"
        if "enough" in progress.facts:
            self._print(line)
        else:
            self._line(line, at_once=is_over)

    def say_stage(self) -> None:
        """Print what is being done, for a log in which nothing else has happened for a while."""
        [bar] = self._stage.tasks
        words = " ".join(filter(None, [bar.description, bar.fields["done"], bar.fields["facts"]]))
        in_stage = f"{timedelta(seconds=round(bar.elapsed or 0))}"
        self._print("  ".join(filter(None, [words, in_stage, self._clock.words()])))

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
        self._held_out_text.plain = "\n".join(format_held_out(reports) for reports in self._held_out.values())
        self._line(format_held_out(self._held_out[report.sampling]), at_once=True)
        if report.step == 0:
            self._tell_answers(f"before training, {report.sampling}", m.answer_shares(report.metrics))

    def _finish_step(self, progress: StageProgress) -> None:
        num_to_go = max(progress.total - progress.done, 0)
        self._clock.finish(num_to_go)
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
        ahead = (
            [f"{num_to_go:g} {'step' if num_to_go == 1 else 'steps'} left", self._clock.words()] if num_to_go else []
        )
        line = [f"step {progress.step} ({progress.done} of {progress.total})", figures, f"{seconds:.1f} s", *ahead]
        self._line("  ".join(filter(None, line)), at_once=not num_to_go)

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
            self._print(text)

    def _print(self, text: str) -> None:
        self._heartbeat.reset()
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def stage_facts(facts: Mapping[str, Any]) -> str:
    """**Example** "loss 0.12  success 0.31"; of a finished stage "2.5 s", or that its result was read."""
    if facts.get("reused"):
        return "read from the store"
    texts = []
    for key, each in facts.items():
        rounded = f"{each:.3g}" if isinstance(each, float) else f"{each}"
        if key == "seconds":
            texts.append(f"took {rounded} s")
        elif key == "enough":
            texts.append(f"stops here: warm_start.min_success {rounded} is reached")
        elif key != "reused":
            texts.append(f"{key} {rounded}")
    return "  ".join(texts)


def _courses(rewards: Mapping[str, Sequence[float]], columns: int) -> Iterator[str]:
    """A line for each: its name, its newest value, and its course, shortened to fit in `columns`."""
    longest = max((len(_in_training(name)) for name in rewards), default=0)
    for name, values in rewards.items():
        room = columns - longest - 2 - len(scale_spark(values, 1)) + 1
        yield f"{_in_training(name):{longest}}  {scale_spark(values, max(min(room, _LONGEST_COURSE), 1))}"


def format_held_out(reports: Sequence[EvalReport]) -> str:
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
    """The label of a rollout metric. Success in training does not measure the team, since trees continue from the best."""
    return m.TRAINING_SUCCESS if name == m.SUCCESS_RATE else m.earning_label(name)
