"""An evaluation's problems as lines that other evaluation programs read, and ask a served team."""

import json
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.evaluation.held_out import eval_rules
from components.evaluation.suites import SuiteSplit, suite_problems
from components.identity import GroupKey
from components.machine.whole_files import write_whole
from components.runs.run import Run
from components.session.scenario import Scenario, scenario_of
from components.turn_order import in_phases


def write_questions(
    run: Run, to: Path, *, num_problems: int, seed: int, split: SuiteSplit = "test"
) -> list[dict[str, Any]]:
    """Write what an evaluation of the run asks, one JSON line for each problem in its order; the lines.

    `messages` are what the agent sees, `model` its name at `troupe serve`, `seed` what decides the evaluation's draw, and
    `target` the expert's answer, None in an environment without one. Raises ConfigurationError for a team whose episodes have
    more than one answer.
    """
    scenario = scenario_of(run.config)
    agent = find_only_agent(scenario, run.run_id)
    seat, family = scenario.seats[agent], scenario.family
    rules = eval_rules(scenario.turn_order, max_turns=1, sampling="sample", split=split, seed=seed)
    lines = []
    for problem in suite_problems(split, family, scenario.options, num_problems=num_problems, seed=seed):
        played = family.build(problem)
        seen = seat.apply_prompt(played.observe(agent))
        texts = (
            {"user": seen.state}
            if seat.prompt_format == "compact"
            else {"system": seen.instructions, "user": seen.state}
        )
        node = GroupKey(problem_id=problem.problem_id, episode=0, turn=0, agent=agent)
        lines.append(
            {
                "id": problem.problem_id,
                "model": agent,
                "messages": [{"role": role, "content": text} for role, text in texts.items() if text],
                "seed": rules.seeds(node)[0],
                "target": family.expert_action(played.position, agent) if family.has_expert else None,
            }
        )
    try:
        write_whole(to, "".join(f"{json.dumps(line)}\n" for line in lines))
    except OSError as error:
        raise ConfigurationError(f"--to {to}: {error.strerror}; name a file in a folder that you may write") from error
    return lines


def find_only_agent(scenario: Scenario, run_id: str) -> str:
    """The agent whose one answer is an episode. Raises ConfigurationError."""
    order, max_turns = scenario.turn_order, scenario.config.environment.max_turns
    agents = [agent for phase in in_phases(order) for agent in phase]
    if len(agents) != 1 or max_turns != 1:
        raise ConfigurationError(
            f"{run_id}: an episode is up to {max_turns} turns of {', '.join(agents) or 'a team that branches'}, and a question "
            "has one answer; evaluate it by `troupe evaluate`, or train with environment.max_turns 1 and rollout.mode single"
        )
    return agents[0]
