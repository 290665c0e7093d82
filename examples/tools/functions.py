"""A writer writes a function, tests run it in the sandbox, and a reviewer who sees the results keeps or mends it."""

from troupe import Execution, Step, ToolEnvironment


class Functions(ToolEnvironment):
    roles = ("writer", "reviewer")
    max_answer_characters = 12

    def draw(self, options, rng):
        return {"a": rng.randrange(2, 100), "b": rng.randrange(100), "code": "", "printed": ""}

    def observe(self, state, agent):
        wanted = f"{state['a']} times x plus {state['b']}"
        return wanted if agent == "writer" else f"{wanted}: {state['code']} gives {state['printed']}"

    def tool_calls(self, state, agent, answer):
        code = state["code"] if answer == "ok" else answer
        return [Execution(program=f"f = lambda x: {code}\nprint(f(1), f(10))")]

    def step(self, state, agent, answer, tools):
        (tests,) = self.tool_calls(state, agent, answer)
        result = tools.run(tests)
        printed = result.stdout.strip()[:12] if result.status == "ok" else result.status
        passed = printed == f"{state['a'] + state['b']} {10 * state['a'] + state['b']}"
        after = {**state, "code": state["code"] if answer == "ok" else answer, "printed": printed}
        return Step(state=after, solved=passed, done=passed and agent == "reviewer")

    def expert(self, state, agent):
        return "ok" if agent == "reviewer" and self.is_right(state) else f"{state['a']}*x+{state['b']}"

    def is_right(self, state):
        return state["printed"] == f"{state['a'] + state['b']} {10 * state['a'] + state['b']}"
