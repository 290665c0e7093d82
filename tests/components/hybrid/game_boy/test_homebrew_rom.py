"""The cartridge is what its source builds, and plays by the rules of the twin, byte for byte."""

import hashlib
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from components.hybrid.cartridge_rules import play_button
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.machine.package_files import package_file
from tests.components.hybrid.game_boy.one_game import CHANCE, draws, mix_actions, open_games
from tests.components.hybrid.scripted_play import TO_THE_PERSON

ROM_FOLDER = package_file("components", "hybrid/game_boy/rom")


def test_the_source_builds_the_cartridge_of_the_package(tmp_path: Path) -> None:
    if shutil.which("sdcc") is None or "4.2.0 " not in subprocess.check_output(["sdcc", "--version"], text=True):
        pytest.skip("needs sdcc 4.2.0 of Debian 12: another compiler writes other bytes")
    subprocess.run([ROM_FOLDER / "build.sh", tmp_path / "built.gbc"], check=True, timeout=60)
    assert (
        hashlib.sha256((tmp_path / "built.gbc").read_bytes()).hexdigest()
        == ((ROM_FOLDER / "homebrew.sha256").read_text().split()[0])
    )


def test_no_logo_of_anybody_is_in_the_cartridge() -> None:
    rom = homebrew_cartridge().rom
    assert (len(rom), rom[0x104:0x134], rom[0x134:0x13C]) == (32768, bytes(48), b"HOMEBREW")


def test_every_button_does_what_the_rules_say() -> None:
    """Chance is predicted from the memory before each button, so that battles are equal too."""
    rng, met, drunk = np.random.default_rng(0), Counter[tuple[int, int, int]](), 0
    with open_games(4, seed=3) as games:
        for step in range(1600):
            facts = {name: values.copy() for name, values in games.facts.items()}
            chance = [int.from_bytes(emulator.read(0, CHANCE, 2), "big") for emulator in games._emulators]
            predicted = np.array([draws(each, 2)[0] for each in chance]).T
            actions = np.full(4, TO_THE_PERSON[step]) if step < len(TO_THE_PERSON) else mix_actions(games, rng)
            games.play(actions)
            drunk += int(((facts["potions"] > 0) & (games.facts["potions"] == 0)).sum())
            wanted = play_button(facts, actions, predicted)
            for game in range(games.num_games):
                found = {name: int(values[game]) for name, values in games.facts.items()}
                assert found == {name: int(values[game]) for name, values in wanted.items()}, actions[game]
                drawn = int.from_bytes(games._emulators[game].read(0, CHANCE, 2), "big")
                assert drawn in [draws(chance[game], number)[1] for number in range(3)]
                met[found["battle_mode"], found["johto_badges"], found["map_number"]] += 1
    assert {(0, 0, 4), (0, 0, 3), (2, 0, 3), (0, 1, 3)} <= met.keys(), "the first gym was played"
    assert {(1, 1, 2), (2, 1, 2), (0, 2, 2)} <= met.keys(), "the second gym was played"
    assert drunk > 0, "a potion helped"


def test_the_generator_visits_every_state_and_its_draws_are_even() -> None:
    drawn, last = draws(1, 65535)
    assert last == 1
    assert set(Counter(drawn).values()) == {255, 256}
    eights = np.array(drawn) & 7
    pairs = Counter(zip(eights[:-1].tolist(), eights[1:].tolist(), strict=True))
    assert ((np.array(list(pairs.values())) - 1024) ** 2 / 1024).sum() < 110, (
        "chi-square with 63 degrees of freedom at 2e-4"
    )


def test_a_written_seed_decides_the_chance_of_a_game_and_time_does_not() -> None:
    def fought(seed: int, idle: int) -> list[int]:
        with open_games(1) as games:
            games.begin(np.ones(1, np.bool_), seeds_N=np.array([seed]))
            rng, seen = np.random.default_rng(0), []
            for _ in range(60):
                games._emulators[0].run(idle, render=False)
                games.play(mix_actions(games, rng, competence=1.0))
                seen.append(int(games.facts["enemy_hp"][0]))
            return seen

    assert fought(5, 0) == fought(5, 7)
    assert len({tuple(fought(seed, 0)) for seed in range(1, 7)}) > 1
