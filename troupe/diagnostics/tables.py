"""The state of this machine, as tables for people."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from components.tracking.pages import page_url
from infra.services.secrets import password_file
from troupe.diagnostics.check import OPTIONAL


def services_text(document: Mapping[str, Any]) -> Text:
    """The addresses of the local services, each on a line that is never broken."""
    places = {
        "Prefect": ("prefect", "ui_url"),
        "MLflow": ("mlflow", "url"),
        "S3": ("s3", "endpoint"),
        "worker": ("worker", "pid"),
    }

    def place(title: str) -> str | Text:
        service, field = places[title]
        if document[service] is None:
            return Text("down", style="dim")
        address = str(document[service].get(field, "up"))
        return page_url(address) if title == "MLflow" else address

    return Text("\n").join(Text.assemble(f"{title:8} ", place(title)) for title in places)


def access_lines(document: Mapping[str, Any], home: Path) -> list[str]:
    """How the user and the user's programs log in to the running services. The password itself is not shown."""
    read = f"`cat {shlex.quote(str(password_file(home)))}`"
    lines = []
    if document["prefect"] or document["mlflow"]:
        lines.append(f"the pages of Prefect and MLflow ask for a password: {read}")
    if any(document.values()):
        lines.append('mlflow, prefect, aws and Python clients in this shell: eval "$(troupe env)"')
    return lines


def doctor_table(checks: Sequence[Mapping[str, Any]]) -> Table:
    """One line per check, with the remedy where it failed."""

    def mark(check: Mapping[str, Any]) -> Text:
        if check["ok"]:
            return Text("ok", style="green")
        is_optional = check["remedy"].startswith(OPTIONAL)
        return Text("optional", style="dim") if is_optional else Text("not ok", style="yellow")

    table = Table(box=None, show_header=False)
    for check in checks:
        table.add_row(mark(check), check["name"], check["detail"] + ("" if check["ok"] else f"\n  {check['remedy']}"))
    return table


def sandbox_status_table(document: Mapping[str, Any]) -> Table:
    """The state of the sandbox on this machine."""
    taken, leftovers = document["auto"], document["leftovers"]
    return _facts(
        [
            ("auto takes", Text(taken or "nothing: no backend works", style="green" if taken else "red")),
            *(
                (name, backend["detail"] + ("" if backend["works"] else f"\n  {backend['remedy']}"))
                for name, backend in document["backends"].items()
            ),
            ("docker daemon", _daemon(document["engine"])),
            ("image", document["image_digest"]),
            *document["limits"].items(),
            ("boxes running", ", ".join(f"{name} {count}" for name, count in document["boxes"].items())),
            ("leftovers", f"{leftovers}; the next sandbox removes them" if leftovers else "0"),
        ]
    )


def sandbox_build_table(document: Mapping[str, Any]) -> Table:
    """The result of `troupe sandbox build`."""
    daemon = document["engine"]
    without = f"none: {document['why_no_engine']}; bubblewrap needs none"
    return _facts(
        [
            ("digest", document["digest"]),
            ("size", f"{document['num_bytes'] / 2**20:.1f} MiB"),
            ("folder", document["folder"]),
            ("docker daemon", without if daemon is None else _daemon(daemon)),
            ("seconds", f"{document['seconds']:.1f}"),
        ]
    )


def _daemon(daemon: Mapping[str, Any] | None) -> str:
    if daemon is None:
        return "none runs"
    return f"version {daemon['version']} at {daemon['host']}, {'private' if daemon['private'] else 'not ours'}"


def _facts(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Rows of a name and a fact; long facts are wrapped, not cut."""
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
