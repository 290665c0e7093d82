"""`troupe export`."""

from typing import TYPE_CHECKING, Annotated

import typer

from components.text.escaping import printable
from troupe.cli.runs import JsonOption, StoreOption, emit_json, progress_bar

if TYPE_CHECKING:
    from troupe.exporting.export import ExportReport


def export(
    checkpoint: Annotated[
        str, typer.Argument(metavar="RUN@STEP", help="RUN is its newest step, RUN@0 before training.")
    ],
    place: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    policy: Annotated[str | None, typer.Option(help="One policy; default: all that have weights here.")] = None,
    merged: Annotated[bool, typer.Option("--merged", help="Write adapters merged into their base.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run's policies as Hugging Face folders with model cards, which plain transformers, PEFT and vLLM load."""
    from troupe.exporting.export import export as export_policies

    with progress_bar(checkpoint, doing="exporting") as progress:
        report = export_policies(checkpoint, place, policy=policy, is_merged=merged, store_uri=store, progress=progress)
    for warning in report.warnings:
        typer.echo(printable(f"warning: {warning}", keep=""), err=True)
    if as_json:
        emit_json(report.model_dump(mode="json"))
        return
    typer.echo(describe_report(report))
    first = report.policies[0]
    typer.echo(f"\nnext: {first.serve}   |   {first.folder}/README.md says how to load it")


def describe_report(report: "ExportReport") -> str:
    """The report as text."""
    kinds = {"model": "whole weights", "adapter": "an adapter", "merged": "an adapter merged into its base"}
    lines = [f"{report.run_id} after {report.step} update{'' if report.step == 1 else 's'}:"]
    for each in report.policies:
        beside = f", its base in {each.base}" if each.base else ""
        lines.append(f"  {each.folder}: {kinds[each.weights]}, {each.num_bytes / 2**20:.1f} MiB{beside}")
    lines += [f"  no folder for {name}: {reason}" for name, reason in report.left_out.items()]
    return printable("\n".join(lines))
