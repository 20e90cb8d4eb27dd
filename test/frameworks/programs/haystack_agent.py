"""Haystack: its `Agent` component with tools of functions, as in its documentation."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from mail import QUESTION, SYSTEM, read_email, search_inbox

agent = Agent(
    chat_generator=OpenAIChatGenerator(model="gpt-5"),
    tools=[tool(search_inbox), tool(read_email)],
    system_prompt=SYSTEM,
)

result = agent.run(messages=[ChatMessage.from_user(QUESTION)])
print(result["last_message"].text)
