"""Cartridges: our own, which is part of the package, and the user's copy of Pokemon Crystal."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from components.hybrid.episodes import NUM_STARTS
from components.hybrid.errors import RomMissing, WrongRom
from components.hybrid.game_boy.memory_facts import CRYSTAL, MemoryMap, read_symbol_file
from components.machine.package_files import package_file

_TITLE, _CODE, _HEADER, _HEADER_CHECKSUM = slice(0x134, 0x13F), slice(0x13F, 0x143), slice(0x134, 0x14D), 0x14D
_COLOUR, _FOR_COLOUR = 0x143, (0x80, 0xC0)
_CRYSTAL_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Cartridge:
    """A ROM, and how it wants to be played.

    A button is held for `hold_frames` of the `frames_per_action` frames of a step. A game begins `boot_frames` after power on,
    or at the sealed save state `start_state`. Where `chance_is_written` the seed of an episode is written to the game's own
    generator (`hRandomAdd`), and with the buttons decides all; else up to `seed_frames` idle frames make episodes differ.
    """

    name: str
    rom: bytes = field(repr=False)
    frames_per_action: int
    hold_frames: int
    boot_frames: int
    memory_map: MemoryMap = field(repr=False)
    chance_is_written: bool
    seed_frames: int = 0
    start_state: bytes | None = field(default=None, repr=False)


def homebrew_cartridge() -> Cartridge:
    """Our own small game, built from `rom/homebrew.c`: 8 frames a step. Raises WrongRom if the packaged file is damaged."""
    rom = package_file("components", "hybrid/game_boy/rom/homebrew.gbc").read_bytes()
    wanted = package_file("components", "hybrid/game_boy/rom/homebrew.sha256").read_text(encoding="utf-8").split()[0]
    if hashlib.sha256(rom).hexdigest() != wanted:
        raise WrongRom(f"homebrew.gbc has not the sha256 {wanted[:12]}… of its build: install the package again")
    return Cartridge(
        name="homebrew",
        rom=rom,
        frames_per_action=8,
        hold_frames=4,
        boot_frames=90,
        memory_map=CRYSTAL,
        chance_is_written=True,
    )


def crystal_cartridge(rom: Path, *, symbols: Path | None = None, start_state: bytes | None = None) -> Cartridge:
    """The user's own copy of Pokemon Crystal (English): 24 frames a step. We have never played it.

    `symbols` is the `.sym` file of a build of one's own; without it the table of addresses counts. Raises RomMissing without
    the file, and WrongRom for a file whose size, title, code, colour flag or header checksum are not those of Crystal.
    """
    with suppress(RuntimeError):  # ~somebody who has no home here: then there is no such file
        rom = rom.expanduser()
    if rom.is_dir():
        what = "an empty path is the folder here" if rom == Path() else "this is a folder"
        raise RomMissing(f"rom {rom}: {what}; give the path of the file, your own copy of Pokemon Crystal (English)")
    if not rom.is_file():
        raise RomMissing(
            f"rom {rom}: there is no such file. Put your own copy of Pokemon Crystal (English) there, or give its path; "
            "none is part of this package. The default cartridge, homebrew, needs no file"
        )
    content = rom.read_bytes()
    _check_crystal(rom, content)
    if symbols is not None and not symbols.is_file():
        raise RomMissing(f"symbols {symbols}: there is no such file; leave it out to use the table of addresses")
    return Cartridge(
        name="crystal",
        rom=content,
        frames_per_action=24,
        hold_frames=8,
        boot_frames=240,
        memory_map=CRYSTAL if symbols is None else read_symbol_file(symbols.read_text(encoding="utf-8")),
        chance_is_written=False,
        seed_frames=NUM_STARTS["crystal"],
        start_state=start_state,
    )


def header_checksum(rom: bytes) -> int:
    """The checksum of a header that the console itself verifies: 0 less each byte from 134 to 14C, less 1 each, in 8 bits."""
    return -sum(byte + 1 for byte in rom[_HEADER]) & 0xFF


def _check_crystal(path: Path, rom: bytes) -> None:
    title, code = rom[_TITLE].rstrip(b"\0"), rom[_CODE]
    remedy = "give an unchanged copy of Pokemon Crystal (English)"
    if len(rom) != _CRYSTAL_BYTES:
        raise WrongRom(f"rom {path}: it has {len(rom)} bytes instead of {_CRYSTAL_BYTES}; {remedy}")
    if title != b"PM_CRYSTAL":
        raise WrongRom(f"rom {path}: its title is {title.decode('latin-1')!r}, not 'PM_CRYSTAL'; {remedy}")
    if code != b"BYTE":
        raise WrongRom(f"rom {path}: its code is {code.decode('latin-1')!r}, not 'BYTE' of the English one; {remedy}")
    if rom[_COLOUR] not in _FOR_COLOUR:
        raise WrongRom(f"rom {path}: its colour flag is {rom[_COLOUR]}, not 128 or 192 of a game in colour; {remedy}")
    if rom[_HEADER_CHECKSUM] != header_checksum(rom):
        raise WrongRom(
            f"rom {path}: the checksum of its header is {rom[_HEADER_CHECKSUM]}, computed {header_checksum(rom)}; {remedy}"
        )
