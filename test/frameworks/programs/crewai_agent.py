"""CrewAI: an agent with tools of functions, as in "Agents" of its documentation."""

from crewai import Agent
from crewai.tools import tool
from mail import QUESTION, SYSTEM, read_email, search_inbox

agent = Agent(
    role="Mail",
    goal="Answer questions about mails",
    backstory=SYSTEM,
    llm="openai/gpt-5",
    tools=[tool(search_inbox), tool(read_email)],
)

print(agent.kickoff(QUESTION).raw)
