"""The shop: offers with stock, a cart, money, coupons and orders, and the tools that change them.

Money left plus the cost of the live orders is constant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from components.environments.shared.text import quote_start
from components.environments.stateful.tools import Argument, Done, Given, Refusal, Tool, declare_tools

MAX_COUNT = 9
MAX_ORDERS = 4
"""Limit of live orders, which keeps observations short."""
ORDER_NUMBERS = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One article on sale. Several offers may share a name."""

    id: str
    name: str
    price: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupon:
    """A discount of `off` on an order that costs at least `minimum`; valid for one live order."""

    code: str
    minimum: int
    off: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A placed order: units per offer, and the price paid."""

    number: int
    counts: tuple[int, ...]
    paid: int
    coupon: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopState:
    """The mutable part. `stock` and `cart` have one number per offer; units in the cart still count as stock."""

    stock: tuple[int, ...]
    cart: tuple[int, ...]
    money: int
    orders: tuple[Order, ...] = ()
    next_number: int = 1


@dataclass(frozen=True, slots=True)
class Shop:
    """The constant part."""

    offers: tuple[Offer, ...]
    coupons: tuple[Coupon, ...]

    def counts_by_name(self, counts: Sequence[int]) -> dict[str, int]:
        """Units by name, without zeros."""
        found: dict[str, int] = {}
        for offer, count in zip(self.offers, counts, strict=True):
            if count:
                found[offer.name] = found.get(offer.name, 0) + count
        return found

    def cost(self, counts: Sequence[int]) -> int:
        """The price of these units without a coupon."""
        return sum(offer.price * count for offer, count in zip(self.offers, counts, strict=True))

    def usable_coupons(self, state: ShopState, cost: int) -> Iterator[Coupon]:
        """The coupons that are valid for an order of this cost."""
        used = {order.coupon for order in state.orders}
        return (coupon for coupon in self.coupons if coupon.code not in used and coupon.minimum <= cost)

    def tools(self) -> dict[str, Tool[ShopState]]:
        """The tools by name."""
        units = {"offer": Argument(kind="text"), "count": Argument(kind="integer", high=MAX_COUNT)}
        coupon, order = Argument(kind="text", required=False), Argument(kind="integer", high=ORDER_NUMBERS)
        took_back = "takes an order back: goods, money and coupon are as before it"
        return declare_tools(
            [
                ("search", "lists the offers of that name", self._search, {"name": Argument(kind="text")}),
                ("add", "puts units of an offer into the cart", partial(self._put, sign=1), units),
                ("remove", "takes units of an offer out of the cart", partial(self._put, sign=-1), units),
                ("pay", "orders all that is in the cart", self._pay, {"coupon": coupon}),
                ("cancel", took_back, self._cancel, {"order": order}),
            ]
        )

    def _place(self, offer_id: str) -> int:
        for place, offer in enumerate(self.offers):
            if offer.id == offer_id:
                return place
        raise Refusal(type="not_found", message=f"no offer {quote_start(offer_id)}")

    def _search(self, state: ShopState, given: Given) -> Done[ShopState]:
        found = [
            {"offer": offer.id, "price": offer.price, "stock": stock}
            for offer, stock in zip(self.offers, state.stock, strict=True)
            if offer.name == given["name"]
        ]
        return Done(state=state, value=found)

    def _put(self, state: ShopState, given: Given, sign: int) -> Done[ShopState]:
        place = self._place(given["offer"])
        held = state.cart[place] + sign * given["count"]
        if held > state.stock[place]:
            raise Refusal(type="out_of_stock", message=f"{given['offer']}: {state.stock[place]} in stock")
        if held < 0:
            raise Refusal(type="conflict", message=f"{given['offer']}: {state.cart[place]} in the cart")
        return Done(state=replace(state, cart=(*state.cart[:place], held, *state.cart[place + 1 :])))

    def _pay(self, state: ShopState, given: Given) -> Done[ShopState]:
        cost, code = self.cost(state.cart), given.get("coupon")
        paid = max(0, cost - self._discount(state, cost, code))
        if paid > state.money:
            raise Refusal(type="insufficient_funds", message=f"costs {paid}, money {state.money}")
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

    def _discount(self, state: ShopState, cost: int, code: str | None) -> int:
        """The discount of an order of the cart. Raises Refusal if nothing can be ordered, or not with this coupon."""
        if not any(state.cart):
            raise Refusal(type="conflict", message="the cart is empty")
        if len(state.orders) >= MAX_ORDERS or state.next_number > ORDER_NUMBERS:
            raise Refusal(type="conflict", message="too many orders; cancel one")
        if code is None:
            return 0
        known = {coupon.code: coupon for coupon in self.coupons}
        if code not in known:
            raise Refusal(type="not_found", message=f"no coupon {quote_start(code)}")
        if any(order.coupon == code for order in state.orders):
            raise Refusal(type="conflict", message=f"{code} is used up")
        if cost < known[code].minimum:
            raise Refusal(type="conflict", message=f"{code} needs {known[code].minimum}, the cart costs {cost}")
        return known[code].off

    def _cancel(self, state: ShopState, given: Given) -> Done[ShopState]:
        for order in state.orders:
            if order.number == given["order"]:
                after = replace(
                    state,
                    stock=tuple(stock + count for stock, count in zip(state.stock, order.counts, strict=True)),
                    money=state.money + order.paid,
                    orders=tuple(other for other in state.orders if other is not order),
                )
                return Done(state=after, value={"refund": order.paid})
        raise Refusal(type="not_found", message=f"no order {given['order']}")
