"""Play of a block in lock-step: one engine call per phase of a turn, over all live lines of all episodes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from components.environments.base import NO_TOOLS, Tools
from components.environments.family import Family
from components.reporting.progress_share import share_listener, subtask
from components.rewards.base import Rubric
from components.rollout.router import RoleRequest, Router
from components.rollout.rules import SamplingRules, Start
from components.rollout.tree import Tree
from components.schema import Episode

ProblemProgress = Callable[[float, int], None]
"""Called with the number of problems done, those of the block being played in parts, and in all."""


def play(
    starts: Sequence[Start],
    rules: SamplingRules,
    *,
    family: Family,
    router: Router,
    rubric: Rubric,
    tools: Tools = NO_TOOLS,
) -> tuple[Episode, ...]:
    """One finished episode per start, in order. It ends when it is done or failed, when no agent is next, or after
    `rules.max_turns`.

    Agents side by side are sampled in one call, in the state before all of them; their answers are applied one agent after
    another, or at once if the environment has a joint step. The tool calls of all episodes' candidates are prepared in parallel
    before any candidate is stepped. Where the environment has a program, each episode is a program's, by `router.programs`;
    a router without them asks each agent itself, as when a clone of an expert is measured.
    Continuations of candidates are sampled in the same calls as the selected branches.

    **Example** 32 starts, 8 candidates, 2 turns of 2 agents: 4 engine calls of up to 32 prompts with 8 seeds each; with
    team_credit turn_end the second and the fourth have 32 x 8 prompts with one seed more.
    """
    if starts and router.programs is not None and family.rules.program(starts[0].problem) is not None:
        return router.programs.play(starts, rules, family=family, rubric=rubric, tools=tools)
    referee = family.referee(tools, measures_value=rules.measures_value)
    trees = [Tree(start, referee, rules) for start in starts]
    num_phases, num_played = rules.max_turns * max(len(rules.turn_order), 1), 0
    while opened := [(line, nodes) for tree in trees for line in tree.lines() if (nodes := line.open(router))]:
        requests = [
            RoleRequest(
                role=node.group.agent,
                prompt_tokens=node.prompt_tokens,
                seeds_K=rules.seeds(node.group, node.num_candidates),
                choices=node.choices,
            )
            for _, nodes in opened
            for node in nodes
        ]
        with subtask(num_played / num_phases, (num_played + 1) / num_phases):
            answers = iter(router.generate(requests, temperature=rules.temperature))
        num_played += 1
        moves = [
            (line, nodes, line.moves([line.read(node, next(answers), router) for node in nodes]))
            for line, nodes in opened
        ]
        for number in range(max(len(nodes) for _, nodes in opened)):
            moving = [(line, nodes, of_line[number]) for line, nodes, of_line in moves if number < len(of_line)]
            tools.prepare([call for line, _, answered in moving for answer in answered for call in line.calls(answer)])
            for line, nodes, answered in moving:
                line.act(answered, waiting=nodes[number + 1 :], router=router, rubric=rubric)
    return tuple(tree.finish() for tree in trees)


@contextmanager
def block_progress(
    progress: ProblemProgress | None, num_done: int, num_block: int, num_problems: int
) -> Iterator[None]:
    """Within the block of problems, report how far its play is, after `num_done` of `num_problems`."""
    if progress is None:
        yield
        return
    if num_done == 0:
        progress(0, num_problems)
    with share_listener(lambda share: progress(num_done + share * num_block, num_problems)):
        yield
