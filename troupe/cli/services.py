"""`troupe up | down | status | env | doctor | gc`: services, machine and store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from troupe.cli.runs import JsonOption, StoreOption, emit
from troupe.cli.training import SetOption

if TYPE_CHECKING:
    from infra.services.environment import StackStatus


def up(
    engine: Annotated[str, typer.Option(help="vllm: also start servers for the preset's models.")] = "transformers",
    preset: Annotated[str | None, typer.Option(help="The preset whose models vLLM serves.")] = None,
    override: SetOption = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only tell what differs between Prefect and the files; exit code 1 if it does."),
    ] = False,
) -> None:
    """Start local Prefect (server and worker), MLflow and S3; deploy all of prefect.yaml, with schedules and automations.

    None of them sees your API keys; flow runs on the worker get the variables listed in TROUPE_PASS_ENV, separated by commas.
    """
    from pathlib import Path

    from components.machine.home import ensure_home
    from flows.presets import all_preset_values
    from infra.deployments import local_deployments, write_deployments
    from infra.engines import start_engines
    from infra.services.client import write_prefect_toml
    from infra.services.stack import deploy
    from infra.services.stack import up as start
    from troupe.consoles import console as made_console
    from troupe.consoles import show_wait
    from troupe.diagnostics.tables import access_lines, services_text

    if check:
        check_deployed()
        return
    home = ensure_home()
    deployments = local_deployments()  # an error in a prefect.yaml is reported before anything starts
    console = made_console()
    with show_wait("starting vLLM (one to three minutes)"):
        servers = start_engines(home, engine, preset, override or [])
    with show_wait("starting Prefect, MLflow and S3 (10 to 40 seconds)"):
        state = start(home)
    with show_wait("deploying (10 to 30 seconds)"):
        deploy(state, write_deployments(home, deployments))
        tidy_deployed(state, deployments)
    warning = write_prefect_toml(Path.cwd(), state)
    tell_of_dead_runs()
    console.print(services_text(state.document()), soft_wrap=True)
    for name, address in servers.items():
        console.print(f"{name:8} {address}", highlight=False, soft_wrap=True)
    for line in (*access_lines(state.document(), home), *filter(None, [warning])):
        typer.echo(line)
    preset = next(iter(all_preset_values()))  # the folder's own come first
    typer.echo(f"\nnext: troupe train {preset}, or prefect deployment run 'train/{preset}'")


def check_deployed() -> None:
    """Print what differs between the server and the files, a line each. Exit code 1 if something does."""
    from components.machine.home import HOME
    from infra.deployed import RECORD, differences, local_client
    from infra.deployments import local_deployments
    from infra.services.client import join_local_services
    from infra.services.prefect_server import prefect_home
    from infra.services.stack import status as read

    deployments = local_deployments()
    join_local_services()
    with local_client(read(HOME)) as client:
        lines = differences(client, deployments, prefect_home(HOME) / RECORD)
    for line in lines:
        typer.echo(line)
    if lines:
        typer.echo("\nnext: troupe up")
        raise typer.Exit(1)
    typer.echo(f"Prefect holds what the files say: {len(deployments)} deployments")


def tidy_deployed(state: StackStatus, deployments: Sequence[Mapping[str, Any]]) -> None:
    """Remove from Prefect what is in the files no more, and ensure its automations."""
    from infra.deployed import RECORD, local_client, tidy
    from infra.services.client import join_local_services
    from infra.services.prefect_server import prefect_home

    join_local_services()
    with local_client(state) as client:
        tidy(client, deployments, prefect_home(state.home) / RECORD)


def down(
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Only remove what runs hold or have left on this Ray cluster. Give it on one of its hosts.",
        ),
    ] = None,
) -> None:
    """Stop the local services, after ending the training runs that use them. Their data stays."""
    if ray is not None:
        clear_cluster(ray)
        return
    from components.machine.home import HOME
    from flows.prefect_runtime.active_runs import end_active_runs
    from infra.automations import pause_resumption
    from infra.services.client import join_local_services, remove_prefect_toml
    from infra.services.stack import down as stop
    from infra.services.stack import status as read
    from infra.services.vllm_stack import down_vllm

    join_local_services()
    if (prefect := read(HOME).prefect) is not None:
        pause_resumption(HOME, prefect.api_url)  # what the user ends here does not come back by itself
    if ended := end_active_runs(HOME):
        typer.echo(f"ended runs {', '.join(ended)}; finished work is kept, and the same commands continue from there")
    remove_prefect_toml(HOME)
    stopped = [*down_vllm(HOME), *stop(HOME)]
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def clear_cluster(address: str) -> None:
    """Remove all of Troupe's from a Ray cluster, and print what it was."""
    from components.cluster.leftovers import remove_leftovers

    removed = remove_leftovers(address)
    typer.echo(f"removed {', '.join(removed)}" if removed else f"nothing of Troupe's was on {address}")


