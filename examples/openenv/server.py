"""An environment of OpenEnv: guess a number from 1 to 20, which the seed decides.

    uv run --with openenv server.py --port 8000
"""

import argparse
import random

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from pydantic import Field

HIGHEST = 20
GUESSES = 6


class GuessAction(Action):
    """Guess the number, and hear whether it is higher or lower."""

    number: int = Field(description=f"a whole number from 1 to {HIGHEST}")


class GuessObservation(Observation):
    said: str


class GuessEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State()
        self._secret = 0

    def reset(self, seed=None, episode_id=None, **kwargs) -> GuessObservation:
        self._secret = random.Random(seed).randint(1, HIGHEST)
        self._state = State(episode_id=episode_id)
        return GuessObservation(said=f"I think of a number from 1 to {HIGHEST}. You have {GUESSES} guesses.")

    def step(self, action: GuessAction, timeout_s=None, **kwargs) -> GuessObservation:
        self._state.step_count += 1
        if action.number == self._secret:
            return GuessObservation(said="Right.", reward=1.0, done=True)
        said = "Higher." if action.number < self._secret else "Lower."
        # A near guess is worth a little, so that there is something to learn from before the first success.
        near = 0.05 * (1 - abs(action.number - self._secret) / HIGHEST)
        return GuessObservation(said=said, reward=near, done=self._state.step_count >= GUESSES)

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sessions", type=int, default=64)
    args = parser.parse_args()
    app = create_fastapi_app(GuessEnvironment, GuessAction, GuessObservation, max_concurrent_envs=args.sessions)
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning")
