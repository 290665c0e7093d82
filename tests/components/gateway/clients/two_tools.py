"""One problem, 6 times 7 and what stands in note.txt, by agents as their packages' documentation shows them.

`two_tools.py NAME URL...` solves it once for each address of an endpoint, in the agents' own Python; what else it knows of
Troupe is the key in its environment.
"""

import asyncio
import json
import os
import sys
from typing import Any

SYSTEM, PROBLEM = "You are careful.", "Compute 6*7, read note.txt and report both."


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: the expression
    """
    return str(eval(expression, {}, {}))


def read_file(path: str) -> str:
    """Read a text file.

    Args:
        path: its name
    """
    with open(path) as file:
        return file.read()


TOOLS = (calculator, read_file)
PARAMETERS = {
    tool.__name__: {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    for tool, name in ((calculator, "expression"), (read_file, "path"))
}
FUNCTIONS = [{"type": "function", "function": {"name": n, "parameters": p}} for n, p in PARAMETERS.items()]


def call(name: str, arguments: dict[str, str]) -> str:
    return {tool.__name__: tool for tool in TOOLS}[name](**arguments)


def read_endpoint(url_field: str) -> dict[str, str]:
    """For packages that want to be told."""
    return {url_field: os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}


def answer_calls(messages: list[Any], said: Any) -> None:
    messages.append(said)
    for each in said.tool_calls:
        result = call(each.function.name, json.loads(each.function.arguments))
        messages.append({"role": "tool", "tool_call_id": each.id, "content": result})


def ask_chat(stream: bool = False) -> Any:
    import openai

    client = openai.OpenAI()
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROBLEM}]
    while True:
        form: Any = {"model": "main", "messages": messages, "tools": FUNCTIONS}
        if stream:
            with client.chat.completions.stream(**form) as events:
                said = events.get_final_completion().choices[0].message
        else:
            said = client.chat.completions.create(**form).choices[0].message
        if not said.tool_calls:
            return said.content
        answer_calls(messages, said)


def ask_responses(stream: bool = False) -> Any:
    import openai

    client = openai.OpenAI()
    tools = [{"type": "function", "name": n, "parameters": p} for n, p in PARAMETERS.items()]
    items: list[Any] = [{"role": "user", "content": PROBLEM}]
    while True:
        form: Any = {"model": "main", "instructions": SYSTEM, "input": items, "tools": tools}
        if stream:
            with client.responses.stream(**form) as events:
                said = events.get_final_response()
        else:
            said = client.responses.create(**form)
        calls = [item for item in said.output if item.type == "function_call"]
        if not calls:
            return said.output_text
        items += said.output
        for each in calls:
            result = call(each.name, json.loads(each.arguments))
            items.append({"type": "function_call_output", "call_id": each.call_id, "output": result})


def ask_messages(stream: bool = False) -> Any:
    import anthropic

    client = anthropic.Anthropic()
    tools = [{"name": n, "description": "", "input_schema": p} for n, p in PARAMETERS.items()]
    messages: list[Any] = [{"role": "user", "content": PROBLEM}]
    while True:
        form: Any = {"model": "main", "max_tokens": 500, "system": SYSTEM, "messages": messages, "tools": tools}
        if stream:
            with client.messages.stream(**form) as events:
                said = events.get_final_message()
        else:
            said = client.messages.create(**form)
        messages.append({"role": "assistant", "content": said.content})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": call(block.name, block.input)}
            for block in said.content
            if block.type == "tool_use"
        ]
        if not results:
            return said.content[0].text
        messages.append({"role": "user", "content": results})


def run_anthropic_runner() -> Any:
    import anthropic

    messages: Any = [{"role": "user", "content": PROBLEM}]
    tools = [anthropic.beta_tool(tool) for tool in TOOLS]
    runner = anthropic.Anthropic().beta.messages.tool_runner(
        model="main", max_tokens=500, tools=tools, messages=messages
    )
    return runner.until_done().content[0].text


def run_openai_agents(api: str, stream: bool = False) -> Any:
    import agents
    import openai

    agents.set_tracing_disabled(True)
    make = agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
    tools = [agents.function_tool(tool) for tool in TOOLS]
    model = make(model="main", openai_client=openai.AsyncOpenAI())
    agent = agents.Agent(name="a", instructions=SYSTEM, model=model, tools=tools)

    async def run_streamed() -> Any:
        result = agents.Runner.run_streamed(agent, PROBLEM, max_turns=100)
        async for _ in result.stream_events():
            pass
        return result.final_output

    return asyncio.run(run_streamed()) if stream else agents.Runner.run_sync(agent, PROBLEM, max_turns=100).final_output


def run_pydantic_ai(api: str, stream: bool = False) -> Any:
    import pydantic_ai
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

    model = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel, "messages": AnthropicModel}[api]("main")
    agent = pydantic_ai.Agent(model, instructions=SYSTEM, tools=list(TOOLS))

    async def run_streamed() -> Any:
        async with agent.run_stream(PROBLEM) as result:
            return await result.get_output()

    return asyncio.run(run_streamed()) if stream else agent.run_sync(PROBLEM).output


def run_langgraph(api: str, stream: bool = False) -> Any:
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    model = ChatOpenAI(model="main", streaming=stream, use_responses_api=api == "responses")
    agent = create_react_agent(model, list(TOOLS), prompt=SYSTEM)
    return agent.invoke({"messages": [("user", PROBLEM)]})["messages"][-1].text


def run_smolagents(kind: str, stream: bool = False) -> Any:
    import smolagents

    model = smolagents.OpenAIModel("main", **read_endpoint("api_base"))
    make = smolagents.CodeAgent if kind == "code" else smolagents.ToolCallingAgent
    tools = [smolagents.tool(tool) for tool in TOOLS]
    return make(tools=tools, model=model, verbosity_level=0, stream_outputs=stream).run(PROBLEM)


def run_autogen() -> Any:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    able = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}
    client = OpenAIChatCompletionClient(model="main", model_info={**able, "family": "unknown"})
    agent = AssistantAgent("a", client, tools=list(TOOLS), system_message=SYSTEM, max_tool_iterations=5)
    return asyncio.run(agent.run(task=PROBLEM)).messages[-1].content


def run_crewai() -> Any:
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool

    llm = LLM(model="openai/main", **read_endpoint("base_url"))
    tools = [tool(each.__name__)(each) for each in TOOLS]
    agent = Agent(role="worker", goal="report", backstory=SYSTEM, tools=tools, llm=llm)
    return Crew(agents=[agent], tasks=[Task(description=PROBLEM, expected_output="both", agent=agent)]).kickoff()


def ask_litellm(stream: bool = False) -> Any:
    import litellm

    endpoint = read_endpoint("api_base")
    messages: list[Any] = [{"role": "user", "content": PROBLEM}]
    while True:
        said = litellm.completion("openai/main", messages, tools=FUNCTIONS, stream=stream, **endpoint)
        said = (litellm.stream_chunk_builder(list(said)) if stream else said).choices[0].message
        if not said.tool_calls:
            return said.content
        answer_calls(messages, said)


def run_mini_swe_agent() -> Any:
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_model import LitellmModel

    model = LitellmModel(
        model_name="openai/main", cost_tracking="ignore_errors", model_kwargs=read_endpoint("api_base")
    )
    agent = DefaultAgent(model, LocalEnvironment(), system_template=SYSTEM, instance_template="{{task}}", step_limit=8)
    return agent.run(PROBLEM)


RUNS = {
    "openai chat": ask_chat,
    "openai chat, stream": lambda: ask_chat(True),
    "openai responses": ask_responses,
    "openai responses, stream": lambda: ask_responses(True),
    "anthropic": ask_messages,
    "anthropic, stream": lambda: ask_messages(True),
    "anthropic tool runner": run_anthropic_runner,
    "openai-agents": lambda: run_openai_agents("responses"),
    "openai-agents, stream": lambda: run_openai_agents("responses", True),
    "openai-agents chat": lambda: run_openai_agents("chat"),
    "openai-agents chat, stream": lambda: run_openai_agents("chat", True),
    "pydantic-ai chat": lambda: run_pydantic_ai("chat"),
    "pydantic-ai chat, stream": lambda: run_pydantic_ai("chat", True),
    "pydantic-ai responses": lambda: run_pydantic_ai("responses"),
    "pydantic-ai messages": lambda: run_pydantic_ai("messages"),
    "langgraph": lambda: run_langgraph("chat"),
    "langgraph, stream": lambda: run_langgraph("chat", True),
    "langgraph responses": lambda: run_langgraph("responses"),
    "smolagents tools": lambda: run_smolagents("tools"),
    "smolagents tools, stream": lambda: run_smolagents("tools", True),
    "smolagents code": lambda: run_smolagents("code"),
    "autogen": run_autogen,
    "crewai": run_crewai,
    "litellm": ask_litellm,
    "litellm, stream": lambda: ask_litellm(True),
    "mini-swe-agent": run_mini_swe_agent,
}
if __name__ == "__main__":
    for url in sys.argv[2:]:
        os.environ["OPENAI_BASE_URL"], os.environ["ANTHROPIC_BASE_URL"] = f"{url}/v1", url
        try:
            answer = str(RUNS[sys.argv[1]]())
        except Exception as error:  # what a client fails with is what is asked
            answer = f"{type(error).__name__}: {error}"
        print("\nANSWER", json.dumps(answer[-300:]), flush=True)
