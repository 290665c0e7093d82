"""PyBoy without window and sound as an `Emulator`; the only module that imports it."""

import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import ServiceMissing
from components.hybrid.game_boy.emulator import open_state, seal_state
from components.hybrid.game_facts import Action
from components.machine.package_files import install_command

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns which SDL it uses, and a warning may be an error
        from pyboy import PyBoy
except ImportError as error:
    remedy = install_command("extras", "'troupe[hybrid]'")
    raise ServiceMissing(f"the emulator PyBoy is not installed: {remedy}") from error

_BANKED = range(0xD000, 0xE000)
_NUM_BANKS = 8
_HIGH_RAM = (0xFF80, 0xFFFF)
_WITHOUT_SCREEN = ("dummy", "offscreen", "none")


class PyBoyEmulator:
    """A cartridge in memory: no file is read or written, the battery of a cartridge neither.

    With `has_window` the frames that are drawn are shown, and keys do nothing. Raises ServiceMissing where there is no screen.
    """

    def __init__(self, rom: bytes, *, has_window: bool = False) -> None:
        self._rom = rom
        window = "SDL2" if has_window else "null"
        self._boy: Any = PyBoy(io.BytesIO(rom), window=window, no_input=True, sound_emulated=False, log_level="ERROR")
        self._boy.set_emulation_speed(0)
        if has_window and (driver := _video_driver()) in _WITHOUT_SCREEN:
            self.close()
            raise ServiceMissing(
                f"a window of PyBoy would not be seen (SDL draws {driver}): "
                "start it where there is a screen, which DISPLAY names"
            )

    def run(self, frames: int, *, render: bool) -> None:
        self._boy.tick(frames, render, False)

    def push(self, action: Action) -> None:
        if action != Action.NONE:
            self._boy.button_press(action.name.lower())

    def release(self, action: Action) -> None:
        if action != Action.NONE:
            self._boy.button_release(action.name.lower())

    def read(self, bank: int, address: int, num_bytes: int) -> bytes:
        memory, end = self._boy.memory, address + num_bytes
        return bytes(memory[bank, address:end] if address in _BANKED else memory[address:end])

    def write(self, address: int, value: bytes) -> None:
        assert address not in _BANKED, f"{address:x} is in a bank"
        for place, byte in enumerate(value, address):
            self._boy.memory[place] = byte

    def memory(self) -> bytes:
        memory = self._boy.memory
        first = bytes(memory[0xC000 : _BANKED.start])
        # The last byte of a bank is beyond what PyBoy reads as a slice.
        banks = [
            bytes([*memory[bank, _BANKED.start : _BANKED.stop - 1], memory[bank, _BANKED.stop - 1]])
            for bank in range(1, _NUM_BANKS)
        ]
        return b"".join([first, *banks, bytes(memory[slice(*_HIGH_RAM)])])

    def screen(self) -> NDArray[np.uint8]:
        frame: NDArray[np.uint8] = self._boy.screen.ndarray
        return frame[:, :, :3].copy()

    def save_state(self) -> bytes:
        file = io.BytesIO()
        self._boy.save_state(file)
        return seal_state(file.getvalue(), self._rom)

    def load_state(self, state: bytes) -> None:
        self._boy.load_state(io.BytesIO(open_state(state, self._rom)))

    def close(self) -> None:
        self._boy.stop(save=False)


def _video_driver() -> str:
    """How SDL shows windows. **Example** "x11", "offscreen"."""
    import sdl2  # type: ignore[import-untyped]

    driver: bytes | None = sdl2.SDL_GetCurrentVideoDriver()
    return "none" if driver is None else driver.decode()
