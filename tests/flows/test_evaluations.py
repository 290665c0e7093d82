"""How a method's checkpoints are evaluated."""

from types import SimpleNamespace
from typing import Any

import pytest

from flows import evaluations
from flows.presets import preset_config


def test_members_that_are_not_evaluated_end_without_meeting_their_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(evaluations, "last_step", lambda *_: 3)
    monkeypatch.setattr(evaluations, "state_before", lambda *_: "the state")
    monkeypatch.setattr(evaluations, "draw_interactions", lambda *asked: drawn.append(asked[1:]))
    config = preset_config("population-tiny", ["evaluation.sampling=[]"])
    session: Any = SimpleNamespace(config=config, store=None, run=None)
    assert evaluations.evaluate_population(session, 3, {}) == []
    assert drawn == [(3, "the state")]
