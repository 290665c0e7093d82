"""Does a small language model learn to trade, by constrained offers, and two of them with each other?

    python -m benchmarks.trading --home DIR [--seeds 2] [--kinds alone together] [--steps N] [--problems 600] [--set a.b=c ...]
        [--choosing 12] [--list]

alone: one member makes an offer in each market to a scripted partner, who accepts what it gains by (preset population-trading).
together: two members learn, each in both seats, one makes an offer and may not pass, and the other answers. Returns are raw, on
held-out markets that all players share: a member beside the best constant answer, and beside its own frozen start in its seat,
with the trained partner and with the partner's frozen start. Intervals are paired by market. Players draw their answers, as in
training; "likeliest" has both give their likeliest ones, and so does the partner of a constant.

A constant offer is one text, or one trade of the good that the offerer has more of; an impossible one earns nothing. The
best ones are chosen on the held-out markets themselves with the scripted partner, and on markets of training with a partner
that learned, who is asked about each.
Finished runs are kept in --home; the same command again does what is missing.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.kept import read, write
from benchmarks.markdown import markdown
from benchmarks.origin import read_origin
from benchmarks.population_runs import cpu_seconds
from benchmarks.trading_play import (
    OFFERER,
    RESPONDER,
    Player,
    Sampling,
    Tables,
    constant_offers,
    gains,
    open_tables,
    richer_good_offer,
)
from benchmarks.training import services_to_go_on

PRESET = "population-trading"
ALONE, TOGETHER = "alone", "together"
MEMBERS = ("first", "second")
TOGETHER_LINES = (
    "environment.options={num_rounds: 1, binding: true, has_deal: true, must_offer: true}",
    "environment.max_turns=2",
    "agents={player_0: {policy: first, temperature: 2.0}, player_1: {policy: second, temperature: 2.0}}",
    "method={type: population, training_mode: {type: competitive, competition_intensity: 0.0}, rotates_seats: true}",
    "rollout.num_shards=2",
    "rollout.group_size=8",
    "loss.entropy_coefficient=0.15",
    "training.num_minibatches=2",
)
"""Passing pays nothing, and offers that lose pay less: who may pass learns to, and then nothing more. So each must offer, and
entropy keeps offers and answers mixed."""
REPLICAS = 4
"""Sampled episodes of a market."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A finished run. `gaps` are differences of returns by market, by what was compared."""

    kind: str
    seed: int
    num_steps: int
    cpu_seconds: float
    minutes: float
    returns: dict[str, float]
    gaps: dict[str, list[float]]
    constant: str
    processor: str | None = None
    commit: str | None = None


def main() -> None:
    arguments = _arguments()
    if not arguments.list:
        with services_to_go_on(arguments.home):
            for kind in arguments.kinds:
                for seed in range(arguments.seeds):
                    if not _file(arguments, kind, seed).exists():
                        row = _finish_run(arguments, kind, seed)
                        write(_file(arguments, kind, seed), asdict(row))
                        print("\n".join(lines_of([row])), file=sys.stderr, flush=True)
    rows = [Row(**read(file)) for file in sorted((arguments.home / "rows").glob("*.json"))]
    print("\n".join(lines_of(rows)))


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", choices=(ALONE, TOGETHER), default=(ALONE, TOGETHER))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--problems", type=int, default=600)
    parser.add_argument("--set", nargs="+", default=[], metavar="a.b=c", help="in all runs")
    parser.add_argument(
        "--choosing", type=int, default=12, help="markets of training on which constant offers are chosen"
    )
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def _file(arguments: Any, kind: str, seed: int) -> Path:
    return Path(arguments.home) / "rows" / f"{_run_id(arguments, kind, seed)}.json"


def _config(arguments: Any, kind: str, seed: int) -> Any:
    from flows.presets import preset_config

    lines = [f"seed={seed}", "tracking.kind=none", *(TOGETHER_LINES if kind == TOGETHER else ()), *arguments.set]
    lines += ["store.kind=local", f"store.root={arguments.home / 'store'}", "evaluation={every: 0, sampling: []}"]
    if kind == TOGETHER:
        member = preset_config(PRESET, arguments.set).policies["first"].model_dump(mode="json", exclude_defaults=True)
        lines.append(f"policies={{first: {member}, second: {member}}}")
    return preset_config(PRESET, lines, num_steps=arguments.steps)


def _run_id(arguments: Any, kind: str, seed: int) -> str:
    from components.identity import fingerprint

    config = _config(arguments, kind, seed)
    return f"{kind}-{seed}-{fingerprint(config.result_fields())[:10]}"


