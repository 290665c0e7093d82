"""social_trading: members trade in two goods by typed offers and keep their promises or not; rules in `rules/trading.py`."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from pydantic import Field, model_validator

from components.environments.base import JointStep
from components.environments.social.game import WEIGHTS, SocialGame, join_choices, member_names, number, place_of
from components.environments.social.rules.trading import (
    ANSWERS,
    DELIVERIES,
    GOODS,
    PASS,
    Market,
    Offer,
    choose_scripted_action,
    draw_market,
    gini,
    has_deal,
    market_step,
    may_pass,
    possible_offers,
)
from components.frozen import Settings

_MOST_LISTED = 12


class SocialTradingOptions(Settings):
    """The options of social_trading."""

    num_members: int = Field(2, ge=2, le=16)
    """The players, who make offers in turn."""
    num_rounds: int = Field(4, ge=1, le=200)
    """Offers of an episode; `environment.max_turns` must allow three answers for each."""
    most_traded: int = Field(3, ge=1, le=9)
    """The most pieces of a good in an offer."""
    binding: bool = False
    """Whether accepted offers are always delivered. By default both who agreed deliver or keep, at once."""
    num_scripted: int = Field(0, ge=0)
    """Members, the last ones, that no agent plays: they accept what they gain by, keep promises, and make no offers."""
    has_deal: bool = False
    """Only markets in which the first member has an offer that it and its partner gain by."""
    must_offer: bool = False
    """Whether passing is a choice only where no offer is possible. By default whoever is asked for an offer may pass."""

    @model_validator(mode="after")
    def _somebody_plays(self) -> "SocialTradingOptions":
        if self.num_scripted >= self.num_members:
            raise ValueError(
                f"num_scripted {self.num_scripted} of num_members {self.num_members} leaves nobody who learns: lower it"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Trading:
    """A market and the seed of its problem."""

    market: Market
    first: Market
    seed: int
    num_steps: int = 0


class SocialTradingEnvironment(SocialGame):
    """Trading. A step pays each member the change of its utility. `solved`: in the end nobody has a lower utility than at the
    start, and somebody a higher one. Facts of weight 0, as they stand after a step: `team.gain`, the sum of utilities gained by
    the sum at the start; `team.gini` of the utilities; `team.kept`, the share of promises kept, 1 if none was made."""

    roles = member_names(2)
    weights: ClassVar[Mapping[str, float]] = {**WEIGHTS, "team.gain": 0.0, "team.gini": 0.0, "team.kept": 0.0}
    Options = SocialTradingOptions

    def roles_for(self, options: SocialTradingOptions) -> tuple[str, ...]:
        return member_names(options.num_members - options.num_scripted)

    def draw(self, options: SocialTradingOptions, rng: Random) -> Mapping[str, Any]:
        # Where members may pass, the problem does not say so: its id and its split are those it has without the option.
        drawn = super().draw(options, rng)
        return {name: value for name, value in drawn.items() if name != "must_offer" or value}

    def start(self, problem: Mapping[str, Any]) -> Trading:
        rng = Random(problem["seed"])
        while True:
            market = draw_market(
                problem["num_members"],
                problem["num_rounds"],
                most_traded=problem["most_traded"],
                binding=problem["binding"],
                num_scripted=problem["num_scripted"],
                must_offer=problem.get("must_offer", False),
                rng=rng,
            )
            if not problem["has_deal"] or has_deal(market):
                break
        return Trading(market=market, first=market, seed=problem["seed"])

    def next_role(self, state: Trading) -> tuple[str, ...] | None:
        market = state.market
        return tuple(f"player_{member}" for member in market.acting if not _is_scripted(market, member)) or None

    def choices(self, state: Trading, agent: str) -> tuple[str, ...]:
        market, member = state.market, place_of(agent)
        if market.phase == "answer":
            return ANSWERS
        if market.phase == "deliver":
            return DELIVERIES
        offers = (_offer_text(market, each) for each in possible_offers(market, member))
        return (*offers, *([PASS] if may_pass(market, member) else []))

    def longest_answer(self, options: SocialTradingOptions) -> int:
        longest = "give 9 apples get 9 pears"
        return len(longest) + (len(f" player_{options.num_members - 1}") if options.num_members > 2 else 0)

    def after(self, state: Trading, played: Mapping[str, str]) -> JointStep:
        market, first = state.market, state.first
        actions = {place_of(agent): _action(market, text) for agent, text in played.items()}
        after = _after_scripted(market_step(market, actions | _choose_scripted_actions(market)))
        everybody = range(len(market.holdings_N))
        gains = [after.utility(member) - market.utility(member) for member in everybody]
        overall = [after.utility(member) - first.utility(member) for member in everybody]
        num_made, num_kept = sum(after.made_N), sum(after.kept_N)
        return JointStep(
            state=Trading(market=after, first=first, seed=state.seed, num_steps=state.num_steps + 1),
            solved=after.done and min(overall) >= 0 and max(overall) > 0,
            done=after.done,
            team={
                "gain": sum(overall) / sum(first.utility(member) for member in everybody),
                "gini": gini([after.utility(member) for member in everybody]),
                "kept": num_kept / num_made if num_made else 1.0,
            },
            payoffs={name: gains[place_of(name)] for name in member_names(len(gains) - market.num_scripted)},
        )

    def observe(self, state: Trading, agent: str) -> str:
        """What everybody has and has kept of its promises, the own taste, and what is to be done."""
        market, own = state.market, place_of(agent)
        lines = [f"{agent}, round {market.round + 1} of {market.num_rounds}"]
        for member, (apples, pears) in enumerate(market.holdings_N):
            who = "you have" if member == own else f"player_{member} has"
            record = "" if market.binding else f", kept {market.kept_N[member]} of {market.made_N[member]} promises"
            lines.append(f"{who} {apples} apples {pears} pears{record}")
        lines.append(f"your taste: apples {number(market.taste_N[own])}, pears {number(1 - market.taste_N[own])}")
        offer = market.offer
        if offer is not None:
            given, wanted = GOODS[offer.good], GOODS[1 - offer.good]
            promised = "promised" if market.phase == "deliver" else "offered"
            said = f"{promised} player_{offer.partner} {offer.num_given} {given} for {offer.num_wanted} {wanted}"
            lines.append(f"player_{offer.giver} {said}")
        asked = {
            "offer": _offer_asked(market, own),
            "answer": f"{join_choices(ANSWERS)}?",
            "deliver": f"{join_choices(DELIVERIES)}?",
        }
        return "\n".join([*lines, *([asked[market.phase]] if own in market.acting else [])])

    def instructions(self, state: Trading, agent: str) -> str:
        market = state.market
        acts = place_of(agent) in market.acting
        choices = self.choices(state, agent) if acts else ()
        trust = (
            "Accepted offers are delivered."
            if market.binding
            else "After an offer is accepted, both at once deliver what they promised or keep it; all see who kept promises."
        )
        scripted = member_names(len(market.holdings_N))[len(market.holdings_N) - market.num_scripted :]
        if scripted:
            trust += f" {', '.join(scripted)} accepts what raises its worth."
        told = (
            f"You are {agent}. Players in turn offer to trade apples and pears. Your goods are worth apples to the power of "
            "your taste for apples, times pears to the power of your taste for pears; the others' tastes are hidden. You earn "
            f"the change of that worth. {trust}"
        )
        if not 0 < len(choices) <= _MOST_LISTED:
            partner = " player_1" if len(market.holdings_N) > 2 else ""
            examples = " or ".join(
                f"`give {give}{partner}`" for give in ("1 apples get 2 pears", "2 pears get 1 apples")
            )
            otherwise = "" if market.must_offer else f", or {PASS},"
            return f"{told}\nAnswer with an offer such as {examples}{otherwise} and nothing else."
        return f"{told}\nAnswer with one of these and nothing else: {join_choices(choices)}."

    def render(self, state: Trading) -> str:
        market = state.market
        lines = [
            f"player_{member}: {apples} apples {pears} pears, taste {number(market.taste_N[member])}, worth "
            f"{market.utility(member):.3f}, kept {market.kept_N[member]} of {market.made_N[member]}"
            for member, (apples, pears) in enumerate(market.holdings_N)
        ]
        offer = [f"player_{market.offer.giver}: {_offer_text(market, market.offer)}"] if market.offer else []
        return "\n".join([f"round {min(market.round + 1, market.num_rounds)} of {market.num_rounds}", *lines, *offer])


def _is_scripted(market: Market, member: int) -> bool:
    return member >= len(market.holdings_N) - market.num_scripted


def _choose_scripted_actions(market: Market) -> dict[int, Offer | str]:
    return {member: choose_scripted_action(market, member) for member in market.acting if _is_scripted(market, member)}


def _after_scripted(market: Market) -> Market:
    """The market where next somebody acts who is not scripted, or at the end."""
    while market.acting and len(actions := _choose_scripted_actions(market)) == len(market.acting):
        market = market_step(market, actions)
    return market


def _offer_asked(market: Market, member: int) -> str:
    """**Example** "offer or pass?"; of those who must offer what they can "offer?", or "pass?" if they can offer nothing."""
    if not market.must_offer:
        return f"offer or {PASS}?"
    return f"{PASS}?" if may_pass(market, member) else "offer?"


def _offer_text(market: Market, offer: Offer) -> str:
    """**Example** "give 1 apples get 2 pears"; with more than two players " player_2" after it."""
    partner = f" player_{offer.partner}" if len(market.holdings_N) > 2 else ""
    return f"give {offer.num_given} {GOODS[offer.good]} get {offer.num_wanted} {GOODS[1 - offer.good]}{partner}"


def read_offer(market: Market, text: str) -> Offer | None:
    """The offer of the one whose round it is; None for a pass, and for what is impossible."""
    (member,) = market.acting
    return next((each for each in possible_offers(market, member) if _offer_text(market, each) == text), None)


def _action(market: Market, text: str) -> Offer | str:
    return text if market.phase != "offer" else read_offer(market, text) or PASS
