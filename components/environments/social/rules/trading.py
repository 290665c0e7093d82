"""Trade in two goods: typed offers, a promise that may be broken, and utilities that each member alone knows.

In each round one member, in turn, offers so many of one good for so many of the other to one partner, or passes; with
`must_offer` only if no offer is possible. The partner accepts or refuses. Whoever accepts and whoever offered then deliver at
once, or keep what they promised. A member's utility is `apples ** taste * pears ** (1 - taste)` (Cobb-Douglas), and a step
pays the change of it, so that a return is the utility gained over the episode. Members may be scripted: they accept what they
gain by, keep promises, and make no offers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from components.errors import ConfigurationError

TASTES = (0.25, 0.5, 0.75)
GOODS = ("apples", "pears")
Phase = Literal["offer", "answer", "deliver"]
ANSWERS = ("accept", "refuse")
DELIVERIES = ("deliver", "keep")
PASS = "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """`giver` gives `num_given` of good `good` (0 apples, 1 pears) and gets `num_wanted` of the other from `partner`."""

    giver: int
    partner: int
    good: int
    num_given: int
    num_wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Where an episode stands. `holdings_N` are apples and pears; `kept_N` and `made_N` count promises."""

    holdings_N: tuple[tuple[int, int], ...]
    taste_N: tuple[float, ...]
    num_rounds: int
    most_traded: int = 3
    binding: bool = False
    """Whether accepted offers are always delivered, so that nobody is asked."""
    num_scripted: int = 0
    """How many members, the last ones, play by `choose_scripted_action`."""
    must_offer: bool = False
    """Whether nobody may pass who has a possible offer."""
    round: int = 0
    phase: Phase = "offer"
    offer: Offer | None = None
    kept_N: tuple[int, ...] = ()
    made_N: tuple[int, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all rounds were played."""
        return self.round >= self.num_rounds

    @property
    def acting(self) -> tuple[int, ...]:
        """Who acts: the one whose round it is, the one who was asked, or both who promised."""
        if self.done:
            return ()
        if self.offer is None:
            return (self.round % (len(self.holdings_N) - self.num_scripted),)
        both = (self.offer.giver, self.offer.partner)
        return both[1:] if self.phase == "answer" else tuple(sorted(both))

    def utility(self, member: int) -> float:
        """What a member's goods are worth to it.

        **Example** 4 apples and 9 pears at taste .5: 6.
        """
        apples, pears = self.holdings_N[member]
        return float(apples ** self.taste_N[member] * pears ** (1 - self.taste_N[member]))


def draw_market(
    num_members: int,
    num_rounds: int,
    *,
    most_traded: int,
    binding: bool,
    num_scripted: int = 0,
    must_offer: bool = False,
    rng: Random,
) -> Market:
    """A market in which each member has 1 to 8 of each good, and a taste."""
    return Market(
        holdings_N=tuple((rng.randint(1, 8), rng.randint(1, 8)) for _ in range(num_members)),
        taste_N=tuple(rng.choice(TASTES) for _ in range(num_members)),
        num_rounds=num_rounds,
        most_traded=most_traded,
        binding=binding,
        num_scripted=num_scripted,
        must_offer=must_offer,
        kept_N=(0,) * num_members,
        made_N=(0,) * num_members,
    )


def possible_offers(market: Market, member: int) -> tuple[Offer, ...]:
    """All offers that both could deliver, of at most `most_traded` pieces on either side."""
    amounts = range(1, market.most_traded + 1)
    return tuple(
        Offer(giver=member, partner=partner, good=good, num_given=given, num_wanted=wanted)
        for partner in range(len(market.holdings_N))
        if partner != member
        for good in (0, 1)
        for given in amounts
        for wanted in amounts
        if market.holdings_N[member][good] >= given and market.holdings_N[partner][1 - good] >= wanted
    )


def may_pass(market: Market, member: int) -> bool:
    """Whether a member may make no offer in its round.

    **Example** with `must_offer`, if nobody has pears: yes. If it has apples and another one pears: no.
    """
    return not market.must_offer or not possible_offers(market, member)


def has_deal(market: Market) -> bool:
    """Whether the first member has an offer that it and its partner gain by.

    **Example** tastes .5, 6 apples and 1 pear beside 1 apple and 6 pears: yes, one for one. Equal goods: no.
    """

    def helps_both(offer: Offer) -> bool:
        after = _trade(market, offer)
        return all(after.utility(member) > market.utility(member) for member in (offer.giver, offer.partner))

    return any(helps_both(offer) for offer in possible_offers(market, 0))


def market_step(market: Market, played: Mapping[int, Offer | str]) -> Market:
    """The market after what those who act do: an `Offer` or "pass", then accept or refuse, then deliver or keep.

    Raises ConfigurationError if others act than those whose turn it is.

    **Example** 1 apple for 2 pears, accepted; the giver delivers and the partner keeps: the apple alone moves, and of the
    partner's promises one more was made and none kept.
    """
    if set(played) != set(market.acting):
        raise ConfigurationError(f"actions of {sorted(played)}: {market.acting} act")
    if market.phase == "deliver":
        return _deliver(market, played)
    ((_, action),) = played.items()
    if isinstance(action, Offer):
        return replace(market, offer=action, phase="answer")
    if action != "accept":
        return _next_round(market)
    assert market.offer is not None, market
    return _trade(market, market.offer) if market.binding else replace(market, phase="deliver")


def choose_scripted_action(market: Market, member: int) -> str:
    """What a scripted member does, where it is asked: it accepts what raises its utility, and delivers.

    **Example** with 2 apples, 5 pears and taste .5 it accepts 1 pear for 1 apple (3.46 after 3.16), and refuses 3 pears for it.
    """
    if market.phase == "deliver":
        return "deliver"
    assert market.offer is not None, market
    return "accept" if _trade(market, market.offer).utility(member) > market.utility(member) else "refuse"


def gini(amounts: Sequence[float]) -> float:
    """How unequal amounts are: 0 if all are equal, near 1 if one has all.

    **Example** 1 and 3: .25.
    """
    total, num = sum(amounts), len(amounts)
    return sum(abs(one - other) for one in amounts for other in amounts) / (2 * num * total) if total else 0.0


def _trade(market: Market, offer: Offer) -> Market:
    """The market after an offer that was accepted, and kept by both."""
    promised = replace(market, offer=offer, phase="deliver")
    return _deliver(promised, dict.fromkeys(promised.acting, "deliver"))


def _deliver(market: Market, played: Mapping[int, Offer | str]) -> Market:
    offer = market.offer
    assert offer is not None, market
    holdings = [list(each) for each in market.holdings_N]
    kept, made = list(market.kept_N), list(market.made_N)
    sides = (
        (offer.giver, offer.partner, offer.good, offer.num_given),
        (offer.partner, offer.giver, 1 - offer.good, offer.num_wanted),
    )
    for sender, receiver, good, amount in sides:
        made[sender] += 1
        if played[sender] == "deliver":
            kept[sender] += 1
            holdings[sender][good] -= amount
            holdings[receiver][good] += amount
    return _next_round(
        replace(
            market,
            holdings_N=tuple((apples, pears) for apples, pears in holdings),
            kept_N=tuple(kept),
            made_N=tuple(made),
        )
    )


def _next_round(market: Market) -> Market:
    return replace(market, round=market.round + 1, phase="offer", offer=None)
