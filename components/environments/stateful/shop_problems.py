"""Random shop problems."""

from dataclasses import dataclass
from random import Random
from typing import Any

GOODS = ("apple", "bread", "candle", "date", "fig", "honey", "lamp", "melon", "nut", "pear", "rope", "salt")
_LETTERS = "abcdefghjkmpqrtwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    num_goods: int
    max_offers: int
    num_wanted: tuple[int, int]
    max_price: int
    num_coupons: int
    num_strange: int = 0
    """Unwanted offers in the cart at the start."""
    entangled: bool = False
    """With scarce stock, and an earlier order to cancel."""


_LEVELS = (
    _Level(num_goods=3, max_offers=1, num_wanted=(1, 1), max_price=9, num_coupons=0),
    _Level(num_goods=4, max_offers=1, num_wanted=(2, 2), max_price=9, num_coupons=1),
    _Level(num_goods=5, max_offers=2, num_wanted=(2, 3), max_price=15, num_coupons=2, num_strange=1),
    _Level(num_goods=5, max_offers=2, num_wanted=(3, 4), max_price=20, num_coupons=2, num_strange=1, entangled=True),
)
_MAX_WANTED_UNITS = 4


def draw_shop(level: int, rng: Random) -> dict[str, Any] | None:
    """A problem, or None if the wanted units are not in stock.

    The money suffices for the cheapest order, in half of the problems only with the best coupon.
    """
    wanted_level = _LEVELS[level]
    goods = rng.sample(GOODS, wanted_level.num_goods)
    offers = _offers(wanted_level, goods, rng)
    num_wanted = rng.randint(*wanted_level.num_wanted)
    wanted = {name: rng.randint(1, _MAX_WANTED_UNITS) for name in rng.sample(goods, num_wanted)}
    unwanted = [place for place, offer in enumerate(offers) if offer["name"] not in wanted]
    for place in rng.sample(unwanted, wanted_level.num_strange):
        offers[place]["in_cart"] = rng.randint(1, offers[place]["stock"])
    cost = _cheapest(offers, wanted)
    if cost is None:
        return None
    coupons = _coupons(wanted_level.num_coupons, cost, rng)
    money = _money(cost, coupons, rng)
    orders = []
    if wanted_level.entangled:
        place = rng.choice(unwanted)
        units = rng.randint(1, 2)
        paid = units * offers[place]["price"]
        orders.append({"counts": [units * (other == place) for other in range(len(offers))], "paid": paid})
        money = max(0, money - paid)
    return {
        "offers": offers,
        "coupons": coupons,
        "money": money,
        "wanted": [[*pair] for pair in wanted.items()],
        "orders": orders,
    }


def _offers(level: _Level, goods: list[str], rng: Random) -> list[dict[str, Any]]:
    names = [name for name in goods for _ in range(rng.randint(1, level.max_offers))]
    rng.shuffle(names)
    letters = rng.sample(_LETTERS, len(names))
    most = 3 if level.entangled else 9
    return [
        {
            "id": f"{letter}{rng.randint(1, 9)}",
            "name": name,
            "price": rng.randint(1, level.max_price),
            "stock": rng.randint(1, most),
            "in_cart": 0,
        }
        for letter, name in zip(letters, names, strict=True)
    ]


def _cheapest(offers: list[dict[str, Any]], wanted: dict[str, int]) -> int | None:
    """The lowest cost of the wanted units; None if there are not enough."""
    total = 0
    for name, missing in wanted.items():
        for offer in sorted((offer for offer in offers if offer["name"] == name), key=lambda offer: offer["price"]):
            units = min(missing, offer["stock"])
            total += units * offer["price"]
            missing -= units
        if missing:
            return None
    return total


def _coupons(count: int, cost: int, rng: Random) -> list[dict[str, Any]]:
    """Coupons in random order, of which one is valid for an order of `cost`."""
    coupons = []
    for number, letter in enumerate(rng.sample(_LETTERS, count)):
        minimum = max(1, cost - rng.randint(0, 5)) if number == 0 else rng.randint(1, 2 * cost)
        coupons.append({"code": f"{letter}{rng.choice(_LETTERS)}{rng.randint(1, 9)}", "minimum": minimum})
    for coupon in coupons:
        coupon["off"] = rng.randint(1, max(1, cost // 2))
    rng.shuffle(coupons)
    return coupons


def _money(cost: int, coupons: list[dict[str, Any]], rng: Random) -> int:
    best = max((coupon["off"] for coupon in coupons if coupon["minimum"] <= cost), default=0)
    if best and rng.random() < 0.5:
        return max(0, cost - best) + rng.randrange(best)
    return cost + rng.randint(0, 5)
