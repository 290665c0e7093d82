"""`troupe evaluate`, `troupe compare` and `troupe play`."""

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from components.config.hybrid import GAME_BOY
from components.errors import ConfigurationError
from components.evaluation.scripted_play import SCRIPTED
from components.machine.gc_tuning import gc_paused
from troupe.cli.runs import JsonOption, StoreOption, emit_json, progress_bar
from troupe.cli.training import preset_names

if TYPE_CHECKING:
    from components.schema import EvalReport

SeedOption = Annotated[int, typer.Option(help="Chooses the problems and the random draws.")]
ProblemsOption = Annotated[
    int | None, typer.Option(min=1, help="How many; default: as a run's own evaluations, else 100.")
]
SamplingOption = Annotated[str, typer.Option(help="sample or greedy.")]
ChangesOption = Annotated[list[str] | None, typer.Option("--set", metavar="a.b=c", help="Change the suite.")]


def evaluate(
    subject: Annotated[
        str,
        typer.Argument(
            help="RUN[@STEP], models:/NAME@ALIAS, a model's folder or hub name, openai:MODEL, anthropic:MODEL, expert, random, "
            "noop, or role=SUBJECT,role=SUBJECT."
        ),
    ],
    suite: Annotated[
        str | None,
        typer.Option(
            help="ENVIRONMENT, PRESET or FILE.yaml, then /test, /train or /train_check; default: a run's own /test, the only "
            "one of a hybrid run."
        ),
    ] = None,
    problems: ProblemsOption = None,
    samples: Annotated[int, typer.Option(min=1, help="Answers to each problem; several give pass@k.")] = 1,
    seed: SeedOption = 0,
    step: Annotated[int | None, typer.Option(min=0, help="A run's updates; default: all that are finished.")] = None,
    sampling: SamplingOption = "greedy",
    overrides: ChangesOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play a suite without the tree; report the success rate with its 95% interval."""
    with gc_paused():
        from components.metrics import payoffs
        from troupe.teams.evaluation import evaluate as evaluate_team
        from troupe.teams.reports import describe_sampling, evaluation_document, success_sentence

    with progress_bar(subject, doing="evaluating") as progress:
        report = evaluate_team(
            subject,
            suite,
            num_problems=problems,
            num_samples=samples,
            seed=seed,
            step=step,
            sampling=sampling,
            overrides=overrides or (),
            store=store,
            progress=progress,
        )
    if as_json:
        emit_json(evaluation_document(report))
        return
    typer.echo(
        f"{report.agent} on {report.suite} {report.suite_digest} ({describe_sampling(report)}): "
        f"{success_sentence(report, payoffs(report.metrics))}"
    )
    for k, rate in evaluation_document(report).get("pass_at", {}).items():
        typer.echo(
            f"pass@{k}: {rate['value']:.1%}, 95% interval {rate['interval'][0]:.1%} to {rate['interval'][1]:.1%}"
        )
    typer.echo(f"\nnext: {next_command(report, subject, suite, store)}")


def compare(
    subjects: Annotated[
        list[str], typer.Argument(help="The base, then what is compared with it: RUN, RUN@STEP, models, expert, ...")
    ],
    suite: Annotated[
        str | None, typer.Option(help="What all of them play, as for `troupe evaluate`; default: a run's own /test.")
    ] = None,
    problems: ProblemsOption = None,
    samples: Annotated[int, typer.Option(min=1, help="Answers to each problem.")] = 1,
    seed: SeedOption = 0,
    sampling: SamplingOption = "greedy",
    fail_below: Annotated[
        float | None,
        typer.Option(metavar="D", help="Exit 1 if the lower bound of a paired difference is below -D, as 0.02."),
    ] = None,
    overrides: ChangesOption = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the comparison as a page, with the runs' curves.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play the same problems with several subjects; report each one's paired difference from the first."""
    with gc_paused():
        from troupe.teams.comparing import compare as compare_subjects

    with progress_bar(" ".join(subjects), doing="comparing") as progress:
        report = compare_subjects(
            subjects,
            suite,
            margin=fail_below,
            seed=seed,
            store=store,
            progress=progress,
            num_problems=problems,
            num_samples=samples,
            sampling=sampling,
            overrides=overrides or (),
        )
    if as_json:
        emit_json(report.document())
    else:
        typer.echo("\n".join(report.lines()))
    if html is not None:
        from troupe.teams.comparison_page import write_comparison

        write_comparison(report, html, store=store)
        typer.echo(f"\nnext: open {html}", err=as_json)
    if not report.passes:
        raise typer.Exit(1)


def next_command(report: "EvalReport", subject: str, suite: str | None, store: str | None) -> str:
    """The command that shows the evaluated run's team at play; a model or a team of several is compared; after scripted play
    one plays oneself."""
    from flows.suites import find_named_suite

    at_store = f" --store {store}" if store else ""
    if report.suite.startswith(f"{GAME_BOY}/"):
        return f"troupe view {report.agent.partition('@')[0]} --gif episode.gif{at_store}"
    played, _ = find_named_suite(suite or report.suite)
    if "=" in report.agent or "@" not in report.agent:
        base = "expert" if _has_expert(played) else "random"
        if subject in SCRIPTED:
            return f"troupe play {played}{' --agent expert' if base == 'expert' != subject else ''}"
        return f"troupe compare {base} {quote(subject)} --suite {suite or report.suite}{at_store}"
    sampling = "" if report.sampling == "greedy" else f" --sampling {report.sampling}"
    return f"troupe play {played} --agent {report.agent}{sampling}{at_store}"


def _has_expert(played: str) -> bool:
    """Whether the environment of a suite has an expert to watch."""
    from components.session.scenario import scenario_of
    from flows.suites import build_played_config

    try:
        return scenario_of(build_played_config(played, {}, own=None)).family.has_expert
    except ConfigurationError:
        return False  # it needs options, which the command named


def play(
    environment: Annotated[
        str | None,
        typer.Argument(
            metavar="ENV",
            help="plan_path, code, ..., a preset, or FILE.yaml; default: that of the run.",
            autocompletion=preset_names,
        ),
    ] = None,
    agent: Annotated[str, typer.Option(help="human, expert, random, noop, or a run: RUN or RUN@STEP.")] = "human",
    episodes: Annotated[int, typer.Option(min=1, help="Problems to play.")] = 1,
    show: Annotated[
        int | None, typer.Option(min=0, help="Episodes shown turn by turn; default: all of up to 10, else none.")
    ] = None,
    seed: SeedOption = 0,
    options: Annotated[list[str] | None, typer.Option("--set", metavar="a=b", help="An option, as size=6.")] = None,
    split: Annotated[str | None, typer.Option(help="train or test; default: train, for a run test.")] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Turns after which an episode ends.")] = None,
    sampling: Annotated[str | None, typer.Option(help="How a run's team answers: greedy (default) or sample.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play an environment in the terminal, or watch a run's team or a simple agent play it."""
    from flows.presets import with_overrides
    from troupe.teams.play import MOST_SHOWN
    from troupe.teams.play import play as play_episodes

    num_shown = show if show is not None else episodes if episodes <= MOST_SHOWN else 0
    with progress_bar(agent, doing="playing", is_hidden=num_shown > 0 or agent == "human") as progress:
        report = play_episodes(
            environment,
            agent,
            episodes=episodes,
            seed=seed,
            options=with_overrides({}, options or []),
            split=split,
            max_turns=max_turns,
            sampling=sampling,
            store=store,
            stdin=sys.stdin,
            stdout=sys.stderr if as_json else sys.stdout,
            num_shown=num_shown,
            progress=progress,
        )
    if as_json:
        emit_json(report.model_dump(mode="json"))
