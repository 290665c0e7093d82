"""Questions that need several passages: a searcher asks a retriever, a reasoner answers."""

from flows.api.petting.multi_agent_env.team_env import TeamEnv


class SearchEnv(TeamEnv):
    """The search environment, over its local index."""

    domain = "search"
