"""`train`, and the classes behind it: the function here, and the module of that name by its import path."""

from flows.api.petting.trainer.train import train as train
