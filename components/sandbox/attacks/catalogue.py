"""All attacks, by name."""

import difflib
from dataclasses import replace
from typing import TypeVar

from components.errors import ConfigurationError
from components.sandbox.attacks import (
    arguments,
    covert_channels,
    disk,
    exhaustion,
    exit_reporting,
    host,
    kernel,
    leaks,
    neighbours,
    network,
    pid1,
    residue,
    results,
)
from components.sandbox.attacks.agents import AgentAttack
from components.sandbox.attacks.base import Attack
from components.sandbox.attacks.decoys import Bait

T = TypeVar("T", Attack, AgentAttack)


def catalogue(bait: Bait) -> tuple[Attack, ...]:
    """Every attack, in display order."""
    by_theme = {
        "exhaustion": exhaustion.ATTACKS,
        "disk": disk.ATTACKS,
        "network": network.attacks(bait),
        "host": host.attacks(bait),
        "kernel": kernel.ATTACKS,
        "arguments": arguments.ATTACKS,
        "pid1": pid1.ATTACKS,
        "exit_reporting": exit_reporting.ATTACKS,
        "leaks": leaks.ATTACKS,
        "residue": residue.ATTACKS,
        "covert_channels": covert_channels.ATTACKS,
        "neighbours": neighbours.ATTACKS,
        "results": results.attacks(bait),
    }
    return tuple(replace(attack, theme=theme) for theme, attacks in by_theme.items() for attack in attacks)


def choose_attacks(attacks: tuple[T, ...], only: str | None) -> tuple[T, ...]:
    """The attacks with this name or theme; all of them for None. Raises ConfigurationError with the nearest name."""
    found = tuple(attack for attack in attacks if only is None or only in (attack.name, attack.theme))
    if found:
        return found
    names = sorted({name for attack in attacks for name in (attack.name, attack.theme)})
    near = difflib.get_close_matches(str(only), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}"
    raise ConfigurationError(f"--only {only!r}: no attack or theme has this name; {hint}")
