"""Greys are means, and packed screens come back exactly or not at all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ArtifactCorrupt
from components.hybrid.game_facts import GREYS_SHAPE, grey_screens, pack_screens, unpack_screens


@given(st.integers(0, 2**32), st.integers(0, 3))
def test_greys_are_means_and_are_packed_exactly(seed: int, num_screens: int) -> None:
    rng = np.random.default_rng(seed)
    screens = rng.integers(0, 256, (num_screens, 144, 160, 3)).astype(np.uint8)
    greys = grey_screens(screens)
    means = screens.reshape(num_screens, 72, 2, 80, 2, 3).mean(axis=(2, 4, 5))
    np.testing.assert_array_equal(greys, np.floor(means + 1e-9))
    np.testing.assert_array_equal(unpack_screens(pack_screens(greys), num_screens), greys)


def test_damaged_screens_are_refused() -> None:
    packed = pack_screens(np.zeros((4, *GREYS_SHAPE), np.uint8))
    assert packed.nbytes < 4 * 72 * 80 / 100
    for damaged, number in ((packed[:1], 4), (packed ^ 255, 4), (packed, 3), (packed, 5)):
        with pytest.raises(ArtifactCorrupt, match=f"{number} packed screens"):
            unpack_screens(damaged, number)
