"""What the digests of a learner's checkpoint cover."""

from typing import Any

import numpy as np
import pytest

from components.hybrid.errors import SaveStateCorrupt
from components.methods.hybrid.learner_checkpoints import _digests

pytest.importorskip("pyboy")
from tests.components.hybrid.game_boy.one_game import open_games


def snapshot(buttons: str, **options: Any) -> dict[str, Any]:
    with open_games(**options) as games:
        for button in buttons:
            games.step(np.array([int(button)]))
        return games.snapshot()


@pytest.mark.parametrize("prefix", ["games.", "games.0."])
def test_memory_is_digested_and_never_a_save_state(prefix: str) -> None:
    def digests(of: dict[str, Any]) -> tuple[str, str]:
        return _digests({f"{prefix}{name}": values for name, values in of.items()})

    plain, drawn, other = snapshot("555"), snapshot("555", renders=True), snapshot("556")
    assert plain["state.0"].tobytes() != drawn["state.0"].tobytes(), "the last drawn frame is in it"
    assert digests(plain) == digests(drawn)
    assert digests({**plain, "memory.0": other["memory.0"]}) != digests(plain)
    with open_games() as games, pytest.raises(SaveStateCorrupt, match="game 0 is of another moment"):
        games.restore({**plain, "state.0": other["state.0"]})
