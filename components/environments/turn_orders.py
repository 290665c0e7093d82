"""The turn order of a team: from its configuration, from its environment, or its roles one after another."""

from components.environments.environment import Environment, has_joint_step, has_single_step
from components.environments.family import Family
from components.environments.returned_values import check_role_names
from components.errors import ConfigurationError
from components.text.escaping import show_value
from components.text.suggestions import suggest
from components.turn_order import BRANCHING, TurnOrder, in_phases
from components.user_code import source_location


def turn_order_of(family: Family, given: TurnOrder | None) -> TurnOrder:
    """The turn order of `family`; `given` is `environment.turn_order` of the configuration, or None.

    Raises ConfigurationError for an unknown role, and for any order given to a team that branches.
    """
    own = family.turn_order
    if given is None:
        return own
    if own == BRANCHING:
        raise ConfigurationError(
            f"environment.turn_order: {family.name} chooses the next agent itself (next_role); leave turn_order out"
        )
    _check_roles("environment.turn_order", given, family.roles, of=family.name)
    return given


def check_team(name: str, environment: type[Environment]) -> None:
    """Check the roles and turn order of a user-defined environment. Raises ConfigurationError."""
    roles = getattr(environment, "roles", None)
    if not isinstance(roles, tuple) or not roles or not all(isinstance(role, str) for role in roles):
        raise ConfigurationError(f'environment.name {name!r}: name its agents, as roles = ("first", "second")')
    check_role_names(f"environment.name {name!r}: roles", roles)
    if twice := next((role for role in roles if roles.count(role) > 1), None):
        raise ConfigurationError(
            f"environment.name {name!r}: roles names {twice!r} twice; name each role once, and set turn_order to who acts when"
        )
    order = environment.turn_order
    if not isinstance(order, tuple) or not all(_is_entry(entry) for entry in order):
        raise ConfigurationError(
            f"environment.name {name!r}: turn_order {show_value(order)}: write it as "
            f'(("first", "second"), "third"), where the first two act side by side'
        )
    if order and environment.next_role is not Environment.next_role:
        raise ConfigurationError(
            f"environment.name {name!r}: {source_location(environment.next_role)}: both next_role and turn_order define who "
            "acts; remove one of them"
        )
    _check_roles(f"environment.name {name!r}: turn_order", order, roles, of="roles")
    if not (has_single_step(environment) or has_joint_step(environment)):
        raise ConfigurationError(
            f"environment.name {name!r}: define step(self, state, agent, answer), or step_together"
        )


def _is_entry(entry: object) -> bool:
    inner = entry if isinstance(entry, tuple) else (entry,)
    return bool(inner) and all(isinstance(role, str) for role in inner)


def _check_roles(field: str, turn_order: TurnOrder, roles: tuple[str, ...], *, of: str) -> None:
    for role in (role for agents in in_phases(turn_order) for role in agents):
        if role not in roles:
            raise ConfigurationError(f"{field}: {role!r} is no role of {of}; {suggest(role, roles)}")
