"""Google ADK: an agent with tools of functions, as in its README; LiteLLM asks models of others than Google."""

import asyncio

from google.adk import Agent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from mail import QUESTION, SYSTEM, read_email, search_inbox

agent = Agent(
    name="mail",
    model=LiteLlm(model="openai/gpt-5"),
    instruction=SYSTEM,
    tools=[search_inbox, read_email],
)

asyncio.run(InMemoryRunner(agent=agent).run_debug(QUESTION))
