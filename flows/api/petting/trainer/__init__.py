"""`train`, and the classes behind it in the documented API. `train` is the function here, and a module by its import path."""

from flows.api.petting.trainer.train import train as train

vars(train)["train"] = train  # the module's path works attribute by attribute, too
