"""Play of a whole block in lock-step: one engine call for each (turn, agent), over all episodes that are still live."""

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
    """One finished episode for each start, in order.

    An episode ends when its selected state is done, when it fails, or after `rules.max_turns`.

    What the candidates of all episodes ask of the tools is answered side by side before any of them is stepped.

    **Example** 32 starts, 8 candidates, 2 turns of 2 agents: 4 engine calls of up to 32 prompts with 8 seeds each.
    """
    branches = [Branch(start, family, tools) for start in starts]
    for turn in range(rules.max_turns):
        for agent in rules.roles:
            nodes = [
                (branch, node)
                for branch in branches
                if branch.live and (node := branch.node(turn, agent, router)) is not None
            ]
            requests = [
                RoleRequest(role=agent, prompt_tokens=node.prompt_tokens, seeds_K=rules.seeds(node.group))
                for _, node in nodes
            ]
            if not requests:
                continue
            answers = router.generate(requests, temperature=rules.temperature)
            read = [
                (branch, answer)
                for (branch, node), completions_K in zip(nodes, answers, strict=True)
                if (answer := branch.read(node, completions_K, router)) is not None
            ]
            tools.prepare([call for branch, answer in read for call in branch.calls(answer)])
            for branch, answer in read:
                if branch.live:
                    branch.act(answer, router=router, rubric=rubric, rules=rules)
    return tuple(branch.finished() for branch in branches)
