"""A clerk drafts the answer to a customer, an editor who sees only the draft sends it. Half of the experts' drafts are curt."""

from troupe import Environment, Step

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


class Shop(Environment):
    roles = ("clerk", "editor")

    def draw(self, options, rng):
        return {"order": str(rng.randrange(100, 1000)), "day": rng.choice(DAYS)}

    def start(self, problem):
        return {**problem, "draft": ""}

    def observe(self, state, agent):
        return f"order {state['order']} {state['day']}" if agent == "clerk" else f"draft {state['draft']}"

    def step(self, state, agent, answer):
        if agent == "clerk":
            return Step(state={**state, "draft": answer})
        return Step(state=state, solved=state["order"] in answer and state["day"] in answer)

    def expert(self, state, agent):
        if agent == "editor":
            return state["draft"]
        order, day = state["order"], state["day"]
        return f"{order} {day}" if int(order) % 2 else f"Your order {order} comes {day}."
