"""Resource cleanup: what killed processes have left on this machine."""

from flows.leftovers import remove_leftovers as cleanup

__all__ = ["cleanup"]
