"""The shop: offers with stock, a cart, money, coupons and orders, and the tools that change them.

What was paid is never lost: money left plus what the live orders cost is always what there was at the start.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.environments.shared.text import shown
from components.environments.stateful.tools import Argument, Done, Refusal, Tool, declared

MAX_COUNT = 9
MAX_ORDERS = 4
"""Live orders at a time, so that what agents see stays short."""
ORDER_NUMBERS = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something on sale. Two offers may have one name."""

    id: str
    name: str
    price: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupon:
    """`off` coins less for an order that costs at least `minimum`; good for one live order."""

    code: str
    minimum: int
    off: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A placed order: units by offer, and what was paid."""

    number: int
    counts: tuple[int, ...]
    paid: int
    coupon: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopState:
    """What changes. `stock` and `cart` have one number an offer; units in the cart are still in stock."""

    stock: tuple[int, ...]
    cart: tuple[int, ...]
    money: int
    orders: tuple[Order, ...] = ()
    next_number: int = 1


@dataclass(frozen=True, slots=True)
class Shop:
    """What never changes."""

    offers: tuple[Offer, ...]
    coupons: tuple[Coupon, ...]

    def counts_by_name(self, counts: Sequence[int]) -> dict[str, int]:
        """Units by name, names without any left out."""
        found: dict[str, int] = {}
        for offer, count in zip(self.offers, counts, strict=True):
            if count:
                found[offer.name] = found.get(offer.name, 0) + count
        return found

    def ordered_by_name(self, state: ShopState) -> dict[str, int]:
        """Units in live orders by name."""
        totals = [sum(order.counts[place] for order in state.orders) for place in range(len(self.offers))]
        return self.counts_by_name(totals)

    def cost(self, counts: Sequence[int]) -> int:
        """What units cost without a coupon."""
        return sum(offer.price * count for offer, count in zip(self.offers, counts, strict=True))

    def usable_coupons(self, state: ShopState, cost: int) -> Iterator[Coupon]:
        """The coupons that an order of this cost may use."""
        used = {order.coupon for order in state.orders}
        return (coupon for coupon in self.coupons if coupon.code not in used and coupon.minimum <= cost)

    def tools(self) -> dict[str, Tool[ShopState]]:
        """The tools by name."""
        offer, count = Argument(kind="text"), Argument(kind="integer", high=MAX_COUNT)
        units = {"offer": offer, "count": count}
        coupon, order = Argument(kind="text", required=False), Argument(kind="integer", high=ORDER_NUMBERS)
        took_back = "takes an order back: goods, money and coupon are as before it"
        return declared(
            [
                ("search", "lists the offers of that name", self._search, {"name": Argument(kind="text")}),
                ("add", "puts units of an offer into the cart", self._add, units),
                ("remove", "takes units of an offer out of the cart", self._remove, units),
                ("pay", "orders all that is in the cart", self._pay, {"coupon": coupon}),
                ("cancel", took_back, self._cancel, {"order": order}),
            ]
        )

    def _place(self, offer_id: str) -> int | Refusal:
        for place, offer in enumerate(self.offers):
            if offer.id == offer_id:
                return place
        return Refusal(type="not_found", message=f"no offer {shown(offer_id)}")

    def _search(self, state: ShopState, given: Mapping[str, Any]) -> Done[ShopState] | Refusal:
        found = [
            {"offer": offer.id, "price": offer.price, "stock": stock}
            for offer, stock in zip(self.offers, state.stock, strict=True)
            if offer.name == given["name"]
        ]
        return Done(state=state, value=found)

    def _add(self, state: ShopState, given: Mapping[str, Any]) -> Done[ShopState] | Refusal:
        place = self._place(given["offer"])
        if isinstance(place, Refusal):
            return place
        held = state.cart[place] + given["count"]
        if held > state.stock[place]:
            return Refusal(type="out_of_stock", message=f"{given['offer']}: {state.stock[place]} in stock")
        return Done(state=replace(state, cart=_with(state.cart, place, held)))

    def _remove(self, state: ShopState, given: Mapping[str, Any]) -> Done[ShopState] | Refusal:
        place = self._place(given["offer"])
        if isinstance(place, Refusal):
            return place
        held = state.cart[place] - given["count"]
        if held < 0:
            return Refusal(type="conflict", message=f"{given['offer']}: {state.cart[place]} in the cart")
        return Done(state=replace(state, cart=_with(state.cart, place, held)))

    def _pay(self, state: ShopState, given: Mapping[str, Any]) -> Done[ShopState] | Refusal:
        cost, code = self.cost(state.cart), given.get("coupon")
        refusal = self._not_payable(state, cost, code)
        if refusal is not None:
            return refusal
        off = next((coupon.off for coupon in self.coupons if coupon.code == code), 0)
        paid = max(0, cost - off)
        if paid > state.money:
            return Refusal(type="insufficient_funds", message=f"costs {paid}, money {state.money}")
        order = Order(number=state.next_number, counts=state.cart, paid=paid, coupon=code)
        after = replace(
            state,
            stock=tuple(stock - count for stock, count in zip(state.stock, state.cart, strict=True)),
            cart=(0,) * len(state.cart),
            money=state.money - paid,
            orders=(*state.orders, order),
            next_number=state.next_number + 1,
        )
        return Done(state=after, value={"order": order.number, "paid": paid})

    def _not_payable(self, state: ShopState, cost: int, code: str | None) -> Refusal | None:
        if not any(state.cart):
            return Refusal(type="conflict", message="the cart is empty")
        if len(state.orders) >= MAX_ORDERS or state.next_number > ORDER_NUMBERS:
            return Refusal(type="conflict", message="too many orders; cancel one")
        known = {coupon.code: coupon for coupon in self.coupons}
        if code is None:
            return None
        if code not in known:
            return Refusal(type="not_found", message=f"no coupon {shown(code)}")
        if any(order.coupon == code for order in state.orders):
            return Refusal(type="conflict", message=f"{code} is used up")
        if cost < known[code].minimum:
            return Refusal(type="conflict", message=f"{code} needs {known[code].minimum}, the cart costs {cost}")
        return None

    def _cancel(self, state: ShopState, given: Mapping[str, Any]) -> Done[ShopState] | Refusal:
        for order in state.orders:
            if order.number == given["order"]:
                after = replace(
                    state,
                    stock=tuple(stock + count for stock, count in zip(state.stock, order.counts, strict=True)),
                    money=state.money + order.paid,
                    orders=tuple(other for other in state.orders if other is not order),
                )
                return Done(state=after, value={"refund": order.paid})
        return Refusal(type="not_found", message=f"no order {given['order']}")


def _with(counts: tuple[int, ...], place: int, count: int) -> tuple[int, ...]:
    return (*counts[:place], count, *counts[place + 1 :])
