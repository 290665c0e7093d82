"""One row of `troupe doctor`."""

from dataclasses import asdict, dataclass
from typing import Any

OPTIONAL = "optional: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether one thing works. `remedy` is what to do if it does not, "optional: ..." if Troupe works without it."""

    name: str
    ok: bool
    detail: str
    remedy: str

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)
