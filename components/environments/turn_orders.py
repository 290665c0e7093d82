"""Whose turn order a team keeps: its configuration's, its environment's, or its roles one after another."""

from typing import Protocol, runtime_checkable

from components.environments.base import EnvironmentFamily
from components.environments.environment import Environment
from components.errors import ConfigurationError
from components.nearest import remedy_for
from components.own_code import place_of
from components.plain_text import shown_value
from components.turn_order import BRANCHING, TurnOrder, in_phases


@runtime_checkable
class _OrdersItself(Protocol):
    """A family that knows a turn order other than its roles one after another."""

    @property
    def turn_order(self) -> TurnOrder: ...


def turn_order_of(family: EnvironmentFamily, given: TurnOrder | None) -> TurnOrder:
    """Who acts in a turn of `family`; `given` is `environment.turn_order` of a configuration, None where it is unset.

    Raises ConfigurationError for a role that the environment does not have, and for any order of a team that branches.
    """
    own = family.turn_order if isinstance(family, _OrdersItself) else family.roles
    if given is None:
        return own
    if own == BRANCHING:
        raise ConfigurationError(
            f"environment.turn_order: {family.name} says itself who acts next (next_role); leave turn_order out"
        )
    _check_roles("environment.turn_order", given, family.roles, of=family.name)
    return given


def checked_team(name: str, environment: type[Environment]) -> None:
    """Pass when the agents of an environment of one's own and their order make a team. Raises ConfigurationError."""
    roles = getattr(environment, "roles", None)
    if not isinstance(roles, tuple) or not roles or not all(isinstance(role, str) for role in roles):
        raise ConfigurationError(f'environment.name {name!r}: give it its agents, as roles = ("first", "second")')
    if twice := next((role for role in roles if roles.count(role) > 1), None):
        raise ConfigurationError(
            f"environment.name {name!r}: roles names {twice!r} twice; name each role once, and say in turn_order who acts when"
        )
    order = environment.turn_order
    if not isinstance(order, tuple) or not all(_is_entry(entry) for entry in order):
        raise ConfigurationError(
            f"environment.name {name!r}: turn_order {shown_value(order)}: write it as "
            f'(("first", "second"), "third"), where the first two act side by side'
        )
    if order and environment.next_role is not Environment.next_role:
        raise ConfigurationError(
            f"environment.name {name!r}: {place_of(environment.next_role)}: next_role says who acts, and turn_order says it "
            "too; remove one of them"
        )
    _check_roles(f"environment.name {name!r}: turn_order", order, roles, of="roles")


def _is_entry(entry: object) -> bool:
    inner = entry if isinstance(entry, tuple) else (entry,)
    return bool(inner) and all(isinstance(role, str) for role in inner)


def _check_roles(field: str, turn_order: TurnOrder, roles: tuple[str, ...], *, of: str) -> None:
    for role in (role for agents in in_phases(turn_order) for role in agents):
        if role not in roles:
            raise ConfigurationError(f"{field}: {role!r} is no role of {of}; {remedy_for(role, roles)}")
