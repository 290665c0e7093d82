"""The user's own ROM is checked before it is played; nothing of anybody's is needed for that."""

from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.hybrid.errors import RomMissing, WrongRom
from components.hybrid.game_boy import cartridges
from components.hybrid.game_boy.cartridges import crystal_cartridge, header_checksum, homebrew_cartridge


def make_up_rom(**changes: bytes) -> bytearray:
    """As many zeros as Crystal has bytes, with a header of its form."""
    rom = bytearray(2 * 1024 * 1024)
    rom[0x134:0x13F] = changes.get("title", b"PM_CRYSTAL").ljust(11, b"\0")
    rom[0x13F:0x143] = changes.get("code", b"BYTE")
    rom[0x143] = changes.get("colour", b"\xc0")[0]
    rom[0x14D] = header_checksum(bytes(rom))
    return rom


def test_a_rom_with_crystals_header_is_played_at_24_frames(tmp_path: Path) -> None:
    path = tmp_path / "own.gbc"
    path.write_bytes(make_up_rom())
    cartridge = crystal_cartridge(path, start_state=b"x")
    assert (cartridge.frames_per_action, cartridge.chance_is_written, cartridge.start_state) == (24, False, b"x")
    assert homebrew_cartridge().frames_per_action == 8


@pytest.mark.parametrize(
    ("rom", "says"),
    [
        (make_up_rom(title=b"HOMEBREW"), "title is 'HOMEBREW', not 'PM_CRYSTAL'"),
        (make_up_rom(code=b"BXTJ"), "code is 'BXTJ'"),
        (make_up_rom()[:-1], "2097151 bytes"),
        (make_up_rom()[:10], "10 bytes"),
        (bytearray(b""), "it has 0 bytes"),
        (make_up_rom(colour=b"\0"), "colour flag is 0, not 128 or 192"),
        (make_up_rom()[:0x14D] + b"\x01" + make_up_rom()[0x14E:], "checksum of its header is 1"),
    ],
)
def test_another_file_is_refused_with_what_is_wrong(tmp_path: Path, rom: bytearray, says: str) -> None:
    path = tmp_path / "own.gbc"
    path.write_bytes(rom)
    with pytest.raises(WrongRom, match=says) as caught:
        crystal_cartridge(path)
    assert str(path) in str(caught.value)
    assert "give an unchanged copy of Pokemon Crystal (English)" in str(caught.value)


def test_a_missing_rom_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(RomMissing, match=r"Put your own copy of Pokemon Crystal .* there, or give its path") as caught:
        crystal_cartridge(tmp_path / "crystal.gbc")
    assert isinstance(caught.value, ConfigurationError)
    (tmp_path / "own.gbc").write_bytes(make_up_rom())
    with pytest.raises(RomMissing, match=r"symbols .*none.sym"):
        crystal_cartridge(tmp_path / "own.gbc", symbols=tmp_path / "none.sym")


def test_a_folder_is_no_rom_and_a_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for path, says in ((tmp_path, "a folder"), (Path(""), "an empty path"), (Path("~"), "a folder")):
        with pytest.raises(RomMissing, match=rf"rom .*{says}.*give the path of the file"):
            crystal_cartridge(path)
    (tmp_path / "own.gbc").write_bytes(make_up_rom())
    assert crystal_cartridge(Path("~/own.gbc")).name == "crystal"


def test_the_checksum_is_that_of_the_builds_own_header() -> None:
    rom = homebrew_cartridge().rom
    assert rom[0x14D] == header_checksum(rom), "makebin computed it"


def test_a_damaged_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def file(_: str, name: str) -> Path:
        path = tmp_path / Path(name).name
        path.write_bytes(b"0" * 64)
        return path

    monkeypatch.setattr(cartridges, "package_file", file)
    with pytest.raises(WrongRom, match="install the package again"):
        homebrew_cartridge()
