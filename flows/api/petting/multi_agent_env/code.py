"""Programs that pass hidden tests: a tester writes tests, a coder the program."""

from flows.api.petting.multi_agent_env.team_env import TeamEnv


class CodeEnv(TeamEnv):
    """The code environment. Its programs run in the sandbox."""

    domain = "code"
