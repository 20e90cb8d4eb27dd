/**
 * Results of MCP servers' tools. A model says which to call; only tools that read are called: those that their server marks
 * as read-only, and those that --mcp-allow names.
 */

import { type McpConfig, surveyServers, usablePlan } from "../../agent/mcp/plan.js";
import { McpServers } from "../../agent/mcp/servers.js";
import { type AnyTask, defineTask, type Tool, toolSchema } from "../../core/task/task.js";
import { HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { toJson } from "../../core/util/json.js";
import { drawn } from "../../core/util/random.js";
import { cutText } from "../../core/util/text.js";
import { TimeLimit } from "../../core/util/time-limit.js";
import type { Judge } from "../../judge/judge.js";
import { NoVerdict } from "../../judge/no-verdict.js";
import { count, type Explored, FEWEST_CHARACTERS, PIECE_CHARACTERS, type Piece, type Source } from "../pieces.js";
import { exploringQuestion, type MadeCall, type WantedCall } from "../questions.js";

/** Characters of all results together that the model sees when it says what to call next. */
const SEEN = 40_000;
/** Seconds that a call may take. */
const CALL = 60;

export interface ServersSource {
  readonly config: McpConfig;
  readonly logs: string;
  /** Calls at most. */
  readonly calls: number;
  readonly about: string | undefined;
  readonly judge: Judge;
  readonly log: (line: string) => void;
}

const scenario = { id: "exploration", split: "train", question: "" } as const;
const nothing = defineTask({
  name: "exploration",
  scenarios: () => [scenario],
  prompt: () => [],
  reward: () => ({ reward: 0, success: false, parts: {} }),
}) as AnyTask;

/** Arguments in the order of their names. */
const written = (args: WantedCall["arguments"]) => toJson(Object.fromEntries(Object.entries(args).sort()));

/** What a call is about: its arguments, whatever the tool. */
function entityOf({ tool, arguments: args }: WantedCall): string {
  const values = Object.values(args).map((value) => (typeof value === "string" ? value : toJson(value)));
  return values.length === 0 ? tool : values.sort().join(" ").toLowerCase();
}

/** As the model is shown them: each has the same share of what it sees. */
function shown(made: readonly MadeCall[]): MadeCall[] {
  return made.map(({ result, ...call }) => ({ ...call, result: cutText(result, Math.floor(SEEN / made.length)) }));
}

/** Plans the tools that only read. */
async function readingPlan({ config, logs, log }: ServersSource, signal: AbortSignal) {
  const surveyed = await surveyServers(config, undefined, ".", logs, signal);
  if (!surveyed) throw new UsageError("--mcp: there are no MCP servers");
  const plan = usablePlan(surveyed, log);
  const isMarked = ({ server, toolName }: { server: string; toolName: string }) =>
    surveyed.listed.some(
      (one) => one.server.name === server && one.tools?.some((tool) => tool.name === toolName && tool.readOnly),
    );
  const tools = config.mcpAllow === undefined ? plan.tools.filter(isMarked) : plan.tools;
  const left = plan.tools.filter((tool) => !tools.includes(tool)).map(({ name }) => name);
  if (left.length > 0) {
    log(
      `not called, since no server says that they only read: ${left.join(", ")}; --mcp-allow names tools that may be called`,
    );
  }
  if (tools.length === 0)
    throw new HoneError("no MCP server marks a tool as read-only; name those that only read with --mcp-allow");
  return { ...plan, tools };
}

export function serversSource(settings: ServersSource): Source {
  return {
    kind: "mcp",
    name: settings.config.mcp as string,
    unit: "results",
    async explore(most, seed, signal): Promise<Explored> {
      const plan = await readingPlan(settings, signal);
      const servers = new McpServers(plan, nothing);
      try {
        const begun = await servers.begin("exploration", scenario);
        try {
          return await explore(begun.task.tools, settings, { most, seed, signal });
        } finally {
          begun.end();
        }
      } finally {
        await servers.close();
      }
    },
  };
}

async function explore(
  tools: readonly Tool[],
  { judge, about, calls }: ServersSource,
  { most, seed, signal }: { most: number; seed: number; signal: AbortSignal },
): Promise<Explored> {
  const skipped: Record<string, number> = {};
  const schemas = tools.map((tool) => toolSchema(tool));
  const made = new Map<string, MadeCall>();
  const pieces: Piece[] = [];
  while (made.size < calls) {
    const asked = judge.ask(exploringQuestion(schemas, shown([...made.values()]), about), signal);
    const value = await asked.then(
      (verdict) => verdict.value,
      (error: unknown) => {
        if (!(error instanceof NoVerdict)) throw error;
        if (pieces.length > 0) return [];
        throw new HoneError(`the model gives no list of calls to explore with: ${error.message}; take a larger one`);
      },
    );
    const fresh = value.filter((call) => !made.has(`${call.tool} ${written(call.arguments)}`));
    if (fresh.length === 0) break;
    for (const call of fresh.slice(0, calls - made.size)) {
      const id = `${call.tool} ${written(call.arguments)}`;
      const outcome = await callTool(tools, call, signal);
      made.set(id, { ...call, result: outcome.text });
      if (outcome.failed) count(skipped, "call_failed");
      else if (outcome.text.length < FEWEST_CHARACTERS) count(skipped, "too_short");
      else {
        const text = cutText(outcome.text, PIECE_CHARACTERS);
        pieces.push({ id, title: id, text, entity: entityOf(call), known: "", fields: {} });
      }
    }
  }
  return { pieces: drawn(pieces, ({ id }) => id, "piece", seed).slice(0, most), skipped };
}

/** @throws HoneError when the server itself fails, or the work is interrupted */
async function callTool(
  tools: readonly Tool[],
  { tool: name, arguments: args }: WantedCall,
  signal: AbortSignal,
): Promise<{ text: string; failed: boolean }> {
  const tool = tools.find((one) => one.name === name);
  if (!tool) return { text: `there is no tool ${name}`, failed: true };
  using time = new TimeLimit(CALL, () => undefined);
  const late = time.signal;
  try {
    const result = await tool.execute(args, {
      scenario,
      env: undefined,
      signal: AbortSignal.any([signal, late]),
    });
    return { text: typeof result === "string" ? result : toJson(result), failed: false };
  } catch (error) {
    signal.throwIfAborted();
    // A server that failed would fail at every call; what a tool says of its arguments is for the model.
    if (error instanceof HoneError) throw error;
    return { text: late.aborted ? `no answer within ${CALL} seconds` : messageOf(error), failed: true };
  }
}
