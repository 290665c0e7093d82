"""An episode as a GIF: the screen, and beside it who pressed which button, how sure of it, and what it earned.

Needs Pillow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from components.hybrid.agent import HybridAgent
from components.hybrid.game_boy.games import EmulatedGames
from components.hybrid.game_facts import Action

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

MOST_PICTURES, MOST_BYTES = 300, 1 << 20
"""Of an episode that is kept."""
_SCALE, _PANEL, _MARGIN = 2, 200, 12
_FRAME_MILLISECONDS, _LAST_MILLISECONDS = 120, 2000
_COLORS, _NUM_SAMPLED = 64, 8
_GROUND, _INK, _SOFT, _GOOD, _BAD = "#16181c", "#dcdfe4", "#8f959f", "#74bd8e", "#df8a74"
_ACTORS = {True: ("language model", "#7cbad6"), False: ("policy", "#d8bb6c")}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFrame:
    """The screen (144, 160, 3) after a button, who pressed it, and what it earned. `terms` are those that are not 0."""

    screen: NDArray[np.uint8]
    step: int
    button: str
    by_llm: bool
    confidence: float
    terms: Mapping[str, float]
    total: float
    """What the episode has earned so far."""


def play_frames(games: EmulatedGames, agent: HybridAgent) -> Iterator[EpisodeFrame]:
    """The frames of one episode of one game that renders, played by an agent of one game until it ends or is cut."""
    total, is_over = 0.0, False
    while not is_over:
        decided = agent.decide(games.facts, games.states(), games.masks(), explore=False)
        step = games.play(decided.actions_N)
        agent.observe(step)
        total += float(step.rewards_N[0])
        is_over = bool(step.ended_N[0] | step.cut_N[0])
        yield EpisodeFrame(
            screen=games.screens()[0],
            step=int(step.lengths_N[0]),
            button=Action(int(decided.actions_N[0])).name,
            by_llm=bool(decided.by_llm_N[0]),
            confidence=float(decided.confidences_N[0]),
            terms={name: float(term_N[0]) for name, term_N in step.terms.items() if term_N[0]},
            total=total,
        )


def short_gif(
    frames: Sequence[EpisodeFrame], *, most_pictures: int = MOST_PICTURES, most_bytes: int = MOST_BYTES
) -> bytes:
    """The frames as a GIF within limits: of a longer episode every second or third frame and so on, counted from the last.

    **Example** 600 buttons: every second frame, the last one among them.
    """
    stride = ceil(len(frames) / most_pictures)
    while len(gif := episode_gif(frames[::-stride][::-1])) > most_bytes and stride < len(frames):
        stride *= 2
    return gif


def episode_gif(frames: Sequence[EpisodeFrame]) -> bytes:
    """The frames as a GIF that repeats, 520 x 288 pixels, the last one shown longest.

    **Example** 120 buttons: 121 frames at most, of 120 ms, 14 s; about 2 KiB each.
    """
    from PIL import Image

    assert frames, "an episode has one button or more"
    pictures = [_picture(each) for each in frames]
    palette = _palette(pictures)
    first, *rest = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
    durations = [_FRAME_MILLISECONDS] * len(rest) + [_LAST_MILLISECONDS]
    file = BytesIO()
    first.save(file, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, disposal=1)
    return file.getvalue()


def _palette(pictures: "Sequence[Image]") -> "Image":
    """A picture with the colours of all frames: of some of them, and of what is written beside them."""
    from PIL import Image

    some = pictures[:: max(1, len(pictures) // _NUM_SAMPLED)]
    width, height = some[0].size
    together = Image.new("RGB", (width, height * len(some) + 1), _GROUND)
    for row, each in enumerate(some):
        together.paste(each, (0, row * height))
    written = (_INK, _SOFT, _GOOD, _BAD, *(color for _, color in _ACTORS.values()))
    for place, color in enumerate(written):
        together.paste(color, (place * 80, height * len(some), place * 80 + 80, height * len(some) + 1))
    return together.quantize(colors=_COLORS)


def _picture(frame: EpisodeFrame) -> "Image":
    from PIL import Image, ImageDraw

    screen = Image.fromarray(frame.screen)
    screen = screen.resize((screen.width * _SCALE, screen.height * _SCALE), Image.Resampling.NEAREST)
    picture = Image.new("RGB", (screen.width + _PANEL, screen.height), _GROUND)
    picture.paste(screen, (0, 0))
    _draw_panel(ImageDraw.Draw(picture), frame, left=screen.width + _MARGIN)
    return picture


def _draw_panel(draw: "ImageDraw", frame: EpisodeFrame, *, left: int) -> None:
    from PIL import ImageFont

    def write(text: str, top: int, *, size: int = 13, fill: str = _INK, indent: int = 0) -> None:
        draw.text((left + indent, top), text, font=ImageFont.load_default(size), fill=fill)

    actor, color = _ACTORS[frame.by_llm]
    right = left + _PANEL - 2 * _MARGIN
    write(f"button {frame.step}", 10, fill=_SOFT)
    write(frame.button, 28, size=26)
    write(actor, 66, size=15, fill=color)
    draw.rectangle((left, 90, right, 98), outline=_SOFT)
    draw.rectangle((left, 90, left + round((right - left) * frame.confidence), 98), fill=color)
    write(f"confidence {frame.confidence:.2f}", 102, fill=_SOFT)
    write("rewards of this button", 134, fill=_SOFT)
    for row, (name, value) in enumerate(sorted(frame.terms.items(), key=lambda term: -abs(term[1]))[:6]):
        top, fill = 152 + 16 * row, _GOOD if value > 0 else _BAD
        write(name, top)
        write(f"{value:+.2f}", top, fill=fill, indent=110)
    write(f"episode {frame.total:+.2f}", 262, size=15)
