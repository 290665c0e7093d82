"""Automations of a Prefect server over SQLite that lose no event.

Prefect evaluates an event in a transaction that reads before it writes. SQLite refuses the write if another one came between,
whatever its timeout, and after four attempts Prefect drops the event: its automation never acts, and later events of the same
flow run wait for the dropped one. A transaction that takes the write lock when it begins waits instead. This module uses
undocumented parts of Prefect: the name `automations_session` in `prefect.server.events.triggers`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


def evaluate_in_immediate_transactions() -> None:
    """Let this process's Prefect server evaluate automations in transactions that begin with the write lock."""
    from prefect.server.database import provide_database_interface
    from prefect.server.events import triggers

    @asynccontextmanager
    async def immediate_session(begin_transaction: bool = False) -> "AsyncGenerator[AsyncSession, None]":
        database = provide_database_interface()
        async with database.session_context(
            begin_transaction=begin_transaction, with_for_update=begin_transaction
        ) as session:
            yield session

    assert hasattr(triggers, "automations_session"), "Prefect evaluates automations in another way"
    triggers.automations_session = immediate_session
