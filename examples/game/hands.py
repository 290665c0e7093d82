"""Rock, paper, scissors with a broken hand: whoever plays it loses to both others."""

from troupe import Environment, JointStep

BEATS = {"rock": "scissors", "paper": "rock", "scissors": "paper"}


class Hands(Environment):
    roles = ("ann", "bob")

    def draw(self, options, rng):
        return {"broken": rng.choice(tuple(BEATS)), "game": rng.getrandbits(32)}

    def observe(self, state, agent):
        return f"{state['broken']} is broken"

    def choices(self, state, agent):
        return tuple(BEATS)

    def step_together(self, state, answers):
        ann, bob = (None if answers[role] == state["broken"] else answers[role] for role in self.roles)
        won = 0 if ann == bob else 1 if bob is None or (ann and BEATS[ann] == bob) else -1
        return JointStep(state=state, done=True, payoffs={"ann": won, "bob": -won})
