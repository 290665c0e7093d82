"""Mathematics: a tool agent's program is run, and a reasoner gives the answer."""

from flows.api.petting.multi_agent_env.team_env import TeamEnv


class MathEnv(TeamEnv):
    """The math environment. Its programs run in the sandbox."""

    domain = "math"
