"""The questions of a served team for inspect: each with its own messages and the seed of its draw."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import exact
from inspect_ai.solver import solver

KINDS = {"system": ChatMessageSystem, "user": ChatMessageUser}


def read_sample(line):
    messages = [KINDS[each["role"]](content=each["content"]) for each in line["messages"]]
    return Sample(id=line["id"], input=messages, target=line["target"], metadata={"seed": line["seed"]})


@solver
def answer_once():
    async def solve(state, generate):
        return await generate(state, seed=state.metadata["seed"])

    return solve


@task
def questions(file="questions.jsonl"):
    return Task(dataset=json_dataset(file, read_sample), solver=answer_once(), scorer=exact())
