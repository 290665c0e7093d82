"""Where the local services keep their data, logs and records."""

import os
from pathlib import Path

HOME = Path(os.environ.get("TROUPE_HOME") or ".troupe").absolute()
"""`.troupe` in the working directory, or the folder that TROUPE_HOME names."""
