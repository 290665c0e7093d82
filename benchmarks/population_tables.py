"""What a population's members do wherever they act, as tables: the chance of each choice under stored weights."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp, prod
from typing import Any

from components.text.choice_tokens import Choices

Table = Mapping[str, Mapping[str, float]]
"""Information -> choice -> chance; an information is an agent and what it sees."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where an agent acts: what it sees, and the choices that it has."""

    agent: str
    observation: Any
    choices: tuple[str, ...]

    @property
    def information(self) -> str:
        """**Example** "player_0: player_0 of 2, step 1 of 1"."""
        return f"{self.agent}: {self.observation.state}"


def decisions(scenario: Any, *, num_problems: int) -> tuple[Decision, ...]:
    """All decisions of a game of OpenSpiel, or of one whose chance `num_problems` test problems exhaust; of a game in which all
    act at once, those of its first step.

    **Example** Kuhn poker 12; Leduc poker 288, because the suits of its 936 information states are not told.
    """
    from components.environments.social.open_spiel import OpenSpielOptions

    if isinstance(scenario.options, OpenSpielOptions):
        return tuple({each.information: each for _, each in spiel_decisions(scenario).values()}.values())
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
            chances = chances_of_choices(
                self.session.engines.of(policy),
                [router.encode(each.agent, each.observation) for each in own],
                [router.encode_choices(each.agent, each.choices) for each in own],
            )
            for each, of_choices in zip(own, chances, strict=True):
                table[each.information] = dict(zip(each.choices, of_choices, strict=True))
        return table


def spiel_decisions(scenario: Any) -> Mapping[str, tuple[Any, Decision]]:
    """All of a game of OpenSpiel by its information state strings: a state of OpenSpiel's, and what the player to act is told
    there. Its choices are in the order of OpenSpiel's legal actions."""
    from open_spiel.python.policy import TabularPolicy

    from components.environments.play import Position
    from components.environments.social.spiel_games import SpielState, spiel_game

    options, referee = scenario.options, scenario.family.referee()
    game = spiel_game(options.game, options.parameters, options.num_players)
    found = {}
    for state in TabularPolicy(game.game).states:
        agent = f"player_{state.current_player()}"
        here = Position(state=SpielState(game=game, seed=0, moves=tuple(state.history()), position=state))
        decision = Decision(agent, referee.observe(here, agent), referee.choices(here, agent))
        found[state.information_state_string()] = (state, decision)
    return found


def chances_of_choices(generator: Any, prompts: Sequence[Any], choices: Sequence[Choices]) -> list[tuple[float, ...]]:
    """The chance of each of its choices after each prompt, drawn token by token among those that continue one, untempered.

    **Example** choices (5, 2) and (5, 7): .3 and .7, where of all tokens 2 has .03 after 5, and 7 has .07.
    """
    answers = [(prompt, answer) for prompt, some in zip(prompts, choices, strict=True) for answer in some]
    scored = iter(generator.score(*map(list, zip(*answers, strict=True))))
    return [_among(some, [next(scored) for _ in some]) for some in choices]


def _among(choices: Choices, logprobs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The chances of choices by the log-probabilities of their tokens among all tokens."""
    following: dict[tuple[int, ...], dict[int, float]] = {}
    for answer, of_tokens in zip(choices, logprobs, strict=True):
        for place, (token, logprob) in enumerate(zip(answer, of_tokens, strict=True)):
            following.setdefault(answer[:place], {})[token] = logprob

    def chance(begun: tuple[int, ...], token: int) -> float:
        largest = max(following[begun].values())
        weights = {each: exp(logprob - largest) for each, logprob in following[begun].items()}
        return weights[token] / sum(weights.values())

    return tuple(prod(chance(answer[:place], token) for place, token in enumerate(answer)) for answer in choices)


def mean_table(tables: Sequence[Table]) -> Table:
    """The plain mean of tables; of a game of one decision each, the policy that plays like one of them picked before it."""
    return {
        information: {choice: sum(table[information][choice] for table in tables) / len(tables) for choice in chances}
        for information, chances in tables[0].items()
    }


@contextmanager
def open_tables(config: Any, run_id: str, *, num_problems: int = 64) -> Iterator[Tables]:
    """The tables of a finished run."""
    from components.runs.run import Run
    from components.session.session import Session

    with Session(Run(run_id=run_id, config=config)) as session:
        yield Tables(session, decisions(session.scenario, num_problems=num_problems))
