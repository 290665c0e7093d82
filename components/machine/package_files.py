"""Files shipped with Troupe, in a checkout or an installed package, and how to install what is missing."""

from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parents[2]
"""The folder of Troupe's packages: a checkout, or site-packages."""
_INSTALLED = ("site-packages", "dist-packages")


def is_checkout(folder: Path) -> bool:
    """Whether `folder` is a checkout. A pyproject.toml alone does not tell: some packages install theirs."""
    return (folder / "pyproject.toml").is_file() and folder.name not in _INSTALLED


def package_file(package: str, name: str) -> Path:
    """The file or folder `name` next to the modules of `package`, which need not be importable.

    **Example** `package_file("infra", "deepspeed/zero2.json")`.
    """
    path = SOURCE_ROOT / package / name
    assert path.exists(), f"{path} is missing from {package}"
    return path


def install_command(target: str, requirement: str) -> str:
    """The command that installs a missing extra: make in a checkout, else pip. **Example** "`make smollm`"."""
    return f"`make {target}`" if is_checkout(SOURCE_ROOT) else f"`pip install {requirement}`"
