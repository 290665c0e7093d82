"""The user name and password of a home folder's Prefect and MLflow servers."""

from pathlib import Path

from components.errors import ConfigurationError
from infra.services.secrets import ensure_secret

USER = "troupe"


def password_file(home: Path) -> Path:
    """The file of the password, readable by its owner alone."""
    return home / "password"


def ensure_password(home: Path) -> str:
    """The password, created if there is none. Raises ConfigurationError if others can read it."""
    try:
        return ensure_secret(password_file(home))
    except PermissionError as error:
        raise ConfigurationError(str(error)) from error
