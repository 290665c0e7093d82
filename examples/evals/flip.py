"""One agent reads four digits and writes them backwards."""

from troupe import Environment, Step


class Flip(Environment):
    roles = ("speller",)

    def draw(self, options, rng):
        return {"digits": f"{rng.randrange(10_000):04}"}

    def observe(self, state, agent):
        return state["digits"]

    def step(self, state, agent, answer):
        return Step(state=state, solved=answer == state["digits"][::-1])

    def expert(self, state, agent):
        return state["digits"][::-1]
