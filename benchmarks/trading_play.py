"""Plays traders on held-out markets: any two checkpoints of a run's members, and constant answers beside them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import Any, Literal

OFFERER, RESPONDER = "player_0", "player_1"
ACCEPT = "accept"
Sampling = Literal["sample", "greedy"]


@dataclass(frozen=True, slots=True)
class Player:
    """A member as it is after `step` updates."""

    member: str
    step: int


class Tables:
    """The tables of a finished run, at which its checkpoints sit down."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._scenario = session.scenario
        self._held: dict[str, Any] = {}

    def problems(self, num: int, *, split: str) -> list[Any]:
        """The first problems of a split."""
        family, options = self._scenario.family, self._scenario.options
        return [family.problem(options, split=split, index=index, seed=0) for index in range(num)]

    def returns(
        self, seats: Mapping[str, Player], problems: Sequence[Any], *, replicas: int, sampling: Sampling = "sample"
    ) -> dict[str, list[float]]:
        """What each agent earns, by problem: the mean of `replicas` episodes, whose draws depend on no checkpoint."""
        episodes = self._episodes(seats, problems, replicas, sampling)
        return {
            agent: [
                fmean(_sum_payoffs(episode, agent) for episode in episodes[first : first + replicas])
                for first in range(0, len(episodes), replicas)
            ]
            for agent in seats
        }

    def offers(
        self, seats: Mapping[str, Player], problems: Sequence[Any], *, replicas: int, sampling: Sampling = "sample"
    ) -> list[list[str]]:
        """What the offerer says, by problem, in the same episodes as those of `returns`."""
        said = [episode.path[0].candidates[0].text for episode in self._episodes(seats, problems, replicas, sampling)]
        return [said[first : first + replicas] for first in range(0, len(said), replicas)]

    def chances_to_accept(self, responder: Player, asked: Sequence[tuple[Any, str]]) -> list[float]:
        """How likely the responder, who draws at its temperature, accepts each (problem, offer); 0 where the offer is
        impossible, or a pass."""
        from components.generation.base import GenerationRequest

        router, referee = self._router({RESPONDER: responder}), self._scenario.family.referee()
        config = self._session.config
        temperature = config.agents[RESPONDER].temperature or config.rollout.temperature
        requests: dict[int, Any] = {}
        for number, (problem, offer) in enumerate(asked):
            start = referee.start(problem)
            if offer not in (referee.choices(start, OFFERER) or ()):
                continue
            after = referee.act_together(start, {OFFERER: offer})[1]
            if not after.is_done:
                choices = router.encode_choices(RESPONDER, referee.choices(after, RESPONDER))
                requests[number] = GenerationRequest(
                    prompt_tokens=router.encode(RESPONDER, referee.observe(after, RESPONDER)),
                    seeds_K=(0,),
                    max_new_tokens=max(map(len, choices)),
                    temperature=temperature,
                    choices=choices,
                )
        engine, version = self._session.engines.of(responder.member), self._held[responder.member]
        chances = [0.0] * len(asked)
        for number, (completion,) in zip(requests, engine.generate([*requests.values()], version), strict=True):
            chance = min(1.0, exp(sum(completion.logprobs)))
            accepts = router.decode(RESPONDER, completion.tokens) == ACCEPT
            chances[number] = chance if accepts else 1.0 - chance
        return chances

    def _episodes(
        self, seats: Mapping[str, Player], problems: Sequence[Any], replicas: int, sampling: Sampling
    ) -> list[Any]:
        from components.evaluation.held_out import eval_rules
        from components.rollout.play import play
        from components.rollout.rules import Start

        scenario = self._scenario
        max_turns = self._session.config.environment.max_turns
        numbered = [problem for problem in problems for _ in range(replicas)]
        return [
            *play(
                [Start(problem=problem, episode=number) for number, problem in enumerate(numbered)],
                eval_rules(scenario.turn_order, max_turns=max_turns, sampling=sampling, split="test", seed=0),
                family=scenario.family,
                router=self._router(seats),
                rubric=scenario.rubric,
                tools=self._session.toolbox.tools(),
            )
        ]

    def _router(self, seats: Mapping[str, Player]) -> Any:
        from components.runs.steps import checkpoints_before
        from components.session.checkpoint_loading import load_checkpoint

        session = self._session
        homes = {agent: seat.policy for agent, seat in self._scenario.seats.items()}
        for player in seats.values():
            checkpoint = checkpoints_before(session.store, session.run, player.step)[player.member]
            held = self._held.get(player.member)
            if held is None or held.weights_digest != checkpoint.weights_digest:
                self._held[player.member] = load_checkpoint(session, checkpoint)[0]
        seating = homes | {agent: player.member for agent, player in seats.items()}
        return session.router(self._held, seating)


def _sum_payoffs(episode: Any, agent: str) -> float:
    """The sum of an agent's raw payoffs over an episode."""
    outcomes = [node.candidates[node.chosen].outcome for node in episode.path]
    return sum((outcome.payoffs or {}).get(agent, 0.0) for outcome in outcomes)


@contextmanager
def open_tables(config: Any, run_id: str) -> Iterator[Tables]:
    """The tables of a finished run."""
    from components.runs.run import Run
    from components.session.session import Session

    with Session(Run(run_id=run_id, config=config)) as session:
        yield Tables(session)


def gains(problem: Any, offer: str) -> tuple[float, ...]:
    """What each member gains if an offer is made and accepted; zeros where it is impossible, and for a pass."""
    from components.environments.social.rules.trading import market_step
    from components.environments.social.social_trading import SocialTradingEnvironment, read_offer

    market = SocialTradingEnvironment().start(problem.payload).market
    made = read_offer(market, offer)
    if made is None:
        return (0.0,) * len(market.holdings_N)
    after = market_step(market_step(market, {0: made}), {made.partner: ACCEPT})
    return tuple(after.utility(member) - market.utility(member) for member in range(len(market.holdings_N)))


def constant_offers(most_traded: int = 3) -> list[str]:
    """All offers of two players.

    **Example** 1 piece at most: give 1 apples get 1 pears, give 1 pears get 1 apples.
    """
    goods = (("apples", "pears"), ("pears", "apples"))
    amounts = range(1, most_traded + 1)
    return [f"give {k} {mine} get {m} {yours}" for mine, yours in goods for k in amounts for m in amounts]


def richer_good_offer(problem: Any, given: int, wanted: int) -> str:
    """An offer of the good of which the offerer has more, for the other one.

    **Example** 6 apples and 1 pear, 2 for 1: give 2 apples get 1 pears.
    """
    from components.environments.social.social_trading import SocialTradingEnvironment

    apples, pears = SocialTradingEnvironment().start(problem.payload).market.holdings_N[0]
    mine, yours = ("apples", "pears") if apples > pears else ("pears", "apples")
    return f"give {given} {mine} get {wanted} {yours}"
