"""Runs the Prefect server behind the guard; Prefect checks the password itself.

    python -m infra.services.prefect_app PORT

`prefect server start` accepts no middleware; the rest of what it sets are defaults of the same settings.
"""

import sys

import uvicorn

from components.long_lived import long_lived
from infra.services.busy_database import RepeatingBusyRequests
from infra.services.guard import guarded
from infra.services.ports import LOOPBACK


def main() -> None:
    """Serve until a signal arrives."""
    with long_lived():
        from prefect.server.api.server import create_app
        from prefect.settings import get_current_settings

    settings = get_current_settings().server
    assert settings.api.auth_string is not None, "the server would accept anybody"
    uvicorn.run(
        guarded(RepeatingBusyRequests(create_app(final=True))),
        host=LOOPBACK,
        port=int(sys.argv[1]),
        timeout_keep_alive=settings.api.keepalive_timeout,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )


if __name__ == "__main__":
    main()
