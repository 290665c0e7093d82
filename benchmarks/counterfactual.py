"""What the candidates of a node are worth: E[R | do(candidate)], by playing on from each of them many times.

A decision is an episode up to a node: its last node is the one whose candidates are valued, the nodes before it say how its
state was reached. R is the team's part of the return, counted from the episode's start, whoever acts later and for as many
turns as are left; all later answers are drawn from the policies that drew the candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from components.environments.base import NO_TOOLS, Tools
from components.environments.family import Family
from components.environments.play import Position, Referee
from components.identity import seed_for
from components.rewards.base import Rubric
from components.rollout.router import RoleRequest, Router
from components.schema import ActionOutcome, Episode
from components.turn_order import Phase, TurnOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """How play goes on."""

    turn_order: TurnOrder
    max_turns: int
    temperature: float
    num_continuations: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued:
    """The returns of one decision's candidates, axes K and C (continuations), and the tokens that they took."""

    returns_K_C: tuple[tuple[float, ...], ...]
    num_tokens: int


@dataclass(slots=True, kw_only=True)
class _Continuation:
    """One episode that goes on from a candidate."""

    decision: int
    text: str
    number: int
    position: Position
    newest: ActionOutcome
    num_tokens: int = 0
    phase: Phase | None = field(default=None)

    def agent(self) -> str:
        assert self.phase is not None
        assert len(self.phase.agents) == 1, f"agents side by side are not valued: {self.phase}"
        return self.phase.agents[0]


def value_candidates(
    decisions: Sequence[Episode],
    rest: Rest,
    *,
    family: Family,
    router: Router,
    rubric: Rubric,
    tools: Tools = NO_TOOLS,
) -> list[Valued]:
    """The returns of each decision's candidates, by the team's part of `rubric`, which counts from the episode's start. Equal
    texts are one action and are played once.

    All continuations of all decisions play in lock-step; those that meet in one prompt share it in one request, and equal calls
    are one call of `tools`.
    """
    assert rubric.from_start, "a return counts from the episode's start"
    referee = family.referee(tools)
    going = [
        _begin_continuation(number, decision, text, continuation, rest, referee)
        for number, decision in enumerate(decisions)
        for text in dict.fromkeys(candidate.text for candidate in decision.nodes[-1].candidates)
        for continuation in range(rest.num_continuations)
    ]
    acting = going
    while acting:
        for each in acting:
            each.phase = referee.next_phase(each.position, rest.turn_order, after=each.phase, max_turns=rest.max_turns)
        acting = [each for each in acting if each.phase is not None]
        _act(acting, decisions, rest, router, referee)
    earned: dict[tuple[int, str], list[float]] = {}
    num_tokens = [0] * len(decisions)
    for each in going:
        earned.setdefault((each.decision, each.text), []).append(rubric.team_weight * rubric.team(each.newest))
        num_tokens[each.decision] += each.num_tokens
    return [
        Valued(
            returns_K_C=tuple(tuple(earned[number, c.text]) for c in decision.nodes[-1].candidates),
            num_tokens=num_tokens[number],
        )
        for number, decision in enumerate(decisions)
    ]


def _begin_continuation(
    number: int,
    decision: Episode,
    text: str,
    continuation: int,
    rest: Rest,
    referee: Referee,
) -> _Continuation:
    """The episode after the candidate with this text."""
    position, phase = referee.start(decision.problem), None
    texts = [node.candidates[node.chosen].text for node in decision.nodes[:-1]]
    for node, answer in zip(decision.nodes, [*texts, text], strict=True):
        phase = referee.next_phase(position, rest.turn_order, after=phase, max_turns=rest.max_turns)
        assert phase is not None, f"{node.group} was recorded after the end"
        assert node.group.agent in phase.agents, f"{node.group} was recorded where others act"
        newest, position = referee.act(position, node.group.agent, answer)
    return _Continuation(decision=number, text=text, number=continuation, position=position, newest=newest, phase=phase)


def _act(
    acting: Sequence[_Continuation], decisions: Sequence[Episode], rest: Rest, router: Router, referee: Referee
) -> None:
    """One answer in each continuation, with one engine call for all, and their tool calls made together."""
    sharing: dict[tuple[str, tuple[int, ...]], list[_Continuation]] = {}
    for each in acting:
        agent = each.agent()
        sharing.setdefault((agent, router.encode(agent, referee.observe(each.position, agent))), []).append(each)
    requests = [
        RoleRequest(
            role=agent,
            prompt_tokens=prompt,
            seeds_K=tuple(_seed(each, decisions[each.decision], rest) for each in same),
        )
        for (agent, prompt), same in sharing.items()
    ]
    answers = router.generate(requests, temperature=rest.temperature) if requests else []
    texts: list[tuple[_Continuation, str, str]] = []
    for ((agent, _), same), completions in zip(sharing.items(), answers, strict=True):
        for each, completion in zip(same, completions, strict=True):
            each.num_tokens += len(completion.tokens)
            texts.append((each, agent, router.decode(agent, completion.tokens)))
    calls = [call for each, agent, text in texts for call in referee.calls(each.position, agent, text)]
    referee.tools.prepare(calls)
    for each, agent, text in texts:
        each.newest, each.position = referee.act(each.position, agent, text)


def _seed(each: _Continuation, decision: Episode, rest: Rest) -> int:
    assert each.phase is not None
    (group,) = each.phase.groups(decision.problem.problem_id, decision.episode)
    return seed_for(rest.seed, "counterfactual", each.text, each.number, len(decision.nodes), *group.seed_parts)