def tell_of_dead_runs() -> None:
    """Mark the runs whose processes were killed as ended in Prefect and MLflow."""
    from components.machine.home import HOME
    from flows.prefect_runtime.active_runs import mark_dead_runs_crashed
    from infra.services.client import join_local_services

    join_local_services()
    if settled := mark_dead_runs_crashed(HOME):
        typer.echo(f"killed runs, marked as ended: {', '.join(settled)}")


def status(as_json: JsonOption = False) -> None:
    """The addresses of the local services; null for those that are down."""
    from components.machine.home import HOME
    from infra.services.stack import status as read
    from troupe.diagnostics.tables import access_lines, services_text

    document = read(HOME).document()
    emit(document, as_json=as_json, table=services_text)
    for line in [] if as_json else access_lines(document, HOME):
        typer.echo(line)


def env() -> None:
    """Shell lines for your own clients: eval "$(troupe env)". They contain secrets."""
    from components.errors import ServiceMissing
    from components.machine.home import HOME
    from infra.services.environment import exports
    from infra.services.stack import status as read

    found = read(HOME)
    if not any(found.document().values()):
        raise ServiceMissing("no local service is up; start them with `troupe up`")
    typer.echo(exports(found))


def doctor(
    preset: Annotated[
        str | None, typer.Option(help="A preset or a FILE.yaml: show where its workers would be, and what fits.")
    ] = None,
    inventory: Annotated[
        str | None, typer.Option(help="Machines that are not here: GPUSxGIB, as 8x80, or HOSTSxGPUSxGIB, as 2x8x80.")
    ] = None,
    override: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """What works on this machine, and how to get what does not; or with --preset where a run's workers would be."""
    from troupe.consoles import show_wait

    if preset is not None:
        from flows.presets import preset_config
        from troupe.diagnostics.placement import describe_plan, plan_notes, plan_table

        document = describe_plan(preset_config(preset, override or []), inventory)
        emit(document, as_json=as_json, table=plan_table)
        for note in () if as_json else plan_notes(document):
            typer.echo(note)
        return
    if inventory is not None or override:
        raise typer.BadParameter("--inventory and --set describe a run: name it with --preset")
    from troupe.diagnostics.tables import doctor_table

    with show_wait("checking this machine (up to a minute the first time)"):
        from troupe.diagnostics.doctor import checks

        found = checks()
    emit([check.document() for check in found], as_json=as_json, table=doctor_table)


def gc(
    store: StoreOption = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Newest checkpoints to keep of each run; default: the run's own retention.newest."),
    ] = None,
    grace_hours: Annotated[float, typer.Option(min=0, help="Keep what is younger.")] = 24.0,
    shared_days: Annotated[
        float, typer.Option(min=0, help="Keep for so long what runs share and no run uses any more.")
    ] = 30.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the checkpoints that no run keeps, and unreferenced files.

    Exit code 1 if a run was skipped because of a damaged record.
    """
    from components.runs.gc import DAY_SECONDS
    from components.session.garbage import collect
    from troupe.runs.stores import list_unlisted_runs, open_named_store
    from troupe.runs.tables import garbage_table

    ages = {"grace_seconds": grace_hours * 3600, "shared_seconds": shared_days * DAY_SECONDS}
    report, marked = collect(open_named_store(store), keep=keep, dry_run=dry_run, **ages)
    document = {**report.document(), "num_marked": marked.num_marked, "num_unmarked": marked.num_unmarked}
    emit(document, as_json=as_json, table=lambda shown: garbage_table(shown, dry_run=dry_run))
    if note := list_unlisted_runs(store):
        typer.echo(note, err=True)
    if marked.num_unmarked:
        typer.echo(
            f"MLflow still lists {marked.num_unmarked} removed checkpoints: {marked.error}; the next gc marks them",
            err=True,
        )
    for run_id, record in report.damaged.items():
        typer.echo(f"troupe: {run_id} is skipped: {record}", err=True)
    if report.damaged:
        raise typer.Exit(1)
    if dry_run and not as_json and report.num_objects + report.num_multiparts:
        typer.echo("\nnext: the same command without --dry-run removes it")
