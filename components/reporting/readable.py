"""What people read of values that hold much more: as text, and in a notebook."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from components.text.escaping import printable


class Readable:
    """A value that prints as its `_lines`, also at the end of a notebook's cell. Its `repr` stays whole."""

    __slots__ = ()

    def _lines(self) -> Iterator[str]:
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class ReadableEpisode(Readable):
    """**Example** "plan_path, problem 3f…: solved", then for each answer "  turn 1, tool_agent: R,R,D  (reward 0.2)"."""

    __slots__ = ()
    problem: Any
    success: bool
    error: str | None

    @property
    def path(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _lines(self) -> Iterator[str]:
        end = f"failed: {self.error}" if self.error else "solved" if self.success else "not solved"
        yield printable(f"{self.problem.environment}, problem {self.problem.problem_id}: {end}")
        for node in self.path:
            chosen = node.candidates[node.chosen]
            among = f", chosen of {len(node.candidates)}" if len(node.candidates) > 1 else ""
            refused = f"; not understood: {chosen.outcome.error}" if chosen.outcome.error else ""
            answer = "\n    ".join(chosen.text.strip().splitlines()) or "(nothing)"
            said = "\n    " if "\n" in answer else " "
            yield printable(
                f"  turn {node.group.turn + 1}, {node.group.agent}:{said}{answer}  (reward {chosen.reward:.3g}{among}{refused})"
            )


class ReadableReport(Readable):
    """**Example** "expert on plan_path/test, scripted: 100.0% of 5 solved, 95% interval 56.6% to 100.0%, mean reward 1.200"."""

    __slots__ = ()
    agent: str
    suite: str
    sampling: str
    n: int
    num_samples: int
    success_rate: float
    interval: tuple[float, float]
    mean_reward: float
    payoffs_P: Mapping[str, tuple[float, ...]] | None

    def _lines(self) -> Iterator[str]:
        low, high = self.interval
        samples = f", {self.num_samples} samples each" if self.num_samples > 1 else ""
        yield (
            f"{self.agent} on {self.suite}, {self.sampling}: {self.success_rate:.1%} of {self.n} solved{samples}, "
            f"95% interval {low:.1%} to {high:.1%}, mean reward {self.mean_reward:.3f}"
        )
        for agent, paid in (self.payoffs_P or {}).items():
            yield f"  {agent} earns {sum(paid) / max(len(paid), 1):.3f} an episode"
