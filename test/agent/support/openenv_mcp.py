"""An environment of OpenEnv with the tools of an MCP server: `python openenv_mcp.py PORT`."""

import sys

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server import State, create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation


class ShopEnvironment(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        mcp = FastMCP("shop")

        @mcp.tool
        def stock(good: str) -> int:
            """How many of a good there are."""
            return {"apples": 3, "pears": 4}[good]

        @mcp.tool
        def answer(number: int) -> str:
            """Gives the answer."""
            return "thank you"

        super().__init__(mcp)
        self._state = State()

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation(metadata={"question": "How many apples and pears are there?"})

    def _step_impl(self, action, timeout_s=None, **kwargs):
        raise ValueError("there are no other actions")

    def _rewarded(self, action, observation):
        if isinstance(action, CallToolAction) and action.tool_name == "answer":
            observation.done = True
            observation.reward = 1.0 if action.arguments["number"] == 7 else 0.0
        return observation

    def step(self, action, timeout_s=None, **kwargs):
        return self._rewarded(action, super().step(action, timeout_s=timeout_s, **kwargs))

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self._rewarded(action, await super().step_async(action, timeout_s=timeout_s, **kwargs))

    @property
    def state(self):
        return self._state


app = create_fastapi_app(ShopEnvironment, CallToolAction, CallToolObservation, max_concurrent_envs=4)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
