"""What is shared by users' scripts: `cleanup`. It is the function here, and a module by its import path."""

from flows.api.petting.utils.cleanup import cleanup as cleanup

vars(cleanup)["cleanup"] = cleanup  # the module's path works attribute by attribute, too
