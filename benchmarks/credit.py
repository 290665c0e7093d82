"""Credit fidelity: how well each estimator's advantages rank the candidates of a node by what they are really worth.

    python -m benchmarks.credit [--games plan-path sokoban] [--steps 20] [--seeds 1] [--decisions 200] [--home DIR]

A team is trained for a few steps; the checkpoint then plays trees on new problems, and of each problem one node is kept whose
candidates differ, half of them the first role's, half the last one's. Each candidate is worth E[R | do(candidate)], the mean
of 64 continuations from its state, in which all later answers are drawn from the same policies (`counterfactual.py`). R is
the team's return from the episode's start. Each estimator then plays rollouts of its own kind that hold those candidates, and
gives them advantages by the code that trains (`own_rollouts.py`); it never sees the continuations. Rewards are the preset's:
what an estimator learns from has local parts, R has none.

The table has Spearman's correlation within nodes, pooled over nodes and as the mean of nodes (`fidelity.py`), with 95%
intervals by resampling nodes. The ceiling is about what the true values would reach with so many continuations, and "silent"
the share of nodes with different values at which all candidates got the same. `solver_value` knows what no agent sees. Equal
answers of a node are one action, played once; an answer that ends the episode has one return and needs no continuation.

What is computed is kept in --home, block by block: the same command again goes on, and with all of it there only prints.
--list computes nothing: it says what is missing, and prints a record (`measured/`) as an earlier version measured it.
"""

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.credit_study import ROLES, Study
from benchmarks.fidelity import (
    Estimate,
    mean_correlation,
    noise_ceiling,
    pool_correlations,
    silent_fraction,
)
from benchmarks.kept import describe_record, read
from benchmarks.markdown import markdown
from benchmarks.training import services_to_go_on

GAMES = ("plan-path", "sokoban", "math-tiny")


def table(studies: Sequence[Study]) -> str:
    """Correlations by estimator, as Markdown; decisions of all studies together."""
    titles = ["estimator", *ROLES, "all, pooled", "all, mean of nodes", "silent"]
    body = []
    for name in studies[0].estimators:
        by_role = join_lists(study.rank_candidates(name) for study in studies)
        everything = [node for role in ROLES for node in by_role[role]]
        body.append(
            [
                name,
                *(format_estimate(pool_correlations(by_role[role])) for role in ROLES),
                format_estimate(pool_correlations(everything)),
                format_estimate(mean_correlation(everything)),
                f"{silent_fraction(everything):.0%}",
            ]
        )
    halves = join_lists(study.halves() for study in studies)
    both = [node for role in ROLES for node in halves[role]]
    ceilings = [noise_ceiling(each) for each in (*halves.values(), both)]
    body.append(["*ceiling*", *("" if each is None else f"{each:.2f}" for each in ceilings)])
    return markdown(titles, body)


def join_lists(found: Iterable[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """The lists of several mappings, end to end."""
    whole: dict[str, list[Any]] = {role: [] for role in ROLES}
    for each in found:
        for role, values in each.items():
            whole[role] += values
    return whole


def format_estimate(found: Estimate | None) -> str:
    """**Example** "0.41 (0.33 to 0.48)"."""
    return "undefined" if found is None else f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def cost(studies: Sequence[Study]) -> str:
    """What the values cost, and how many decisions there are."""
    stored = [read(study.folder / "values.json") for study in studies]
    counts = ", ".join(f"{sum(each['roles'].count(role) for each in stored)} of the {role}" for role in ROLES)
    tokens, seconds = sum(each["num_tokens"] for each in stored), sum(each["seconds"] for each in stored)
    return f"{counts}; their values took {tokens} tokens and {seconds:.0f} s"


def origin(studies: Sequence[Study]) -> str:
    """What measured the studies, and the starts of their seeds."""
    stored = [read(study.folder / "values.json") for study in studies]
    starts = ", ".join("/".join(digest[:8] for digest in each["start"].values()) for each in stored)
    measured = dict.fromkeys(f"commit {each['commit'][:7]} on {each['processor']}" for each in stored)
    return f"measured by {', '.join(measured)}; starts {starts}"


def summary(studies: Sequence[Study]) -> str:
    """The pooled correlations of several games side by side, over complete studies, as Markdown."""
    games = studies_by_game([study for study in studies if study.is_complete])
    body = []
    for name in dict.fromkeys(name for same in games.values() for name in same[0].estimators):
        cells = ["" if name not in same[0].estimators else pool_studies(same, name) for same in games.values()]
        body.append([name, *cells])
    return markdown(["estimator", *(f"{game}, {seeds_in_words(same)}" for game, same in games.items())], body)


def pool_studies(studies: Sequence[Study], estimator: str) -> str:
    """The correlation over both roles of all studies."""
    by_role = join_lists(study.rank_candidates(estimator) for study in studies)
    return format_estimate(pool_correlations([node for role in ROLES for node in by_role[role]]))


def seeds_in_words(studies: Sequence[Study]) -> str:
    """**Example** "3 seeds"."""
    return f"{len(studies)} seed{'s' * (len(studies) > 1)}"


def studies_by_game(studies: Sequence[Study]) -> dict[str, list[Study]]:
    return {game: [*same] for game, same in groupby(studies, key=lambda study: study.game)}


def report(studies: Sequence[Study]) -> str:
    """The table of each game, over its complete studies, what is missing, and the games side by side."""
    parts = []
    for game, of_game in studies_by_game(studies).items():
        complete = [study for study in of_game if study.is_complete]
        missing = [f"missing: {game} seed {study.seed}" for study in of_game if study not in complete]
        parts += ["\n".join(missing)] if missing else []
        if complete:
            parts.append(
                f"{game}, {seeds_in_words(complete)}, {complete[0].num_continuations} continuations; {cost(complete)}"
            )
            parts.append(origin(complete))
            parts.append(table(complete))
    if len({study.game for study in studies if study.is_complete}) > 1:
        parts.append(f"both roles, pooled\n\n{summary(studies)}")
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=list(GAMES), help="presets of teams")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--decisions", type=int, default=200, help="of each seed")
    parser.add_argument("--continuations", type=int, default=64)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="beside the preset")
    parser.add_argument("--list", action="store_true", help="print what is done, and tell what is missing")
    asked = parser.parse_args()
    if asked.continuations < 2:
        parser.error("--continuations must be at least 2: the ceiling compares two halves of them")
    home: Path = (asked.home or Path(tempfile.mkdtemp(prefix="troupe-benchmark-"))).resolve()
    print(describe_record(home, only_list=asked.list), end="")
    studies = [
        Study(
            game=game,
            seed=seed,
            num_steps=asked.steps,
            num_decisions=asked.decisions,
            num_continuations=asked.continuations,
            home=home,
            overrides=tuple(asked.set),
        )
        for game in dict.fromkeys(asked.games)
        for seed in range(asked.seeds)
    ]
    if not asked.list:
        with services_to_go_on(home):  # before anything is imported that reads Prefect's settings
            for study in studies:
                study.complete()
    print(f"\n{report(studies)}\n\nkept in {home}")


if __name__ == "__main__":
    main()
