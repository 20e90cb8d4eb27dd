"""Strands: an agent with tools of functions, as in its quickstart."""

from mail import QUESTION, SYSTEM, read_email, search_inbox
from strands import Agent, tool
from strands.models.openai import OpenAIModel

agent = Agent(
    model=OpenAIModel(model_id="gpt-5"),
    tools=[tool(search_inbox), tool(read_email)],
    system_prompt=SYSTEM,
    callback_handler=None,
)

print(agent(QUESTION))
