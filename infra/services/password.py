"""The name and password that the Prefect and MLflow servers of a home folder ask for."""

from pathlib import Path

from components.errors import ConfigurationError
from infra.services.secrets import ensure_secret

USER = "troupe"
"""Beside the password, where a name is asked for."""


def password_file(home: Path) -> Path:
    """Where it is; only its owner can read it."""
    return home / "password"


def ensure_password(home: Path) -> str:
    """The password, made where there is none. Raises ConfigurationError where others can read it."""
    try:
        return ensure_secret(password_file(home))
    except PermissionError as error:
        raise ConfigurationError(str(error)) from error
