"""Warnings of a step that teaches next to nothing: answers that no reader understands, and groups without a learning signal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components import metrics
from components.config import RunConfig
from components.escaping import printable
from components.schema import Candidate, RolloutShard

NEARLY_ALL = 0.9
_MIN_ANSWERS = 8
"""Fewer answers than this say nothing of their agent."""
_LONGEST_EXAMPLE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWarning:
    """One line for the user; of equal `subject` one is enough for a run."""

    subject: str
    text: str


def step_warnings(
    shards: Sequence[RolloutShard], values: Mapping[str, float], config: RunConfig
) -> Iterator[StepWarning]:
    """One for each agent whose answers are nearly all malformed, by the step's metrics; without any, one if nearly no group has
    a signal."""
    answers = {agent: list(_answers(shards, agent)) for agent in config.agents}
    telling = {agent: given for agent, given in answers.items() if len(given) >= _MIN_ANSWERS}
    malformed = [agent for agent in telling if values.get(metrics.malformed_rate(agent), 0.0) >= NEARLY_ALL]
    for agent in malformed:
        yield StepWarning(subject=agent, text=_malformed(agent, telling[agent], config))
    silent = values.get(metrics.ZERO_GROUP_FRACTION, 0.0)
    if telling and not malformed and silent >= NEARLY_ALL:
        least = min(telling, key=lambda agent: values.get(metrics.solve_rate(agent), 0.0))
        yield StepWarning(
            subject="signal",
            text=f"{silent:.0%} of the groups have no learning signal: within each, all answers earn the same. {least} solves "
            f"{values.get(metrics.solve_rate(least), 0.0):.0%} with its answers, "
            + _remedy_of_silence(least, telling[least], values),
        )


def _answers(shards: Sequence[RolloutShard], agent: str) -> Iterator[Candidate]:
    """The scorable answers of `agent` that its group compares."""
    for shard in shards:
        for node in (node for episode in shard.episodes for node in episode.nodes):
            if node.group.agent == agent and node.is_trained_on:
                yield from (each for each in node.candidates if each.outcome.unscorable is None)


def _malformed(agent: str, answers: Sequence[Candidate], config: RunConfig) -> str:
    """What the answers are, what the reader found in one of them, and the remedy."""
    wrong = [answer for answer in answers if answer.outcome.error is not None]
    return (
        f"{len(wrong)} of {len(answers)} answers of {agent} are malformed, and teach at most their format. For example "
        f"{quote_answer(wrong[0].text)}: {quote_answer(wrong[0].outcome.error or '')}. "
        f"{remedy_of_malformed(agent, wrong, config)}"
    )


def remedy_of_malformed(agent: str, malformed: Sequence[Candidate], config: RunConfig) -> str:
    """What to change so that answers like these malformed ones of `agent` are read."""
    cut = [answer for answer in malformed if answer.finish_reason == "length"]
    if 2 * len(cut) > len(malformed):
        return f"{len(cut)} of them are cut off: raise agents.{agent}.max_new_tokens"
    is_chat = config.policies[config.agents[agent].policy].prompt_format == "chat"
    if is_chat and config.environment.answer_format == "strict":
        return "set environment.answer_format to free, which reads an answer that has words around it"
    return f"show the format, with an example, in agents.{agent}.prompt"


def _remedy_of_silence(agent: str, answers: Sequence[Candidate], values: Mapping[str, float]) -> str:
    example = f"for example {quote_answer(answers[0].text)} ({_facts(answers[0])})"
    if values.get(metrics.solve_rate(agent), 0.0) >= 0.5:
        return f"{example}. Harder problems would teach it more"
    return (
        f"{example}. Begin with easier problems, show the format with an example in agents.{agent}.prompt, or raise "
        "rollout.group_size"
    )


def _facts(answer: Candidate) -> str:
    """**Example** "solved 0, failed 1"; without components "it solves nothing"."""
    facts = {**answer.outcome.team, **answer.outcome.local}
    named = ", ".join(f"{name} {value:.3g}" for name, value in facts.items())
    return named or ("it solves" if answer.outcome.solves else "it solves nothing")


def quote_answer(text: str) -> str:
    """`text` in quotes on one line, escaped, with the middle of a long one left out."""
    line = printable(repr(text), keep="")
    half = _LONGEST_EXAMPLE // 2
    return line if len(line) <= _LONGEST_EXAMPLE else f"{line[:half]} … {line[-half:]}"
