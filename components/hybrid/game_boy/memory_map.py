"""Where the game keeps what we read: the symbols of Pokemon Crystal, by table or by the symbol file of a build.

The table is that of the disassembly (github.com/pret/pokecrystal), whose build writes the symbol file. We have never played
Crystal itself; our own cartridge keeps its facts at the same addresses. Numbers of several bytes have the highest first.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from components.errors import ConfigurationError

PARTY_SIZE, MEMBER_BYTES, BAG_SIZE = 6, 48, 20
_LINE = re.compile(r"([0-9a-fA-F]{1,3}):([0-9a-fA-F]{4})\s+(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """So many bytes from an address on; `bank` is that of the work RAM, which counts from D000 to DFFF."""

    bank: int = 1
    address: int
    num_bytes: int = 1


MemoryMap = Mapping[str, Field]
"""The field of each symbol."""
CRYSTAL: MemoryMap = {
    "wWindowStackSize": Field(bank=0, address=0xCF78),
    "wEnvironment": Field(address=0xD19A),
    "wEnemyMonLevel": Field(address=0xD213),
    "wEnemyMonHP": Field(address=0xD216, num_bytes=2),
    "wEnemyMonMaxHP": Field(address=0xD218, num_bytes=2),
    "wBattleMode": Field(address=0xD22D),
    "wTimeOfDay": Field(address=0xD269),
    "wScriptRunning": Field(address=0xD438),
    "wPlayerDirection": Field(address=0xD4DE),
    "wMoney": Field(address=0xD84E, num_bytes=3),
    "wJohtoBadges": Field(address=0xD857),
    "wKantoBadges": Field(address=0xD858),
    "wItems": Field(address=0xD893, num_bytes=2 * BAG_SIZE + 1),
    "wPlayerState": Field(address=0xD95D),
    "wEventFlags": Field(address=0xDA72, num_bytes=256),
    "wMapGroup": Field(address=0xDCB5),
    "wMapNumber": Field(address=0xDCB6),
    "wYCoord": Field(address=0xDCB7),
    "wXCoord": Field(address=0xDCB8),
    "wPartyCount": Field(address=0xDCD7),
    "wPartyMon1": Field(address=0xDCDF, num_bytes=PARTY_SIZE * MEMBER_BYTES),
    "wPokedexCaught": Field(address=0xDE99, num_bytes=32),
    "hRandomAdd": Field(bank=0, address=0xFFE1, num_bytes=2),
}
"""Crystal's own addresses, of the English release."""


def read_symbol_file(text: str) -> MemoryMap:
    """The map of a build by its `.sym` file, with a line `bank:address name` for each symbol, both in hexadecimal.

    Other symbols, comments (`;`) and blank lines are skipped. Raises ConfigurationError that names missing symbols.

    **Example** `01:d857 wJohtoBadges` is one byte at D857 in bank 1.
    """
    found = {
        match[3]: (int(match[1], 16), int(match[2], 16))
        for match in map(_LINE.match, text.splitlines())
        if match and match[3] in CRYSTAL
    }
    if missing := sorted(CRYSTAL.keys() - found.keys()):
        raise ConfigurationError(
            f"symbol file: it has no {', '.join(missing)}; give the .sym file that the build of pokecrystal writes"
        )
    return {name: replace(field, bank=found[name][0], address=found[name][1]) for name, field in CRYSTAL.items()}
