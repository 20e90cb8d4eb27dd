"""OpenAI Agents: "Functions" of its documentation."""

from agents import Agent, Runner, function_tool
from mail import QUESTION, SYSTEM, read_email, search_inbox

agent = Agent(name="Mail", instructions=SYSTEM, tools=[function_tool(search_inbox), function_tool(read_email)])

result = Runner.run_sync(agent, QUESTION)
print(result.final_output)
