"""Planning, games and tool worlds with a state; `env_name` of the configuration chooses one."""

from flows.api.petting.multi_agent_env.team_env import TeamEnv


class StatefulEnv(TeamEnv):
    """Blocksworld, eight queens, a shop, a calendar, a tree of files, or one of the games."""

    domain = "stateful"
