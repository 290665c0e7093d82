"""`evaluate`: the function here, and the module of that name by its import path."""

from flows.api.petting.evaluate.evaluate import evaluate as evaluate
