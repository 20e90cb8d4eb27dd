/** LangGraph: its quickstart, a graph of a model and its tools. */
import { SystemMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { question, read, search, system } from "./mail.mjs";

const tools = [search, read].map(({ name, description, schema, run }) => tool(run, { name, description, schema }));
const model = new ChatOpenAI({ model: "gpt-5" }).bindTools(tools);

const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", async ({ messages }) => ({
    messages: [await model.invoke([new SystemMessage(system), ...messages])],
  }))
  .addNode("tools", new ToolNode(tools))
  .addEdge("__start__", "model")
  .addConditionalEdges("model", toolsCondition)
  .addEdge("tools", "model")
  .compile();

const result = await graph.invoke({ messages: [{ role: "user", content: question }] });
console.log(result.messages.at(-1).content);
