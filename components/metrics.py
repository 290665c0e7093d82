"""Metric names: `area/name`, or `area/<agent or policy>/name`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean; 0 for no values."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0


def population_std(values: Iterable[float]) -> float:
    """The standard deviation with n in the denominator; exactly 0 for equal values and for none."""
    numbers = list(values)
    if not numbers or min(numbers) == max(numbers):
        return 0.0
    center = math.fsum(numbers) / len(numbers)
    return math.sqrt(math.fsum((number - center) ** 2 for number in numbers) / len(numbers))


NUM_EPISODES = "rollout/num_episodes"
NUM_FAILED_EPISODES = "rollout/num_failed_episodes"
NUM_CANDIDATES = "rollout/num_candidates"
NUM_GENERATED_TOKENS = "rollout/num_generated_tokens"
GENERATED_TOKENS_PER_SECOND = "rollout/tokens_per_second"
"""Over the wall time of all rollout shards."""
PEAK_MEMORY = "memory/peak_mib"
"""The most memory that this process and its children have held so far, each counted at its own peak."""
STEP_SECONDS = "time/step_seconds"
"""The wall time of all stages of a step, summed over shards and policies."""
NUM_CUT_LINES = "rollout/num_cut_lines"
"""Lines of play below candidates that failed; they give no credit."""
NUM_EXECUTIONS = "rollout/num_executions"
"""Programs that the step's rollouts ran or found in the ledger."""
NUM_REFILLED_PROBLEMS = "rollout/num_refilled_problems"
"""Problems without a learning signal that dynamic sampling replaced, counted each time."""
NUM_SILENT_PROBLEMS = "rollout/num_silent_problems"
"""Problems that still had no learning signal after the last refill."""
OVERLONG_FRACTION = "reward/overlong_frac"
"""The share of candidates with a length penalty."""
UNSCORABLE_FRACTION = "reward/unscorable_frac"
SUCCESS_RATE = "rollout/success_rate"
TRAINING_SUCCESS = "solved, best of group"
"""What people read for it: a tree continues from the best candidate of each group, so it solves more than the team alone."""
KEEP_RATE = "rollout/keep_rate"
REPAIR_RATE = "rollout/repair_rate"
ZERO_GROUP_FRACTION = "signal/zero_group_frac"
NUM_GROUPS = "signal/num_groups"


def reward_mean(agent: str) -> str:
    """The mean reward of an agent's candidates."""
    return f"reward/{agent}/mean"


def reward_std(agent: str) -> str:
    """The mean standard deviation of an agent's groups."""
    return f"reward/{agent}/group_std"


def own_reward(agent: str, component: str) -> str:
    """The mean of an own reward function over an agent's candidates, unweighted."""
    return f"reward/{agent}/{component}"


def is_own_reward(name: str) -> bool:
    """Whether a metric is the mean of an own reward function."""
    return name.startswith("reward/") and name.rpartition("/")[2].startswith("own.")


def solve_rate(agent: str) -> str:
    """The share of an agent's candidates that solve."""
    return f"reward/{agent}/solve_rate"


def completion_length(agent: str) -> str:
    """The mean number of tokens of an agent's candidates."""
    return f"rollout/{agent}/completion_tokens"


def name_malformed_rate(agent: str) -> str:
    """The share of an agent's candidates that do not follow its grammar."""
    return f"rollout/{agent}/malformed_rate"


def zero_group_fraction(agent: str) -> str:
    """The share of an agent's groups without a learning signal."""
    return f"signal/{agent}/zero_group_frac"


def train(policy: str, name: str) -> str:
    """A metric of one policy's update."""
    return f"train/{policy}/{name}"


def gradient_share(agent: str) -> str:
    """An agent's share of its policy's sum of |d loss / d logprob| over tokens; a name for `train`."""
    return f"gradient_share/{agent}"


def api(policy: str, name: str) -> str:
    """A metric of the API use of a policy."""
    return f"api/{policy}/{name}"


def seconds(stage: str) -> str:
    """Wall time of a stage."""
    return f"time/{stage}_seconds"


def agent_return(agent: str) -> str:
    """What an agent of a population earned an episode, before any mixing."""
    return f"population/{agent}/return"


def name_mixed_return(agent: str) -> str:
    """What it learns from."""
    return f"population/{agent}/mixed_return"


def staleness(member: str) -> str:
    """How many updates ago a member was as it played."""
    return f"population/{member}/staleness"


def earning_names(names: Iterable[str]) -> list[str]:
    """The metrics that say what each agent earned, in order: returns in a population, else mean rewards."""
    known = list(names)
    returns = [name for name in known if name.startswith("population/") and name.endswith("/return")]
    return returns or [name for name in known if name.startswith("reward/") and name.endswith("/mean")]


def earning_label(name: str) -> str:
    """**Example** "reward tool_agent", and "return player_0" in a population."""
    area, agent, _ = name.split("/")
    return f"{'return' if area == 'population' else area} {agent}"


PAYOFF = "/payoff"
"""The end of the name of what an agent earned an episode, where each has returns of its own."""


def payoffs(values: Mapping[str, float]) -> dict[str, float]:
    """What each agent earned an episode, among the metrics of an evaluation; empty where agents have no returns of their own.

    **Example** {"eval/sample/ann/payoff": .85, ...}: {"ann": .85}.
    """
    return {name.split("/")[2]: value for name, value in values.items() if name.endswith(PAYOFF)}


def answer_shares(values: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Agent -> the shares of its answers that solve and that are malformed, among the metrics of a step or an evaluation."""
    shares = {tuple(name.rsplit("/", 2)[1:]): value for name, value in values.items() if name.count("/") >= 2}
    return {
        agent: (value, shares.get((agent, "malformed_rate"), 0.0))
        for (agent, name), value in shares.items()
        if name == "solve_rate"
    }


def payoff_courses(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What an episode paid each agent in two evaluations; "" in games without. **Example** "ann 0.030 -> 0.000, bob ..."."""
    was, now = payoffs(before.get("metrics", {})), payoffs(after.get("metrics", {}))
    return ", ".join(f"{agent} {was.get(agent, 0.0):.3f} -> {paid:.3f}" for agent, paid in now.items())


def tells_payoffs_alone(evaluations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether success says nothing of these evaluations: of a game of several players that all episodes solve, or none."""
    rates = {float(each["success_rate"]) for each in evaluations}
    return rates in ({0.0}, {1.0}) and any(len(payoffs(each.get("metrics", {}))) > 1 for each in evaluations)


def evaluation(sampling: str, name: str) -> str:
    """A metric of a held-out evaluation.

    Success is an area above those of the samplings: MLflow draws the charts of one area after another, by their names, and so
    opens on it.
    """
    return f"eval/{sampling}_success_rate" if name == "success_rate" else f"eval/{sampling}/{name}"
