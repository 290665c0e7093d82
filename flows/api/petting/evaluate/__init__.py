"""`evaluate`. It is the function here, and a module by its import path."""

from flows.api.petting.evaluate.evaluate import evaluate as evaluate

vars(evaluate)["evaluate"] = evaluate  # the module's path works attribute by attribute, too
