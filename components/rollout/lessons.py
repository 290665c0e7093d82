"""Warnings of play that teaches next to nothing: answers that no reader understands, groups without a learning signal, problems
that nobody solves, and one component that is nearly all of the reward."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components import metrics
from components.config import RunConfig
from components.schema import Candidate, EvalReport, RolloutShard, ScoredShard
from components.text.escaping import printable

NEARLY_ALL = 0.9
MOST = 0.8
"""A component with this share of a reward decides what is learned."""
UNSOLVED = "unsolved"
"""The subject of a warning that nobody solves anything; once somebody has, it is settled."""
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
    malformed = [agent for agent in telling if values.get(metrics.name_malformed_rate(agent), 0.0) >= NEARLY_ALL]
    for agent in malformed:
        yield StepWarning(subject=agent, text=_describe_malformed(agent, telling[agent], config))
    silent = values.get(metrics.ZERO_GROUP_FRACTION, 0.0)
    if telling and not malformed and silent < NEARLY_ALL and not has_solved(shards) and not _pays(telling):
        yield StepWarning(subject=UNSOLVED, text=_explain_unsolved(telling, values, config))
    if telling and not malformed and silent >= NEARLY_ALL:
        least = min(telling, key=lambda agent: values.get(metrics.solve_rate(agent), 0.0))
        yield StepWarning(
            subject="signal",
            text=f"{silent:.0%} of the groups have no learning signal: within each, all answers earn the same. {least} solves "
            f"{values.get(metrics.solve_rate(least), 0.0):.0%} with its answers, "
            + _remedy_of_silence(least, telling[least], values),
        )


def first_look(reports: Sequence[EvalReport], config: RunConfig) -> Iterator[StepWarning]:
    """A warning if the evaluations before training have no solved problem, in any way of sampling; none of games that pay."""
    telling = [report for report in reports if report.n >= _MIN_ANSWERS and report.payoffs_P is None]
    if not telling or any(report.num_successes for report in reports):
        return
    report = telling[0]
    malformed = {
        agent: report.metrics.get(metrics.evaluation(report.sampling, f"{agent}/malformed_rate"), 0.0)
        for agent in config.agents
    }
    shares = ", ".join(f"{share:.0%} of the answers of {agent} malformed" for agent, share in malformed.items())
    least = max(malformed, key=malformed.__getitem__)
    yield StepWarning(
        subject=f"{UNSOLVED} before training",
        text=f"before training none of {report.n} problems is solved ({shares}). What nobody ever does right cannot be "
        f"learned: `troupe try` shows what is answered, and agents.{least}.prompt says what is wanted, with an example",
    )


def has_solved(shards: Sequence[RolloutShard]) -> bool:
    """Whether any answer solves its problem."""
    return any(
        each.outcome.solves
        for shard in shards
        for episode in shard.episodes
        for node in episode.nodes
        for each in node.candidates
    )


def _pays(answers: Mapping[str, Sequence[Candidate]]) -> bool:
    """Whether agents earn payoffs, as in games that nobody solves."""
    return any(each.outcome.payoffs is not None for given in answers.values() for each in given)


def _explain_unsolved(
    answers: Mapping[str, Sequence[Candidate]], values: Mapping[str, float], config: RunConfig
) -> str:
    """What the answers of a step are in which nobody solves anything, one of the agent that is read least, and the remedy."""
    least = max(answers, key=lambda agent: values.get(metrics.name_malformed_rate(agent), 0.0))
    share = values.get(metrics.name_malformed_rate(least), 0.0)
    wrong = [each for each in answers[least] if each.outcome.error is not None]
    example = (wrong or answers[least])[0]
    reason = f": {quote_answer(example.outcome.error)}" if example.outcome.error else ""
    shown = f"show what is wanted, with an example, in agents.{least}.prompt"
    remedy = remedy_of_malformed(least, wrong, config) if 2 * len(wrong) > len(answers[least]) else shown
    return (
        f"none of {sum(map(len, answers.values()))} answers solves a problem, and {share:.0%} of those of {least} are "
        "malformed: what is learned is the rest of the reward, such as an answer's form. For example "
        f"{quote_answer(example.text)}{reason}. {remedy}, or begin with easier problems"
    )


def own_reward_warnings(
    shards: Sequence[RolloutShard], scored: Sequence[ScoredShard], config: RunConfig
) -> Iterator[StepWarning]:
    """One for each reward function without a weight of its own that is nearly all of what the answers of a step are paid."""
    if config.method.learns_from_credits or config.rewards.shuffle_rewards:
        return  # the rewards are credits then, or those of other answers
    for component in config.rewards.own_components:
        if component in config.rewards.weights:
            continue
        own, rest = _amounts(component, shards, scored)
        if own.spread > 0.0 and max(own.share_beside(rest)) >= MOST:
            yield StepWarning(
                subject=component,
                text=f"{component} is nearly all of the reward: {own.size:.3g} an answer in the mean, and all else together "
                f"{rest.size:.3g}. It has weight 1, because rewards.weights names none; set "
                f"rewards.weights.{component}={_fitting_weight(own, rest):.1g}, for example",
            )


@dataclass(frozen=True, slots=True)
class _Amounts:
    """Of a part of the reward: its mean absolute value, and how much it differs between the answers of a group."""

    size: float
    spread: float

    def share_beside(self, rest: "_Amounts") -> tuple[float, float]:
        """This part's shares of both, beside the rest of the reward."""
        return (
            self.size / (self.size + rest.size) if self.size else 0.0,
            self.spread / (self.spread + rest.spread) if self.spread else 0.0,
        )


