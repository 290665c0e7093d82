"""Whether a run fits into memory, asked before any weights are loaded."""

from collections.abc import Mapping
from math import prod

from components.config import RunConfig
from components.models.memory import ModelNumbers
from components.models.model_groups import initial_models
from components.models.model_sizes import model_sizes
from components.placement.fit import check_plan
from components.placement.this_machine import plan_here, uses_gpus
from components.rollout.rules import branching_factors
from components.session.scenario import Scenario
from components.turn_order import in_phases
from flows.preflight.prompts import longest_first_prompt


def check_memory(scenario: Scenario) -> None:
    """Raise ConfigurationError if weights, optimizer, activations and engines need more than the devices of this host have.

    Not counted are models of base "tiny", those that are not on this machine yet, what is on GPUs of a cluster, whose memory
    Ray does not tell, and servers that run elsewhere.
    """
    sizes, config = read_sizes(scenario.config), scenario.config
    if sizes and not (config.resources.runner == "ray" and uses_gpus(config)):
        check_plan(config, plan_here(config), sizes, num_tokens=tokens_at_once(scenario))


def read_sizes(config: RunConfig) -> Mapping[str, ModelNumbers]:
    """The sizes of the models whose config.json is here, by the names of their policies."""
    found: dict[str, ModelNumbers] = {}
    for names in initial_models(config.policies).values():
        if (model := model_sizes([config.policies[name] for name in names])) is not None:
            found |= dict.fromkeys(names, model)
    return found


def tokens_at_once(scenario: Scenario) -> int:
    """The most tokens that the engine holds while a block of problems is played.

    These are the groups of the selected branch, whose candidates share a prompt, and the lines of play below them, each with a
    prompt of its own: one with which a problem begins, and an answer of each agent that acted before in the turn.

    **Example** 32 problems of 8 candidates, whose prompts have 200 tokens, 2 agents that act one after another, 100 tokens an
    answer: 32 (300 + 8 x 100); with team_credit turn_end, where the second agent continues each candidate of the first,
    32 x 8 (300 + 100) more.
    """
    config, rollout = scenario.config, scenario.config.rollout
    longest = max(seat.longest_answer for seat in scenario.seats.values())
    num_problems = min(rollout.problems_per_block, rollout.num_problems)
    phases = in_phases(scenario.turn_order) or (scenario.family.roles,)
    in_turn = [len(agents) for agents in phases]
    before = sum(scenario.seats[role].longest_answer for agents in phases[:-1] for role in agents)
    prompt = longest_first_prompt(scenario) + before
    if rollout.mode == "tree":
        num_turns = {"node": 0, "turn_end": 1, "episode_end": config.environment.max_turns}[config.rewards.team_credit]
        num_lines = rollout.group_size * max(in_turn) * max(sum(in_turn) * num_turns - 1, 0)
        groups = max(in_turn) * (prompt + rollout.group_size * longest)
        return num_problems * (groups + num_lines * (prompt + longest))
    num_lines = (
        prod(branching_factors(rollout, scenario.turn_order)) if rollout.mode == "nested" else rollout.group_size
    )
    return num_problems * num_lines * max(in_turn) * (prompt + longest)
