"""Bounds that several files check, with the name of the field in the message."""

from components.errors import ConfigurationError


def check_share(field: str, value: float) -> float:
    """`value` itself. Raises ConfigurationError with the field's name outside of 0 to 1, and for NaN."""
    if not 0 <= value <= 1:
        raise ConfigurationError(f"{field} {value}: use 0 to 1")
    return value
