"""shop: order exactly the wanted units within a budget, despite coupons, scarce stock and earlier orders."""

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from components.environments.stateful.environment import WorldEnvironment
from components.environments.stateful.shop_problems import GOODS, draw_shop
from components.environments.stateful.shop_rules import MAX_COUNT, Coupon, Offer, Order, Shop, ShopState
from components.environments.stateful.tool_world import ToolWorld, carry_out, first_solving, highlight_goal
from components.environments.stateful.tools import Call

_PLANNER_GUIDE = (
    "You see: the units wanted, | the money left, | the cheapest price of each wanted good, | the cart, | the live orders "
    "with their numbers, | the news. All wanted units shall be in live orders, nothing else, and the cart empty.\n"
    "Steps: `buy N GOOD` into the cart, `drop N GOOD` out of it, `pay` or `pay coupon`, `cancel NUMBER` to take an order "
    "back. Answer with at most {max_steps} steps separated by `;` and nothing else. Example: buy 1 anvil;pay"
)
_TOOL_GUIDE = (
    "After the plan you see: offers as identifier, good, price x stock, | the cart as offer x units, | the money left, | "
    "coupons as code:minimum-discount, | the answers. `pay coupon` means with the best coupon that the cart allows; a good "
    'with several offers is bought where it is cheapest. Example: [{"tool":"search","name":"anvil"}]'
)


