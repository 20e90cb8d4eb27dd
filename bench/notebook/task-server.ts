/**
 * The email task over HTTP on loopback, for a trainer that is not hone: its scenarios, its tools and its reward, each the
 * code that hone's own rollouts run.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { type CallRecord, ToolError } from "../../src/core/task/task.js";
import { messageOf } from "../../src/core/util/errors.js";
import { emailTask } from "../../src/email/email-task.js";
import type { EmailScenario } from "../../src/email/scenario.js";
import { emailTools } from "../../src/email/tools.js";

const callSchema = z.object({ scenario: z.string(), name: z.string(), arguments: z.record(z.string(), z.unknown()) });

/** The calls of a finished rollout. */
const rolloutSchema = z.object({
  scenario: z.string(),
  maxTurns: z.number(),
  calls: z.array(z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()), result: z.unknown() })),
});

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString("utf8"));
}

export interface TaskServer {
  readonly url: string;
  close(): void;
}

/** `POST /call` runs a tool and answers with its result; `POST /reward` with `{ reward, success }`. */
export async function startTaskServer(db: string): Promise<TaskServer> {
  const options = emailTask.options.parse({ db: db });
  const env = await emailTask.open(options);
  const scenarios = new Map<string, EmailScenario>();
  for (const scenario of await emailTask.scenarios(options)) scenarios.set(scenario.id, scenario);
  const scenarioOf = (id: string): EmailScenario => {
    const scenario = scenarios.get(id);
    if (!scenario) throw new Error(`there is no scenario ${id}`);
    return scenario;
  };

  async function call(body: unknown): Promise<unknown> {
    const { scenario, name, arguments: given } = callSchema.parse(body);
    const tool = emailTools.find((one) => one.name === name);
    if (!tool) return { error: `there is no tool ${name}` };
    const parsed = tool.parameters.safeParse(given);
    if (!parsed.success) return { error: parsed.error.issues.map(({ message }) => message).join("; ") };
    try {
      return await tool.execute(parsed.data as never, { scenario: scenarioOf(scenario), env } as never);
    } catch (error) {
      if (error instanceof ToolError) return { error: error.message };
      throw error;
    }
  }

  async function reward(body: unknown): Promise<unknown> {
    const { scenario, maxTurns, calls: made } = rolloutSchema.parse(body);
    const calls: CallRecord[] = made.map((one, index) => {
      const failed = typeof one.result === "object" && one.result !== null && "error" in one.result;
      return { turn: index + 1, ...one, outcome: failed ? "tool_error" : "ok", result: one.result ?? null };
    });
    const answer = calls.findLast(({ name, outcome }) => name === "return_final_answer" && outcome === "ok");
    const finished = {
      messages: [],
      calls,
      answer: answer?.arguments,
      maxTurns,
      end: answer ? "answered" : "no_call",
      turns: calls.length,
    } as const;
    const { reward: value, success } = await emailTask.reward(finished as never, scenarioOf(scenario), env);
    return { reward: value, success };
  }

  const server = createServer(async (request, response) => {
    try {
      const body = await bodyOf(request);
      response.end(JSON.stringify(await (request.url === "/call" ? call(body) : reward(body))));
    } catch (error) {
      response.statusCode = 400;
      response.end(JSON.stringify({ error: messageOf(error) }));
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
      void emailTask.close?.(env);
    },
  };
}
