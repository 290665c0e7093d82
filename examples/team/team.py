"""Three readers see a number and each write it down; a chair who does not see it names it from their three notes."""

from troupe import Environment, Step

READERS = ("ann", "bob", "cem")


class Vote(Environment):
    roles = (*READERS, "chair")
    turn_order = (READERS, "chair")
    weights = {"local.copied": 0.5}

    def draw(self, options, rng):
        return {"secret": f"{rng.randrange(10_000):04}", "notes": []}

    def observe(self, state, agent):
        return f"secret {state['secret']}" if agent in READERS else f"notes {' '.join(state['notes'])}"

    def step(self, state, agent, answer):
        if agent == "chair":
            return Step(state=state, solved=answer == state["secret"])
        state["notes"].append(answer)
        right = sum(answer[place : place + 1] == digit for place, digit in enumerate(state["secret"]))
        return Step(state=state, local={"copied": right / max(4, len(answer))})

    def expert(self, state, agent):
        return state["secret"]
