"""The questions of a served team for lm-eval: each with its own messages and the seed of its draw."""

import json

from lm_eval.api.task import ConfigurableTask
from lm_eval.models.api_models import JsonChatStr


class Questions(ConfigurableTask):
    def __init__(self, config):
        super().__init__(config={name: value for name, value in config.items() if name != "class"})

    def construct_requests(self, doc, ctx, **kwargs):
        request = super().construct_requests(doc, ctx, **kwargs)
        _, settings = request.arguments
        request.arguments = (JsonChatStr(json.dumps(doc["messages"])), {**settings, "seed": doc["seed"]})
        return request