def _amounts(
    component: str, shards: Sequence[RolloutShard], scored: Sequence[ScoredShard]
) -> tuple[_Amounts, _Amounts]:
    """The amounts of a component of weight 1, and of the rest of the reward."""
    own_G_K, rest_G_K = list[list[float]](), list[list[float]]()
    for shard, scores in zip(shards, scored, strict=True):
        values_E_N_K = (scores.own_E_N_K or {}).get(component, ())
        for episode, rewards_N_K, values_N_K in zip(shard.episodes, scores.rewards_E_N_K, values_E_N_K, strict=False):
            for node, rewards_K, values_K in zip(episode.nodes, rewards_N_K, values_N_K, strict=True):
                if node.is_trained_on:
                    paid = [
                        (value, reward) for value, reward in zip(values_K, rewards_K, strict=True) if reward is not None
                    ]
                    own_G_K.append([value for value, _ in paid])
                    rest_G_K.append([reward - value for value, reward in paid])
    return _sum_amounts(own_G_K), _sum_amounts(rest_G_K)


def _sum_amounts(values_G_K: Sequence[Sequence[float]]) -> _Amounts:
    return _Amounts(
        size=metrics.mean(abs(value) for values_K in values_G_K for value in values_K),
        spread=metrics.mean(metrics.population_std(values_K) for values_K in values_G_K if values_K),
    )


def _fitting_weight(own: _Amounts, rest: _Amounts) -> float:
    """A weight with which a component is a tenth of the rest, at least a hundredth."""
    return min(max(0.1 * rest.size / own.size, 0.01), 0.1) if own.size else 0.1


def _answers(shards: Sequence[RolloutShard], agent: str) -> Iterator[Candidate]:
    """The scorable answers of `agent` that its group compares."""
    for shard in shards:
        for node in (node for episode in shard.episodes for node in episode.nodes):
            if node.group.agent == agent and node.is_trained_on:
                yield from (each for each in node.candidates if each.outcome.unscorable is None)


def _describe_malformed(agent: str, answers: Sequence[Candidate], config: RunConfig) -> str:
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
    policy = config.policies[config.agents[agent].policy]
    if policy.prompt_format == "compact" and policy.api is None:
        return "it reads no instructions and is cloned until it solves enough: raise warm_start.min_success"
    if policy.prompt_format == "chat" and config.environment.answer_format == "strict":
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
