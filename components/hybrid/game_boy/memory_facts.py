"""Facts of a game, read from an emulator's memory in a few blocks."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from components.errors import ConfigurationError
from components.hybrid.game_boy.emulator import Emulator

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
"""Crystal's own addresses, of the English release, by the symbols of the disassembly (github.com/pret/pokecrystal). We have
never played Crystal itself; our own cartridge keeps its facts at the same addresses. Of several bytes the highest is first."""


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


_LARGEST_GAP = 100
"""Fields this many bytes apart are read as one block: a call costs as much as so many bytes."""
_POTION, _END = 0x12, 0xFF
_LEVEL, _STATUS, _HP, _MAX_HP, _EXPERIENCE = 31, 32, 34, 36, 8
"""Offsets in the 48 bytes of a member of the party."""


class FactsReader:
    """Reads the facts of `game_facts.LARGEST` by a memory map."""

    def __init__(self, memory_map: MemoryMap) -> None:
        self._blocks: list[tuple[int, int, int]] = []
        """Bank, first address and number of bytes of each block."""
        self._places: dict[str, tuple[int, int, int]] = {}
        """Block, first and last place in it, of each symbol."""
        for name, field in sorted(memory_map.items(), key=lambda item: (item[1].bank, item[1].address)):
            end = field.address + field.num_bytes
            bank, first, length = self._blocks[-1] if self._blocks else (-1, 0, 0)
            if bank == field.bank and field.address <= first + length + _LARGEST_GAP:
                self._blocks[-1] = (bank, first, max(end, first + length) - first)
            else:
                first = field.address
                self._blocks.append((field.bank, first, field.num_bytes))
            self._places[name] = (len(self._blocks) - 1, field.address - first, end - first)

    def read(self, emulator: Emulator) -> dict[str, int]:
        """The facts now. Badges, events and caught species are counted; facts of the first member are 0 without a party.

        **Example** the bytes DC 5A at a member's hp are 56410; the byte 5 of badges is 2 badges.
        """
        blocks = [emulator.read(*block) for block in self._blocks]
        found = {name: blocks[block][start:stop] for name, (block, start, stop) in self._places.items()}
        number = {name: int.from_bytes(raw, "big") for name, raw in found.items()}
        party_count = min(number["wPartyCount"], PARTY_SIZE)
        return {
            "map_group": number["wMapGroup"],
            "map_number": number["wMapNumber"],
            "x": number["wXCoord"],
            "y": number["wYCoord"],
            "facing": number["wPlayerDirection"] & 12,
            "player_state": number["wPlayerState"],
            "environment": number["wEnvironment"],
            **_party_facts(found["wPartyMon1"], party_count),
            "money": number["wMoney"],
            "johto_badges": number["wJohtoBadges"].bit_count(),
            "kanto_badges": number["wKantoBadges"].bit_count(),
            "battle_mode": number["wBattleMode"],
            "enemy_level": number["wEnemyMonLevel"],
            "enemy_hp": number["wEnemyMonHP"],
            "enemy_max_hp": number["wEnemyMonMaxHP"],
            "events": number["wEventFlags"].bit_count(),
            "caught": number["wPokedexCaught"].bit_count(),
            "menu": number["wWindowStackSize"],
            "script": number["wScriptRunning"],
            "time_of_day": number["wTimeOfDay"],
            "potions": _count_potions(found["wItems"]),
        }


def _party_facts(members: bytes, party_count: int) -> dict[str, int]:
    own = [members[MEMBER_BYTES * place : MEMBER_BYTES * (place + 1)] for place in range(party_count)]
    hps = [_word(member, _HP) for member in own]
    first = own[0] if own else bytes(MEMBER_BYTES)
    return {
        "party_count": party_count,
        "party_levels": sum(member[_LEVEL] for member in own),
        "party_alive": sum(hp > 0 for hp in hps),
        "party_hp": sum(hps),
        "party_max_hp": sum(_word(member, _MAX_HP) for member in own),
        "species": first[0],
        "level": first[_LEVEL],
        "exp": int.from_bytes(first[_EXPERIENCE : _EXPERIENCE + 3], "big"),
        "hp": _word(first, _HP),
        "max_hp": _word(first, _MAX_HP),
        "status": first[_STATUS],
    }


def _count_potions(bag: bytes) -> int:
    """Those of all stacks of the bag: pairs of an item and its number, up to the first item FF."""
    stacks = [(bag[place], bag[place + 1]) for place in range(0, len(bag) - 1, 2)]
    own = itertools.takewhile(lambda stack: stack[0] != _END, stacks)
    return sum(number for kind, number in own if kind == _POTION)


def _word(raw: bytes, place: int) -> int:
    return raw[place] << 8 | raw[place + 1]
