"""Runs the Prefect server, which asks for the password itself, behind the guard.

    python -m infra.services.prefect_app --port 4200

`prefect server start` lets no middleware in; what it sets beyond this are defaults of the same settings.
"""

import argparse

import uvicorn

from components.long_lived import long_lived
from infra.services.busy_database import RepeatingBusyRequests
from infra.services.guard import guarded
from infra.services.ports import LOOPBACK


def main() -> None:
    """Serve until a signal ends it."""
    with long_lived():
        from prefect.server.api.server import create_app
        from prefect.settings import get_current_settings

    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    settings = get_current_settings().server
    assert settings.api.auth_string is not None, "the server would let everybody in"
    uvicorn.run(
        guarded(RepeatingBusyRequests(create_app(final=True))),
        host=LOOPBACK,
        port=parser.parse_args().port,
        timeout_keep_alive=settings.api.keepalive_timeout,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )


if __name__ == "__main__":
    main()
