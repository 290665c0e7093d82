"""Play of a block in lock-step: one engine call per phase of a turn, over all live episodes."""

from collections.abc import Sequence

from components.environments.base import NO_TOOLS, EnvironmentFamily, Tools
from components.rewards.base import Rubric
from components.rollout.branch import Branch
from components.rollout.router import RoleRequest, Router
from components.rollout.rules import Rules, Start
from components.schema import Episode


def play(
    starts: Sequence[Start],
    rules: Rules,
    *,
    family: EnvironmentFamily,
    router: Router,
    rubric: Rubric,
    tools: Tools = NO_TOOLS,
) -> tuple[Episode, ...]:
    """One finished episode per start, in order. It ends when it is done or failed, when no agent is next, or after
    `rules.max_turns`.

    Agents side by side are sampled in one call, in the state before all of them; their answers are applied one agent after
    another. The tool calls of all episodes' candidates are prepared in parallel before any candidate is stepped.

    **Example** 32 starts, 8 candidates, 2 turns of 2 agents: 4 engine calls of up to 32 prompts with 8 seeds each.
    """
    branches = [Branch(start, family, tools, rules) for start in starts]
    while acting := [(branch, phase) for branch in branches if (phase := branch.next_phase()) is not None]:
        nodes = [(branch, node) for branch, phase in acting for node in branch.nodes(phase, router)]
        if not nodes:
            continue
        requests = [
            RoleRequest(role=node.group.agent, prompt_tokens=node.prompt_tokens, seeds_K=rules.seeds(node.group))
            for _, node in nodes
        ]
        answers = router.generate(requests, temperature=rules.temperature)
        read = [
            (branch, answer)
            for (branch, node), completions_K in zip(nodes, answers, strict=True)
            if (answer := branch.read(node, completions_K, router)) is not None
        ]
        for lane in range(max((len(phase.agents) for _, phase in acting), default=0)):
            entered = [(branch, answer) for branch, answer in read if answer.node.lane == lane]
            tools.prepare([call for branch, answer in entered for call in branch.calls(answer)])
            for branch, answer in entered:
                branch.act(answer, router=router, rubric=rubric)
    return tuple(branch.finished() for branch in branches)