class ShopWorld(ToolWorld[ShopState]):
    """One shop and the wanted units."""

    step_pattern = re.compile(rf"(?:buy|drop) [1-{MAX_COUNT}] [a-z]{{1,12}}|pay|pay coupon|cancel [1-9][0-9]?")
    planner_guide = _PLANNER_GUIDE
    tool_guide = _TOOL_GUIDE
    max_step_characters = len("drop 9 ") + max(map(len, GOODS))
    max_call_characters = len('{"tool":"remove","offer":"a1","count":9}')

    def __init__(self, payload: Mapping[str, Any]) -> None:
        super().__init__(payload)
        offers = payload["offers"]
        self.shop = Shop(
            tuple(Offer(id=offer["id"], name=offer["name"], price=offer["price"]) for offer in offers),
            tuple(Coupon(**coupon) for coupon in payload["coupons"]),
        )
        self.tools = self.shop.tools()
        self.wanted: Mapping[str, int] = dict(payload["wanted"])
        self.goal_text = _counts_text(self.wanted)
        orders = tuple(
            Order(number=number, counts=tuple(order["counts"]), paid=order["paid"])
            for number, order in enumerate(payload["orders"], start=1)
        )
        self.start = ShopState(
            stock=tuple(offer["stock"] for offer in offers),
            cart=tuple(offer["in_cart"] for offer in offers),
            money=payload["money"],
            orders=orders,
            next_number=len(orders) + 1,
        )

    def distance(self, state: ShopState) -> int:
        """The number of goods with a wrong count in cart and orders together, plus one until all is ordered."""
        totals = [sum(order.counts[place] for order in state.orders) for place in range(len(self.shop.offers))]
        ordered, in_cart = self.shop.counts_by_name(totals), self.shop.counts_by_name(state.cart)
        names = {*self.wanted, *ordered, *in_cart}
        wrong = sum(ordered.get(name, 0) + in_cart.get(name, 0) != self.wanted.get(name, 0) for name in names)
        return wrong + (ordered != self.wanted or any(state.cart))

    def planner_view(self, state: ShopState) -> str:
        cheapest = {name: min(offer.price for offer in self.shop.offers if offer.name == name) for name in self.wanted}
        prices = ",".join(f"{name} {price}" for name, price in cheapest.items())
        cart = _counts_text(self.shop.counts_by_name(state.cart))
        orders = ",".join(
            f"#{order.number} {_counts_text(self.shop.counts_by_name(order.counts))}" for order in state.orders
        )
        return f"{state.money}|{prices}|{cart}|{orders}"

    def tool_view(self, state: ShopState) -> str:
        offers = zip(self.shop.offers, state.stock, strict=True)
        catalogue = ",".join(f"{offer.id} {offer.name} {offer.price}x{stock}" for offer, stock in offers)
        cart = ",".join(
            f"{offer.id}x{count}" for offer, count in zip(self.shop.offers, state.cart, strict=True) if count
        )
        coupons = ",".join(f"{coupon.code}:{coupon.minimum}-{coupon.off}" for coupon in self.shop.coupons)
        return f"{catalogue}|{cart}|{state.money}|{coupons}"

    def calls_for(self, state: ShopState, step: str) -> list[Call]:
        match step.split():
            case ["buy", count, name]:
                free = [stock - held for stock, held in zip(state.stock, state.cart, strict=True)]
                return self._spread("add", name, int(count), free, dearest_first=False)
            case ["drop", count, name]:
                return self._spread("remove", name, int(count), state.cart, dearest_first=True)
            case ["pay", "coupon"]:
                usable = self.shop.usable_coupons(state, self.shop.cost(state.cart))
                best = max(usable, key=lambda coupon: coupon.off, default=None)
                return [{"tool": "pay", "coupon": best.code}] if best and any(state.cart) else []
            case ["pay"]:
                return [{"tool": "pay"}] if any(state.cart) else []
            case ["cancel", number]:
                return [{"tool": "cancel", "order": int(number)}]
        raise AssertionError(f"{step!r} is no step of a shop")

    def _spread(self, tool: str, name: str, count: int, available: Sequence[int], *, dearest_first: bool) -> list[Call]:
        """Calls for `count` units of `name` over its offers in order of price; none if there are not enough."""
        calls: list[Call] = []
        places = [place for place, offer in enumerate(self.shop.offers) if offer.name == name]
        for place in sorted(places, key=lambda place: self.shop.offers[place].price, reverse=dearest_first):
            units = min(count, available[place], MAX_COUNT)
            if units:
                calls.append({"tool": tool, "offer": self.shop.offers[place].id, "count": units})
                count -= units
        return calls if count == 0 else []

    def expert_steps(self, state: ShopState) -> list[str]:
        """Keeps the usable part of cart and orders if that leads to the goal, and starts over otherwise."""
        return first_solving(self, state, (self._steps(state, keeps=keeps) for keeps in (True, False)))

    def _steps(self, state: ShopState, *, keeps: bool) -> list[str]:
        missing, steps = dict(self.wanted), []
        for order in state.orders:
            counts = self.shop.counts_by_name(order.counts)
            if keeps and all(missing.get(name, 0) >= count for name, count in counts.items()):
                missing = {name: count - counts.get(name, 0) for name, count in missing.items()}
            else:
                steps.append(f"cancel {order.number}")
        in_cart = self.shop.counts_by_name(state.cart)
        for name, count in in_cart.items():
            surplus = count - missing.get(name, 0) if keeps else count
            steps += _in_portions("drop", surplus, name)
        for name, count in missing.items():
            held = in_cart.get(name, 0) if keeps else 0
            steps += _in_portions("buy", count - held, name)
        cart = carry_out(self, state, steps).state
        if any(cart.cart):
            steps.append("pay" if self.shop.cost(cart.cart) <= cart.money else "pay coupon")
        return steps

    def random_step(self, rng: Random) -> str:
        count, name = rng.randint(1, 3), rng.choice([offer.name for offer in self.shop.offers])
        return rng.choice(
            [f"buy {count} {name}", f"buy {count} {name}", f"drop {count} {name}", "pay", "pay coupon", "cancel 1"]
        )

    def random_call(self, state: ShopState, rng: Random) -> Call:
        offer, count = rng.choice(self.shop.offers), rng.randint(1, 3)
        codes = [coupon.code for coupon in self.shop.coupons]
        return rng.choice(
            [
                {"tool": "search", "name": offer.name},
                {"tool": "add", "offer": offer.id, "count": count},
                {"tool": "add", "offer": offer.id, "count": count},
                {"tool": "remove", "offer": offer.id, "count": count},
                {"tool": "pay", "coupon": rng.choice(codes)} if codes else {"tool": "pay"},
                {"tool": "cancel", "order": rng.randint(1, 3)},
            ]
        )

    def picture(self, state: ShopState, *, color: bool) -> str:
        rows = [
            f"{offer.id:<4}{offer.name:<10}{offer.price:>4} each {stock:>3} in stock"
            + (f"{held:>4} in cart" if held else "")
            for offer, stock, held in zip(self.shop.offers, state.stock, state.cart, strict=True)
        ]
        coupons = ", ".join(f"{coupon.code}: {coupon.off} off from {coupon.minimum}" for coupon in self.shop.coupons)
        orders = ", ".join(
            f"#{order.number} {_counts_text(self.shop.counts_by_name(order.counts))} for {order.paid}"
            for order in state.orders
        )
        goal = f"goal {highlight_goal(self.goal_text, color=color)}"
        ending = [f"money {state.money}", f"coupons {coupons or 'none'}", f"orders {orders or 'none'}", goal]
        return "\n".join([*rows, *ending])


class ShopEnvironment(WorldEnvironment[ShopState]):
    """All shop problems.

    Level 0: one good of three, no coupon. 1: two goods, a coupon. 2: several offers per good, unwanted units in the cart.
    3: scarce stock, and an order to be cancelled.
    """

    world_type = ShopWorld
    draw_level = staticmethod(draw_shop)

    def deciding(self, problem: Mapping[str, Any]) -> Mapping[str, Any]:
        """The wanted units; money, prices, offers and carts vary within a split."""
        return {"wanted": sorted(problem["wanted"])}


def _counts_text(counts: Mapping[str, int]) -> str:
    """**Example** `{"pear": 2, "fig": 1}` is `2 pear,1 fig`."""
    return ",".join(f"{count} {name}" for name, count in counts.items())


def _in_portions(verb: str, count: int, name: str) -> list[str]:
    """Steps of at most MAX_COUNT units each."""
    portions = [MAX_COUNT] * (count // MAX_COUNT) + [count % MAX_COUNT] if count > 0 else []
    return [f"{verb} {portion} {name}" for portion in portions if portion]
