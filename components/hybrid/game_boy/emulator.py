"""What games need of an emulator, and the seal on its save states."""

import hashlib
import zlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from components.hybrid.errors import SaveStateCorrupt, SaveStateOfOtherRom
from components.hybrid.game_facts import Action

SCREEN_SHAPE = (144, 160, 3)
"""Rows, columns, and red, green, blue."""
_MARK = b"troupe-game-boy-1\n"
_DIGEST_BYTES = 32


class Emulator(Protocol):
    """One running cartridge. Time passes in `run` alone."""

    def run(self, frames: int, *, render: bool) -> None:
        """Play that many frames; draw the last one if `render`."""

    def push(self, action: Action) -> None:
        """Hold the button of an action down; NONE has none."""

    def release(self, action: Action) -> None:
        """Let the button go."""

    def read(self, bank: int, address: int, num_bytes: int) -> bytes:
        """The bytes from an address on; `bank` counts from D000 to DFFF."""

    def write(self, address: int, value: bytes) -> None:
        """Put bytes from an address on, outside of the banks."""

    def memory(self) -> bytes:
        """All work RAM and high RAM: what decides how the game goes on, and no picture."""

    def screen(self) -> NDArray[np.uint8]:
        """A copy of the last frame that was drawn, of SCREEN_SHAPE."""

    def save_state(self) -> bytes:
        """A sealed save state; no button may be held."""

    def load_state(self, state: bytes) -> None:
        """Go on from a sealed save state. Raises SaveStateCorrupt and SaveStateOfOtherRom."""

    def close(self) -> None:
        """Free what the emulator holds; once is enough."""


def seal_state(raw: bytes, rom: bytes) -> bytes:
    """A save state with its own digest and that of its ROM: about 2 KiB instead of 190."""
    return _MARK + _digest(rom) + _digest(raw) + zlib.compress(raw, 1)


def open_state(sealed: bytes, rom: bytes) -> bytes:
    """The state as the emulator wrote it. Raises SaveStateCorrupt and SaveStateOfOtherRom."""
    place = len(_MARK)
    rom_digest, digest = (
        sealed[place : place + _DIGEST_BYTES],
        sealed[place + _DIGEST_BYTES : place + 2 * _DIGEST_BYTES],
    )
    remedy = "start from the beginning, or give a state that this environment saved"
    if not sealed.startswith(_MARK):
        raise SaveStateCorrupt(f"no save state of this environment ({len(sealed)} bytes): {remedy}")
    if rom_digest != _digest(rom):
        raise SaveStateOfOtherRom(
            f"the save state belongs to the ROM with sha256 {rom_digest.hex()[:12]}…, "
            f"the cartridge has {_digest(rom).hex()[:12]}…: {remedy}"
        )
    try:
        raw = zlib.decompress(sealed[place + 2 * _DIGEST_BYTES :])
    except zlib.error as error:
        raise SaveStateCorrupt(f"the save state is damaged or cut short: {remedy}") from error
    if _digest(raw) != digest:
        raise SaveStateCorrupt(f"the save state is damaged: {remedy}")
    return raw


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()