def _finish_run(arguments: Any, kind: str, seed: int) -> Row:
    """Train by the flow, and play the held-out markets."""
    from components.artifacts.local import LocalArtifactStore
    from flows.train import train_population
    from troupe.runs.documents import run_document

    config, run_id = _config(arguments, kind, seed), _run_id(arguments, kind, seed)
    before = cpu_seconds()
    train_population(config, run_id)
    used = cpu_seconds() - before
    steps = run_document(LocalArtifactStore(arguments.home / "store"), run_id)["steps"]
    seconds = sum(sum(step["timings"].values()) for step in steps)
    with open_tables(config, run_id) as tables:
        compared = compare_alone if kind == ALONE else compare_together
        returns, gaps, constant = compared(tables, config.num_steps, arguments)
    return Row(
        kind=kind,
        seed=seed,
        num_steps=config.num_steps,
        cpu_seconds=used,
        minutes=seconds / 60,
        returns=returns,
        gaps=gaps,
        constant=constant,
        **read_origin(),
    )


Compared = tuple[dict[str, float], dict[str, list[float]], str]
"""Mean returns, differences by market, and the best constant answer."""


def compare_alone(tables: Tables, last: int, arguments: Any) -> Compared:
    """One member, by draws and by its likeliest offers, beside its start and the best constants, with the scripted partner."""
    problems = tables.problems(arguments.problems, split="test")
    seats = {OFFERER: Player(MEMBERS[0], last)}
    greedy = tables.returns(seats, problems, replicas=1, sampling="greedy")[OFFERER]
    trained, start = (
        tables.returns({OFFERER: Player(MEMBERS[0], step)}, problems, replicas=REPLICAS)[OFFERER] for step in (last, 0)
    )
    texts = {offer: [_compute_accepted_gain(problem, offer) for problem in problems] for offer in constant_offers()}
    trades = {
        f"{k} of what it has more of for {m}": [
            _compute_accepted_gain(each, richer_good_offer(each, k, m)) for each in problems
        ]
        for k in (1, 2, 3)
        for m in (1, 2, 3)
    }
    offers = [_compute_best_gain(problem) for problem in problems]
    text, trade = (max(each, key=partial(_mean_at, each)) for each in (texts, trades))
    others = {"start": start, "best constant text": texts[text], "best constant trade": trades[trade]}
    means = {"drawn": fmean(trained), "likeliest": fmean(greedy), "best possible": fmean(offers)}
    means |= {name: fmean(other) for name, other in others.items()}
    gaps = {f"{name}, drawn": _less(trained, other) for name, other in others.items()}
    gaps |= {f"{name}, likeliest": _less(greedy, other) for name, other in others.items() if name != "start"}
    return means, gaps, f"{text}; {trade}"


def compare_together(tables: Tables, last: int, arguments: Any) -> Compared:
    """Both members in both seats, beside constants and starts, with the trained partner and with its start."""
    problems = tables.problems(arguments.problems, split="test")
    choosing = tables.problems(arguments.choosing, split="train")
    means: dict[str, float] = {}
    gaps: dict[str, list[float]] = {}
    best = []
    for offerer, responder in (MEMBERS, MEMBERS[::-1]):
        played = {
            (own, other): tables.returns(
                {OFFERER: Player(offerer, own), RESPONDER: Player(responder, other)}, problems, replicas=REPLICAS
            )
            for own in (last, 0)
            for other in (last, 0)
        }
        offers = tables.offers(
            {OFFERER: Player(offerer, last), RESPONDER: Player(responder, last)}, problems, replicas=REPLICAS
        )
        always = [
            fmean(gains(problem, offer)[1] for offer in said) for problem, said in zip(problems, offers, strict=True)
        ]
        name, constant = best_constant_offer(tables, Player(responder, last), choosing, problems)
        best.append(f"{offerer}: {name}; {responder}: {'accept' if fmean(always) > 0 else 'refuse'}")
        answer = always if fmean(always) > 0 else [0.0] * len(problems)
        both, old = played[last, last], played[0, 0]
        for member, seat, const, alone, partner in (
            (offerer, OFFERER, constant, played[0, last], played[last, 0]),
            (responder, RESPONDER, answer, played[last, 0], played[0, last]),
        ):
            said = f"{member} {'offers' if seat == OFFERER else 'answers'}"
            means |= {f"{said}, trained": fmean(both[seat]), f"{said}, start": fmean(old[seat])}
            means[f"{said}, constant"] = fmean(const)
            gaps[f"{said}: constant"] = _less(both[seat], const)
            gaps[f"{said}: own start, trained partner"] = _less(both[seat], alone[seat])
            gaps[f"{said}: own start, partner's start"] = _less(partner[seat], old[seat])
        for said, likeliest, const in _likeliest(
            tables, Player(offerer, last), Player(responder, last), choosing, problems
        ):
            means |= {f"{said}, likeliest": fmean(likeliest), f"{said}, constant of likeliest": fmean(const)}
            gaps[f"{said}: constant, likeliest"] = _less(likeliest, const)
    for member in MEMBERS:
        for what in ("constant", "constant, likeliest", "own start, trained partner", "own start, partner's start"):
            seats = (gaps[f"{member} {verb}: {what}"] for verb in ("offers", "answers"))
            gaps[f"{member} in both seats: {what}"] = [fmean(pair) for pair in zip(*seats, strict=True)]
    return means, gaps, "; ".join(best)


