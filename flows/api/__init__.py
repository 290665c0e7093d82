"""The documented Python APIs of other systems, as thin facades over the flows."""

import os

# Prefect reads this on import, at the first run: what its temporary server says goes to its own pages.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")
