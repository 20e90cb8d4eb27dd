/** The frameworks, and the programs that play with each. */
import { cpSync, existsSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Installed, PythonPackages } from "./install.js";
import { isThere, type Published, writePublished } from "./published.js";

export interface Framework {
  readonly name: string;
  /** A file of programs/, in the form of the framework's documentation, with the tools of the mail task; or its own example. */
  readonly program: string | Published;
  /** Of a program in Python: the packages that it has. Default "python". */
  readonly python?: PythonPackages;
  /** It sends turns back otherwise than they were sampled: a rollout is several sequences. */
  readonly rewrites?: true;
}

/** Where programs are whose packages do not go with those of the others. */
const AI_6 = "ai-6";

const aiSdk = [
  ["__PROVIDER_IMPORT__;", 'import { openai } from "@ai-sdk/openai";'],
  ["__MODEL__", 'openai("tiny")'],
] as const;

const mastra = "node_modules/@mastra/core/dist/docs/references";
const site = "python/lib/python*/site-packages";
const siteOpenAi2 = "python-openai-2/lib/python*/site-packages";

/** As published; the edits are the model and what the language of the file asks for. */
const published: readonly (Framework & { readonly program: Published })[] = [
  {
    name: "AI SDK, ToolLoopAgent, as published",
    program: {
      start: "agent.mjs",
      files: [
        {
          as: "agent.mjs",
          from: "node_modules/ai/docs/03-agents/01-overview.mdx",
          block: "weatherAgent",
          edits: aiSdk,
        },
      ],
    },
  },
  {
    name: "AI SDK, generateText, as published",
    program: {
      start: "generate.mjs",
      files: [
        {
          as: "generate.mjs",
          from: "node_modules/ai/docs/03-ai-sdk-core/15-tools-and-tool-calling.mdx",
          block: "stopWhen: isStepCount(5)",
          edits: aiSdk,
        },
      ],
    },
  },
  {
    name: "AI SDK, streamText, as published",
    program: {
      start: "stream.mjs",
      files: [
        {
          as: "stream.mjs",
          from: "node_modules/ai/docs/03-ai-sdk-core/05-generating-text.mdx",
          block: "of result.textStream",
          edits: aiSdk,
        },
      ],
    },
  },
  {
    name: "Mastra, as published",
    program: {
      start: "run.mjs",
      files: [
        // The oldest Node that hone runs on imports no TypeScript: the files are called .mjs.
        {
          as: "src/mastra/tools/weather-tool.mjs",
          from: `${mastra}/docs-agents-tools.md`,
          block: "return { location, temperatureCelsius: 21, conditions: 'sunny' }",
        },
        {
          as: "src/mastra/agents/weather-agent.mjs",
          from: `${mastra}/docs-agents-tools.md`,
          block: "id: 'weather-agent'",
          edits: [["tools/weather-tool'", "tools/weather-tool.mjs'"]],
        },
        {
          as: "src/mastra/index.mjs",
          from: `${mastra}/docs-agents-overview.md`,
          block: "agents: { weatherAgent }",
          edits: [["weather-agent.ts", "weather-agent.mjs"]],
        },
        {
          as: "run.mjs",
          from: `${mastra}/docs-agents-overview.md`,
          block: "// run.mjs",
          edits: [["index.ts", "index.mjs"]],
        },
      ],
    },
  },
  {
    name: "LangChain JS, as published",
    program: {
      start: "agent.mjs",
      files: [
        {
          as: "agent.mjs",
          from: "node_modules/langchain/dist/agents/index.d.ts",
          block: "Search for ReAct agents",
          // The example has the option's old name.
          edits: [['llm: "openai:gpt-4o"', 'model: "openai:gpt-4o"']],
        },
      ],
    },
  },
  {
    name: "LangGraph JS, as published",
    program: {
      start: "agent.mjs",
      files: [
        {
          as: "agent.mjs",
          from: "node_modules/@langchain/langgraph/dist/prebuilt/react_agent_executor.d.ts",
          block: "what is the weather in SF?",
        },
      ],
    },
  },
  {
    name: "LangChain for Python, as published",
    program: {
      start: "agent.py",
      files: [{ as: "agent.py", from: `${site}/langchain/agents/factory.py`, block: "check_weather" }],
    },
  },
  {
    name: "OpenAI Agents JS, as published",
    program: {
      start: "agent.mjs",
      files: [{ as: "agent.mjs", from: "node_modules/@openai/agents/README.md", block: "new Agent(" }],
    },
  },
  {
    name: "Anthropic's SDK, as published",
    program: {
      start: "message.mjs",
      files: [{ as: "message.mjs", from: "node_modules/@anthropic-ai/sdk/README.md", block: "messages.create" }],
    },
  },
  {
    name: "OpenAI Agents for Python, as published",
    program: {
      start: "tools.py",
      files: [{ as: "tools.py", from: "sources/openai_agents-*/examples/basic/tools.py" }],
    },
  },
  {
    name: "Anthropic's SDK for Python, as published",
    program: { start: "runner.py", files: [{ as: "runner.py", from: "sources/anthropic-*/examples/tools_runner.py" }] },
  },
  {
    name: "pydantic-ai, as published",
    program: {
      start: "dice.py",
      files: [
        {
          as: "dice.py",
          from: `${site}/pydantic_ai/.agents/skills/building-pydantic-ai-agents/SKILL.md`,
          block: "dice_game_agent",
          edits: [["google:gemini-3-flash-preview", "openai:tiny"]],
        },
      ],
    },
  },
  {
    name: "LangGraph for Python, as published",
    program: {
      start: "react.py",
      files: [{ as: "react.py", from: `${site}/langgraph_prebuilt-*.dist-info/METADATA`, block: "create_react_agent" }],
    },
  },
  {
    name: "Strands, as published",
    program: {
      start: "words.py",
      files: [
        {
          as: "words.py",
          from: `${siteOpenAi2}/strands_agents-*.dist-info/METADATA`,
          block: "def word_count",
          edits: [
            [
              "from strands import Agent, tool",
              "from strands import Agent, tool\nfrom strands.models.openai import OpenAIModel",
            ],
            ["Agent(tools", 'Agent(OpenAIModel(model_id="tiny"), tools'],
          ],
        },
      ],
    },
    python: "python-openai-2",
  },
  {
    name: "Haystack, as published",
    program: {
      start: "tips.py",
      files: [{ as: "tips.py", from: `${siteOpenAi2}/haystack/components/agents/agent.py`, block: "def calculator" }],
    },
    python: "python-openai-2",
  },
  {
    name: "smolagents, CodeAgent, as published",
    program: {
      start: "code.py",
      files: [
        {
          as: "code.py",
          from: `${site}/smolagents-*.dist-info/METADATA`,
          block: "CodeAgent(tools=[WebSearchTool()]",
          edits: [
            ["WebSearchTool, InferenceClientModel", "WebSearchTool, OpenAIModel"],
            ["InferenceClientModel()", 'OpenAIModel("tiny")'],
          ],
        },
      ],
    },
    rewrites: true,
  },
  {
    name: "smolagents, ToolCallingAgent, as published",
    program: {
      start: "any_llm.py",
      files: [
        {
          as: "any_llm.py",
          from: "repositories/smolagents/agent_from_any_llm.py",
          edits: [['chosen_inference = "inference_client"', 'chosen_inference = "openai"']],
        },
      ],
    },
    rewrites: true,
  },
];

