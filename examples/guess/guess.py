"""A scout sees a number, a caller names it from the scout's note."""

from troupe import Environment, Step


class Guess(Environment):
    roles = ("scout", "caller")

    def draw(self, options, rng):
        return {"secret": rng.randrange(10_000), "note": ""}

    def observe(self, state, agent):
        return f"secret {state['secret']}" if agent == "scout" else f"note {state['note']}"

    def step(self, state, agent, answer):
        if agent == "scout":
            return Step(state={**state, "note": answer})
        return Step(state=state, solved=answer == str(state["secret"]))

    def expert(self, state, agent):
        return str(state["secret"]) if agent == "scout" else state["note"]
