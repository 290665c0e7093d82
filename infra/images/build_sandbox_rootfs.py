"""Write the sandbox's file system, made from this machine's Python, as a tar archive.

python infra/images/build_sandbox_rootfs.py OUT.tar [PYTHON]
docker import OUT.tar troupe-sandbox:local
"""

import sys
import tempfile
from pathlib import Path

from components.sandbox.rootfs import build_rootfs, write_tar


def main() -> None:
    """Build it and print its digest."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    python = Path(sys.argv[2]) if len(sys.argv) == 3 else None
    with tempfile.TemporaryDirectory() as folder:
        digest = build_rootfs(Path(folder) / "rootfs", python=python)
        with out.open("wb") as archive:
            write_tar(Path(folder) / "rootfs", archive)
    print(f"{out}: {out.stat().st_size / 1e6:.0f} MB, sha256 of its contents {digest}")


if __name__ == "__main__":
    main()
