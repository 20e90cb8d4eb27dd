/** The examples whose own code plays: who does it right earns 1, who does not earns less. */
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { LanguageModelV3, LanguageModelV3Content } from "@ai-sdk/provider";
import { expect, it } from "vitest";
import type { AgentContext } from "../../src/core/task/agent.js";
import type { AnyTask, Reward, Scenario } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadTask } from "../../src/scenarios/load.js";

/** A model that says what a script says. */
function scripted(script: readonly LanguageModelV3Content[][]): LanguageModelV3 {
  let turn = 0;
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: undefined },
    outputTokens: { total: 1, text: undefined, reasoning: undefined },
  };
  return {
    specificationVersion: "v3",
    provider: "script",
    modelId: "script",
    supportedUrls: {},
    doGenerate: async () => {
      const content = script[turn++] ?? [];
      const calls = content.some(({ type }) => type === "tool-call");
      return { content, finishReason: { unified: calls ? "tool-calls" : "stop", raw: undefined }, usage, warnings: [] };
    },
    doStream: () => {
      throw new Error("not streamed");
    },
  };
}

const call = (toolName: string, input: object): LanguageModelV3Content => ({
  type: "tool-call",
  toolCallId: `${toolName}-1`,
  toolName,
  input: JSON.stringify(input),
});
const text = (said: string): LanguageModelV3Content => ({ type: "text", text: said });

it("ai-sdk-agent.ts pays for the right temperature, and for the tools that lead to it", async () => {
  const task = await loadTask(join(packageRoot, "examples/ai-sdk-agent.ts"));
  const scenarios = (await task.scenarios({ seed: 1 })) as (Scenario & { location: string; fahrenheit: number })[];
  expect(new Set(scenarios.map(({ split }) => split))).toEqual(new Set(["train", "test"]));
  for (const scenario of scenarios) {
    const { location, fahrenheit } = scenario;
    const celsius = Math.round((fahrenheit - 32) * (5 / 9));
    const play = async (...script: LanguageModelV3Content[][]) => {
      const context = { scenario, model: scripted(script), signal: new AbortController().signal };
      return (await task.rollout?.(context as unknown as AgentContext)) as Reward;
    };
    const asked = [call("weather", { location })];
    const converted = [call("convertFahrenheitToCelsius", { temperature: fahrenheit })];
    expect(await play(asked, converted, [text(`It is ${celsius} °C.`)])).toMatchObject({ reward: 1, success: true });
    expect(await play(asked, converted, [text(`It is ${celsius + 1} °C.`)])).toMatchObject({
      reward: 0.5,
      success: false,
    });
    expect(await play(asked, [text(`It is ${celsius} °C.`)])).toMatchObject({ reward: 0.3, success: false });
    expect(await play([text(`It is ${celsius} °C.`)])).toMatchObject({ reward: 0, success: false });
    expect(await play([])).toMatchObject({ reward: 0, success: false });
  }
});

it("simulated-customer.ts pays for the guest's order alone, whom the base model plays", async () => {
  const task = await loadTask(join(packageRoot, "examples/simulated-customer.ts"));
  const scenarios = (await task.scenarios({ seed: 1 })) as (Scenario & { drink: string; size: string })[];
  const [scenario] = scenarios;
  const { drink, size } = scenario as NonNullable<typeof scenario>;
  const orders = (split: string) =>
    new Set(scenarios.filter((one) => one.split === split).map((one) => `${one.size} ${one.drink}`));
  expect([...orders("test")].filter((order) => orders("train").has(order))).toEqual([]);
  expect(orders("test").size).toBeGreaterThan(1);
  const play = (said: readonly string[], answers: readonly string[] = []) => {
    const [model, guest] = [said, answers].map((texts) => scripted(texts.map((one) => [text(one)])));
    const context = { scenario, model, base: { model: guest }, signal: new AbortController().signal };
    return task.rollout?.(context as unknown as AgentContext);
  };
  const asked = ["Which drink?", "Which size?"];
  expect(await play([...asked, `ORDER: ${size} ${drink}`], [drink, size])).toBe(1);
  const other = drink === "tea" ? "cocoa" : "tea";
  expect(await play([`ORDER: ${size} ${other}`])).toBe(0.25);
  expect(await play([`ORDER: ${size} ${drink} ${other}`])).toBe(0);
  expect(await play(Array(9).fill("Which?"), Array(9).fill("Guess."))).toBe(0);
});

it("python-agent plays over HTTP, and is paid for what it looked up and summed", async () => {
  const task: AnyTask = await loadTask(join(packageRoot, "examples/python-agent/task.ts"));
  const scenarios = (await task.scenarios({ seed: 1 })) as (Scenario & {
    stock: Record<string, number>;
    asked: string[];
  })[];
  const scenario = scenarios[0] as (typeof scenarios)[number];
  const look = (fruit: string, index: number) => ({
    id: String(index),
    type: "function",
    function: { name: "look_up", arguments: JSON.stringify({ fruit }) },
  });
  const play = async (answerOf: (known: readonly number[]) => string, fruits: readonly string[]) => {
    const server = createServer(async (request, response) => {
      const body = JSON.parse(Buffer.concat(await request.toArray()).toString("utf8"));
      expect(request.headers.authorization).toBe("Bearer a-key");
      const results = body.messages.filter(({ role }: { role: string }) => role === "tool");
      const known = results.map(({ content }: { content: string }) => JSON.parse(content).pieces);
      const message =
        results.length < fruits.length
          ? { role: "assistant", content: null, tool_calls: fruits.map(look) }
          : { role: "assistant", content: answerOf(known) };
      response.setHeader("content-type", "application/json").end(JSON.stringify({ choices: [{ message }] }));
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    const env = { ...process.env, OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: "a-key" };
    const run = async (command: string, args: readonly string[] = [], { input = "" } = {}) => {
      const child = spawn(command, args, { env });
      child.stdin.end(input);
      const [stdout, stderr] = await Promise.all([child.stdout.toArray(), child.stderr.toArray()]);
      return { stdout: Buffer.concat(stdout).toString("utf8"), stderr: Buffer.concat(stderr).toString("utf8") };
    };
    const context = { scenario, env: { python: "python3" }, run };
    return (await Promise.resolve(task.rollout?.(context as unknown as AgentContext)).finally(() =>
      server.close(),
    )) as Reward;
  };
  const sum = (known: readonly number[]) => `There are ${known.reduce((total, one) => total + one, 0)}.`;
  expect(await play(sum, scenario.asked)).toMatchObject({ reward: 1, success: true });
  expect(await play(() => "There are 0.", scenario.asked)).toMatchObject({ reward: 0.4, success: false });
  expect(await play(sum, scenario.asked.slice(1))).toMatchObject({ reward: 0.2, success: false });
  const total = scenario.asked.reduce((all, name) => all + (scenario.stock[name] ?? 0), 0);
  expect(await play(() => String(total), [])).toMatchObject({ reward: 0, success: false });
});
