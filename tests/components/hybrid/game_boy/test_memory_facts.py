"""Addresses of Crystal, spelled a second time: memory with known bytes gives known facts. No game is needed."""

import numpy as np
import pytest

from components.errors import ConfigurationError
from components.hybrid.game_boy.memory_facts import CRYSTAL, FactsReader, read_symbol_file
from components.hybrid.game_facts import LARGEST, state_variables

RECORDED = {
    (0, 0xCF78): "02",
    (1, 0xD19A): "04",
    (1, 0xD213): "11", (1, 0xD216): "0102 0203", (1, 0xD22D): "02", (1, 0xD269): "02",
    (1, 0xD438): "01", (1, 0xD4DE): "0C",
    (1, 0xD893): "12 03 05 01 12 02 FF 12 09",
    (1, 0xD84E): "01E240", (1, 0xD857): "05 80", (1, 0xD95D): "04",
    (1, 0xDA72): "FF", (1, 0xDB71): "81",
    (1, 0xDCB5): "18 03 07 09", (1, 0xDCD7): "03",
    (1, 0xDCDF): "9D", (1, 0xDCE7): "0186A1", (1, 0xDCFE): "2C 08 00 0064 0096",
    (1, 0xDCFE + 48): "07 00 00 0000 0014",
    (1, 0xDCFE + 96): "1E 00 00 012C 012C",
    (1, 0xDCFE + 144): "63 00 00 03E7 03E7",  # the fourth is no member: the count is 3
    (1, 0xDE99): "03", (1, 0xDEB8): "80",
}  # fmt: skip
FACTS = {
    "menu": 2, "environment": 4, "enemy_level": 17, "enemy_hp": 258, "enemy_max_hp": 515, "battle_mode": 2, "time_of_day": 2,
    "script": 1, "facing": 12, "money": 123456, "johto_badges": 2, "kanto_badges": 1, "player_state": 4, "events": 10,
    "map_group": 24, "map_number": 3, "y": 7, "x": 9, "party_count": 3, "species": 157, "exp": 100001, "level": 44,
    "status": 8, "hp": 100, "max_hp": 150, "party_levels": 81, "party_alive": 2, "party_hp": 400, "party_max_hp": 470,
    "caught": 3, "potions": 5,
}  # fmt: skip


class RecordedMemory:
    """The part of an emulator that is read; banks elsewhere hold nothing."""

    def __init__(self, move: int = 0) -> None:
        self._bytes = {
            (bank, address + move + place): byte
            for (bank, address), text in RECORDED.items()
            for place, byte in enumerate(bytes.fromhex(text))
        }

    def read(self, bank: int, address: int, num_bytes: int) -> bytes:
        return bytes(self._bytes.get((bank, place), 0) for place in range(address, address + num_bytes))


def test_crystals_addresses_hold_these_facts() -> None:
    assert FactsReader(CRYSTAL).read(RecordedMemory()) == FACTS
    assert FACTS.keys() == LARGEST.keys()


def test_the_state_variables_of_that_memory() -> None:
    found = FactsReader(CRYSTAL).read(RecordedMemory())
    variables = state_variables({name: np.array([value]) for name, value in found.items()})[0]
    wanted = [
        *(9 / 255, 7 / 255, 24 / 26, 3 / 255, 1, 4 / 8, 4 / 7, 3 / 6, 157 / 251, 0.44, 2 / 3, 400 / 470, 1),
        *(81 / 600, 2 / 3),
    ]
    wanted += [np.log(123457) / np.log(1e6), 2 / 8, 1 / 8, 1, 0.17, 258 / 515, 10 / 2048, 3 / 251, 1, 2 / 3]
    np.testing.assert_allclose(variables, wanted, rtol=1e-6)


def test_no_party_has_no_first_member() -> None:
    memory = RecordedMemory()
    memory._bytes[1, 0xDCD7] = 0
    found = FactsReader(CRYSTAL).read(memory)
    assert [found[name] for name in ("species", "level", "exp", "hp", "max_hp", "status", "party_levels")] == [0] * 7


def symbol_file(move: int = 0) -> str:
    lines = [f"{field.bank:02x}:{field.address + move:04x} {name}" for name, field in CRYSTAL.items()]
    return "\n".join(["; a comment", "", "0e:4567 SomeRoutine", *lines])


def test_a_symbol_file_moves_the_addresses() -> None:
    assert read_symbol_file(symbol_file()) == CRYSTAL
    assert FactsReader(read_symbol_file(symbol_file(0x10))).read(RecordedMemory(0x10)) == FACTS


def test_missing_symbols_are_named() -> None:
    text = "\n".join(line for line in symbol_file().splitlines() if "wMoney" not in line)
    with pytest.raises(ConfigurationError, match=r"it has no wMoney; give the \.sym file"):
        read_symbol_file(text)
