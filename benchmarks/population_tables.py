"""What a population's members do wherever they act, as tables: the chance of each choice under stored weights."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp
from typing import Any

Table = Mapping[str, Mapping[str, float]]
"""Information -> choice -> chance; an information is an agent and what it sees."""
_CARD = re.compile(r"your card: (\w)")
_ACTS = re.compile(r"player_\d (passes|bets)")


@dataclass(frozen=True, slots=True)
class Decision:
    """Where an agent acts: what it sees, and the two choices that it has."""

    agent: str
    observation: Any
    choices: tuple[str, ...]

    @property
    def information(self) -> str:
        """**Example** "player_0: player_0 of 2, step 1 of 1"."""
        return f"{self.agent}: {self.observation.state}"


def decisions(scenario: Any, *, num_problems: int) -> tuple[Decision, ...]:
    """All decisions of a small game whose chance `num_problems` test problems exhaust; of a game in which all act at once,
    those of its first step.

    **Example** Kuhn poker in 64 problems: 12.
    """
    found: dict[str, Decision] = {}
    referee = scenario.family.referee()

    def walk(position: Any) -> None:
        agents = scenario.family.rules.next_agents(position.state) if not position.is_done else ()
        for agent in agents or ():
            here = Decision(agent, referee.observe(position, agent), tuple(referee.choices(position, agent)))
            found.setdefault(here.information, here)
        if agents and len(agents) == 1:
            together = scenario.family.rules.acts_together(agents)
            for choice in referee.choices(position, agents[0]):
                act = (
                    referee.act_together(position, {agents[0]: choice})
                    if together
                    else referee.act(position, agents[0], choice)
                )
                walk(act[1])

    for index in range(num_problems):
        walk(referee.start(scenario.family.problem(scenario.options, split="test", index=index, seed=0)))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one run; `at` loads the checkpoints of a step."""

    session: Any
    decisions: tuple[Decision, ...]

    def at(self, step: int) -> Table:
        """The table after `step` updates. Probabilities are those of the engine that plays, at temperature 1."""
        from components.runs.steps import checkpoints_before
        from components.session.checkpoint_loading import load_checkpoint

        checkpoints = checkpoints_before(self.session.store, self.session.run, step)
        versions = {policy: load_checkpoint(self.session, each)[0] for policy, each in checkpoints.items()}
        router = self.session.router(versions)
        policies = {each.agent: router.policy_of(each.agent) for each in self.decisions}
        table: dict[str, Mapping[str, float]] = {}
        for policy in dict.fromkeys(policies.values()):
            own = [each for each in self.decisions if policies[each.agent] == policy]
            requests = [_greedy_request(router, each) for each in own]
            answers = self.session.engines.of(policy).generate(requests, versions[policy])
            for each, (completion,) in zip(own, answers, strict=True):
                said = router.decode(each.agent, completion.tokens)
                table[each.information] = with_both_chances(each.choices, said, exp(sum(completion.logprobs)))
        return table


def _greedy_request(router: Any, decision: Decision) -> Any:
    from components.generation.base import GenerationRequest

    choices = router.encode_choices(decision.agent, decision.choices)
    return GenerationRequest(
        prompt_tokens=router.encode(decision.agent, decision.observation),
        seeds_K=(0,),
        max_new_tokens=max(map(len, choices)),
        temperature=0.0,
        choices=choices,
    )


def with_both_chances(choices: Sequence[str], said: str, chance: float) -> Mapping[str, float]:
    """The chances of both choices by that of one of them, in the order of the choices; of an only choice 1.

    **Example** cooperate or compete, compete said with chance .7: (.3, .7).
    """
    assert said in choices, f"{said!r} is none of {choices}"
    assert len(choices) <= 2, f"{choices}: tables are of two choices"
    chance = min(1.0, chance)
    return {each: 1.0 if len(choices) == 1 else chance if each == said else 1 - chance for each in choices}


def mean_table(tables: Sequence[Table]) -> Table:
    """The plain mean of tables; of a game of one decision each, the policy that plays like one of them picked before it."""
    return {
        information: {choice: sum(table[information][choice] for table in tables) / len(tables) for choice in chances}
        for information, chances in tables[0].items()
    }


def kuhn_table(table: Table) -> dict[str, dict[str, float]]:
    """A table of Kuhn poker whose information is the own card and what was done: p for a pass, b for a bet.

    **Example** "player_1: … your card: Queen of Jack Queen King\nplayer_0 bets …" is "Qb".
    """
    return {kuhn_information(name): {"p": at["Pass"], "b": at["Bet"]} for name, at in table.items()}


def kuhn_information(told: str) -> str:
    """The own card and what was done, in letters."""
    card = _CARD.search(told)
    assert card, f"{told!r} names no card"
    return card[1] + "".join("b" if act == "bets" else "p" for act in _ACTS.findall(told))


@contextmanager
def opened_tables(config: Any, run_id: str, *, num_problems: int = 64) -> Iterator[Tables]:
    """The tables of a finished run."""
    from components.runs.run import Run
    from components.session.session import Session

    with Session(Run(run_id=run_id, config=config)) as session:
        yield Tables(session, decisions(session.scenario, num_problems=num_problems))
