"""One row of `troupe doctor`."""

from dataclasses import asdict, dataclass
from typing import Any

OPTIONAL = "optional: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that works or does not. `remedy` is what to do when it does not; "optional: ..." may stay as it is."""

    name: str
    ok: bool
    detail: str
    remedy: str

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)
