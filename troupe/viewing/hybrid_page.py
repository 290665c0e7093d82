"""The page of a hybrid run: one HTML file with pictures, which loads nothing and has no script."""

from collections.abc import Mapping, Sequence
from math import log1p
from typing import Any

from troupe.viewing.page import own_text, render_page

_CHART_WIDTH, _CHART_HEIGHT = 960, 130
_CELL = 26
"""Of a map, in pixels."""
_SOLID, _GRASS = "#", ","
_LEGEND = {
    "L": "the table with the first monster",
    "H": "healing",
    "P": "a person",
    "G": "the first gym",
    "K": "the second gym",
}
_COURSE_LINES = (
    ("success_rate", "goal reached"),
    ("starter_rate", "first monster taken"),
    ("llm_share", "language model"),
    ("llm_confidence", "trust in it"),
)


def hybrid_page(document: Mapping[str, Any]) -> str:
    """The document of `hybrid_document` as a page."""
    decisions = document["decisions"]
    return render_page(
        "hybrid.html.jinja",
        style=own_text("colors.css") + own_text("hybrid.css"),
        title=f"{document['run_id']}, step {document['step']}",
        run=document,
        course=_course_chart(document["course"]["steps"]),
        width=_CHART_WIDTH,
        height=_CHART_HEIGHT,
        cell=_CELL,
        maps=[{**each, "maps": [_map_picture(one) for one in each["maps"]]} for each in document["maps"]],
        legend=_LEGEND,
        decisions=decisions,
        num_parts=len(decisions["over_episode"]) if decisions else 1,
    )


def _course_chart(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line of each rate from 0 to 1 over the steps; a step without one is left out."""
    last = max(1, len(steps) - 1)
    return [
        {
            "name": name,
            "title": title,
            "newest": known[-1][1],
            "points": " ".join(
                f"{index / last * _CHART_WIDTH:.1f},{(1 - value) * _CHART_HEIGHT:.1f}" for index, value in known
            ),
            "dots": [(index / last * _CHART_WIDTH, (1 - value) * _CHART_HEIGHT) for index, value in known],
        }
        for name, title in _COURSE_LINES
        if (known := [(index, each[name]) for index, each in enumerate(steps) if each[name] is not None])
    ]


def _map_picture(found: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a map in pixels; those of a map that is not known are the rectangle around what was visited."""
    rows, tiles = found["rows"], found["tiles"]
    left = 0 if rows else min(each["x"] for each in tiles)
    top = 0 if rows else min(each["y"] for each in tiles)
    width = len(rows[0]) if rows else max(each["x"] for each in tiles) - left + 1
    height = len(rows) if rows else max(each["y"] for each in tiles) - top + 1
    most = max((each["num_presses"] for each in tiles), default=0)
    return {
        "name": found["name"],
        "width": width * _CELL,
        "height": height * _CELL,
        "cells": [
            {"x": x * _CELL, "y": y * _CELL, "kind": _kind(sign), "sign": sign if sign in _LEGEND else ""}
            for y, row in enumerate(rows)
            for x, sign in enumerate(row)
        ],
        "tiles": [
            {
                **each,
                "left": (each["x"] - left) * _CELL,
                "top": (each["y"] - top) * _CELL,
                "shade": round(0.15 + 0.7 * log1p(each["num_presses"]) / log1p(most), 3) if each["num_presses"] else 0,
            }
            for each in tiles
        ],
    }


def _kind(sign: str) -> str:
    return "wall" if sign == _SOLID else "grass" if sign == _GRASS else "floor"