def _likeliest(
    tables: Tables, offerer: Player, responder: Player, choosing: Sequence[Any], problems: Sequence[Any]
) -> list[tuple[str, list[float], list[float]]]:
    """Each of two players who give their likeliest offers and answers, what it earns, and what the best constant one would."""
    seats = {OFFERER: offerer, RESPONDER: responder}
    returns = tables.returns(seats, problems, replicas=1, sampling="greedy")
    offers = tables.offers(seats, problems, replicas=1, sampling="greedy")
    accepted = [gains(problem, said[0])[1] for problem, said in zip(problems, offers, strict=True)]
    answer = accepted if fmean(accepted) > 0 else [0.0] * len(problems)
    _, offer = best_constant_offer(tables, responder, choosing, problems, sampling="greedy")
    return [
        (f"{offerer.member} offers", returns[OFFERER], offer),
        (f"{responder.member} answers", returns[RESPONDER], answer),
    ]


def best_constant_offer(
    tables: Tables,
    responder: Player,
    choosing: Sequence[Any],
    problems: Sequence[Any],
    *,
    sampling: Sampling = "sample",
) -> tuple[str, list[float]]:
    """The constant offer that earns most from this responder on markets of training, and what it earns on `problems`."""

    def compute_earnings(markets: Sequence[Any], offers: Sequence[str]) -> dict[str, list[float]]:
        asked = [(market, offer) for offer in offers for market in markets]
        found = tables.chances_to_accept(responder, asked)
        chances = iter([float(chance > 0.5) for chance in found] if sampling == "greedy" else found)
        return {offer: [next(chances) * gains(market, offer)[0] for market in markets] for offer in offers}

    chosen = compute_earnings(choosing, constant_offers())
    name = max(chosen, key=partial(_mean_at, chosen))
    return name, compute_earnings(problems, [name])[name]


def _mean_at(returns: Mapping[str, Sequence[float]], name: str) -> float:
    return fmean(returns[name])


def _compute_accepted_gain(problem: Any, offer: str) -> float:
    """What the offerer gains from a partner who accepts what it gains by."""
    own, other = gains(problem, offer)
    return own if other > 0 else 0.0


def _compute_best_gain(problem: Any) -> float:
    """What a clairvoyant offerer gains."""
    return max(0.0, *(_compute_accepted_gain(problem, offer) for offer in constant_offers()))


def _less(these: Sequence[float], others: Sequence[float]) -> list[float]:
    return [this - other for this, other in zip(these, others, strict=True)]


def lines_of(rows: Sequence[Row]) -> list[str]:
    """A table of each run: what was compared, the mean difference, and its 95% interval over markets."""
    lines: list[str] = []
    for row in rows:
        minutes = f"{row.num_steps} steps, {row.minutes:.1f} minutes, {row.cpu_seconds:.0f} CPU s"
        lines += [f"{row.kind}, seed {row.seed}: {minutes}; constants: {row.constant}"]
        lines += ["returns: " + ", ".join(f"{name} {value:.3f}" for name, value in row.returns.items()), ""]
        lines += [markdown(["more than", "by", "95%"], [_compare(*gap) for gap in row.gaps.items()]), ""]
    return lines


def _compare(name: str, differences: Sequence[float]) -> list[str]:
    low, high = compute_paired_interval(differences)
    return [name, f"{fmean(differences):+.3f}", f"{low:+.3f} to {high:+.3f}"]


def compute_paired_interval(differences: Sequence[float], *, num_resamples: int = 4000) -> tuple[float, float]:
    """The 95% interval of a mean of paired differences, by a bootstrap over markets.

    **Example** 60 equal differences of .1: .1 to .1.
    """
    import numpy as np

    values = np.array(differences)
    draws = np.random.default_rng(0).integers(0, len(values), (num_resamples, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
