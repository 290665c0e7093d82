"""`cleanup`: the function here, and the module of that name by its import path."""

from flows.api.petting.utils.cleanup import cleanup as cleanup
