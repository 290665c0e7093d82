"""Files that come with Troupe, found alike in a checkout and in an installed package, and how what is missing is had there."""

from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds Troupe's packages: a checkout, or where packages are installed."""
_INSTALLED = ("site-packages", "dist-packages")


def is_checkout(folder: Path) -> bool:
    """Whether `folder` holds a checkout. Some packages leave their own pyproject.toml where they are installed."""
    return (folder / "pyproject.toml").is_file() and folder.name not in _INSTALLED


def shipped_file(package: str, name: str) -> Path:
    """The file or folder `name` beside the modules of `package`, which need not be importable here.

    **Example** `shipped_file("infra", "deepspeed/zero2.json")`.
    """
    path = SOURCE_ROOT / package / name
    assert path.exists(), f"{path} is missing from {package}"
    return path


def how_to_get(target: str, requirement: str) -> str:
    """The command that installs what is missing: the checkout's own, or pip's. **Example** "`make smollm`"."""
    return f"`make {target}`" if is_checkout(SOURCE_ROOT) else f"`pip install {requirement}`"