/** The AI SDK's in hone's process; every other one is a program of its own. */
export const IN_PROCESS = "ai-sdk.mjs";

export const frameworks: readonly Framework[] = [
  { name: "AI SDK, ToolLoopAgent, in hone's process", program: IN_PROCESS },
  { name: "AI SDK, generateText", program: "ai-sdk-openai.mjs" },
  { name: "AI SDK, streamText, Anthropic's provider", program: "ai-sdk-anthropic.mjs" },
  { name: "Mastra", program: "mastra.mjs" },
  { name: "LangChain JS", program: "langchain.mjs" },
  { name: "LangGraph JS", program: "langgraph.mjs" },
  { name: "OpenAI Agents JS", program: "openai-agents.mjs" },
  { name: "Anthropic's SDK", program: "anthropic.mjs" },
  { name: "OpenAI Agents for Python", program: "openai_agents.py" },
  { name: "pydantic-ai", program: "pydantic_ai_agent.py" },
  { name: "LangChain for Python", program: "langchain_agent.py" },
  { name: "LangGraph for Python", program: "langgraph_agent.py" },
  { name: "smolagents, ToolCallingAgent", program: "smolagents_calling.py", rewrites: true },
  { name: "smolagents, CodeAgent", program: "smolagents_code.py", rewrites: true },
  { name: "Anthropic's SDK for Python", program: "anthropic_agent.py" },
  { name: "Strands", program: "strands_agent.py", python: "python-openai-2" },
  { name: "Haystack", program: "haystack_agent.py", python: "python-openai-2" },
  { name: "LlamaIndex", program: "llamaindex_agent.py", python: "python-openai-2" },
  { name: "CrewAI", program: "crewai_agent.py", python: "python-crewai" },
  { name: "Google ADK", program: "adk_agent.py", python: "python-adk" },
  { name: "AG2", program: "ag2_agent.py" },
  // It sends a call back without the arguments that its tool does not know.
  { name: "VoltAgent", program: `${AI_6}/voltagent.mjs`, rewrites: true },
  { name: "Genkit", program: `${AI_6}/genkit.mjs` },
  ...published,
];

const folderOf = (name: string) => name.replaceAll(/\W+/g, "-");

/** Of a framework's program, below the folder of {@link placePrograms}. */
export const startOf = ({ name, program }: Framework) =>
  typeof program === "string" ? program : `${folderOf(name)}/${program.start}`;

/** Whether its program was placed in the folder. */
export const isPlaced = (framework: Framework, folder: string) => existsSync(join(folder, startOf(framework)));

/** Puts the programs that there are where modules of JavaScript find the installed packages. */
export function placePrograms(installed: Installed, folder: string): void {
  const programs = join(packageRoot, "test/frameworks/programs");
  cpSync(programs, folder, { recursive: true });
  for (const name of ["mail.json", "mail.mjs"]) cpSync(join(programs, name), join(folder, AI_6, name));
  for (const place of ["node_modules", `${AI_6}/node_modules`])
    symlinkSync(join(installed.folder, place), join(folder, place));
  for (const { name, program } of published) {
    if (!isThere(program, installed)) continue;
    mkdirSync(join(folder, folderOf(name)));
    writePublished(program, installed, join(folder, folderOf(name)));
  }
}
