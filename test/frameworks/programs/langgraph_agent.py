"""LangGraph: its quickstart, a graph of a model and its tools."""

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from mail import QUESTION, SYSTEM, read_email, search_inbox

tools = [tool(search_inbox), tool(read_email)]
model = ChatOpenAI(model="gpt-5").bind_tools(tools)


def call_model(state: MessagesState):
    return {"messages": [model.invoke([SystemMessage(SYSTEM), *state["messages"]])]}


graph = StateGraph(MessagesState)
graph.add_node("model", call_model)
graph.add_node("tools", ToolNode(tools))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")

result = graph.compile().invoke({"messages": [HumanMessage(QUESTION)]})
print(result["messages"][-1].content)
