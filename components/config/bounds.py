"""Bounds that several files check, with the name of the field in the message."""

from components.errors import ConfigurationError


def check_members(num_members: int) -> int:
    """`num_members` itself. Raises ConfigurationError below 1."""
    if num_members < 1:
        raise ConfigurationError(f"num_members {num_members}: use 1 or more")
    return num_members


def check_share(field: str, value: float) -> float:
    """`value` itself. Raises ConfigurationError with the field's name outside of 0 to 1, and for NaN."""
    if not 0 <= value <= 1:
        raise ConfigurationError(f"{field} {value}: use 0 to 1")
    return value
