"""AG2: an agent with tools of functions, as in its README."""

import asyncio

from ag2 import Agent
from ag2.config import OpenAIConfig
from mail import QUESTION, SYSTEM, read_email, search_inbox

agent = Agent("mail", SYSTEM, config=OpenAIConfig(model="gpt-5"), tools=[search_inbox, read_email])

print(asyncio.run(agent.ask(QUESTION)).body)
