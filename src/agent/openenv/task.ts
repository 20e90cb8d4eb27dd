/**
 * An environment of OpenEnv (https://github.com/meta-pytorch/OpenEnv) as a task: its server has the episodes and their rewards,
 * the model plays them by calling tools. A rollout has a session of its own, and its reward is the sum of those of its steps.
 */
import type { LanguageModelV3Prompt, LanguageModelV3ToolCall } from "@ai-sdk/provider";
import { z } from "zod";
import type { AgentContext } from "../../core/task/agent.js";
import { defineTask, type Scenario, type Task, ToolError } from "../../core/task/task.js";
import { HoneError } from "../../core/util/errors.js";
import { parseJson, toJson } from "../../core/util/json.js";
import { refusalByRequest } from "../request-refusals.js";
import type { Session } from "./session.js";
import { InvalidAction, observationText, type Surface, surfaceOf } from "./surface.js";

export interface OpenEnvSettings {
  /** Names the task, and its folder of runs. Default "openenv". */
  readonly name?: string;
  /** The system message. Default: the description that the environment has of itself. */
  readonly system?: string;
  /** What each episode's reset is given beside its seed. */
  readonly reset?: Readonly<Record<string, unknown>>;
  /** The sum of rewards from which on an episode counts as solved. Default 1. */
  readonly solved?: number;
  /** Seconds that the environment has for each answer. Default 60, as in OpenEnv's own clients. */
  readonly seconds?: number;
  /** Numbers of episodes in the splits. Default 1000 and 200. */
  readonly train?: number;
  readonly test?: number;
}

/** The episodes of a split have seeds that follow each other from here. */
const FIRST_SEED = { train: 1, test: 1_000_001 } as const;

export interface Episode extends Scenario {
  readonly seed: number;
}

const episodes = z.int().min(1).max(1_000_000);

const optionsOf = (url: string | undefined, settings: OpenEnvSettings) => {
  const address = z
    .string()
    .regex(/^(http|ws)s?:\/\/[^/]/, "it must be the address of a server: http://127.0.0.1:8000")
    .describe("address of the OpenEnv server");
  return z.object({
    url: url === undefined ? address : address.default(url),
    system: z
      .string()
      .default(settings.system ?? "")
      .describe("the system message; by default the environment's own description"),
    reset: z
      .record(z.string(), z.json())
      .default((settings.reset ?? {}) as Record<string, z.core.util.JSONType>)
      .describe('what each reset is given beside its seed: {"level": 2}'),
    solved: z
      .number()
      .default(settings.solved ?? 1)
      .describe("sum of rewards from which on an episode counts as solved"),
    seconds: z
      .number()
      .positive()
      .default(settings.seconds ?? 60)
      .describe("seconds that the environment has for each answer"),
    train: episodes.default(settings.train ?? 1000).describe("episodes to train on"),
    test: episodes.default(settings.test ?? 200).describe("episodes to test on, of other seeds"),
  });
};

interface Env extends Surface {
  readonly url: string;
  readonly system: string;
  readonly reset: Readonly<Record<string, unknown>>;
  readonly solved: number;
  readonly seconds: number;
}

type Begun = Awaited<ReturnType<typeof Session.begin>>;

/** With http, and without a slash at the end. */
const plain = (url: string) => url.replace(/^ws/, "http").replace(/\/+$/, "");

/** hone's own limits end an episode, which keeps the rewards that it has had. */
const LIMITS = ["turn_limit", "context_length_exceeded"];
const isLimit = (error: unknown) =>
  LIMITS.includes(String((error as { data?: { error?: { code?: unknown } } } | null)?.data?.error?.code));

/** What the model reads of a call that did not run, or that the environment refused. */
const refusal = (error: string) => toJson({ error });

type Said = Extract<LanguageModelV3Prompt[number], { role: "assistant" }>["content"];

/** What an episode opens with. */
function openingOf({ system, description }: Env, { first }: Begun): LanguageModelV3Prompt {
  const content = system || description;
  return [
    ...(content === "" ? [] : [{ role: "system" as const, content }]),
    { role: "user", content: [{ type: "text", text: observationText(first.observation) }] },
  ];
}

/** Plays an episode. @returns the sum of the rewards */
async function played(context: AgentContext<Episode, Env, Begun>): Promise<number> {
  const { model, env, fixture, logger, signal } = context;
  const tools = env.tools.map(({ schema }) => schema);
  const schemas = tools.map(({ name, description = "", inputSchema }) => ({
    type: "function" as const,
    function: { name, description, parameters: inputSchema as Record<string, unknown> },
  }));
  const prompt = openingOf(env, fixture);
  const rewards: number[] = [];
  let turns = 0;
  let isDone = false;

  /** @returns the calls of a turn of the model */
  const turn = async (): Promise<readonly LanguageModelV3ToolCall[]> => {
    turns++;
    try {
      const { content } = await model.doGenerate({ prompt, tools, abortSignal: signal });
      // Sent back as it was: a turn that is rewritten is not gone on from.
      const said = content.flatMap((part): Said => {
        if (part.type === "text") return [{ type: "text", text: part.text }];
        if (part.type !== "tool-call") return [];
        const { type, toolCallId, toolName, input } = part;
        return [{ type, toolCallId, toolName, input: parseJson(input) }];
      });
      prompt.push({ role: "assistant", content: said });
      return content.filter((part) => part.type === "tool-call");
    } catch (error) {
      if (isLimit(error)) return [];
      throw error;
    }
  };

  /** @returns what the model reads of it */
  const step = async (name: string, args: Record<string, unknown>): Promise<string> => {
    const refused = refusalByRequest({ name, arguments: args }, schemas);
    if (refused) return refusal(refused.error);
    const { action } = env.tools.find(({ schema }) => schema.name === name) as (typeof env.tools)[number];
    try {
      const { reward, done, observation } = await fixture.session.step(action(args));
      if (reward != null) rewards.push(Number(reward));
      isDone = done;
      const shown = toJson(args).slice(0, 100);
      logger.info(`turn ${turns}: ${name}(${shown}): reward ${reward ?? "none"}${done ? ", done" : ""}`);
      return observationText(observation);
    } catch (error) {
      if (error instanceof InvalidAction || error instanceof ToolError) return refusal(error.message);
      throw error;
    }
  };

  while (!isDone) {
    const calls = await turn();
    // A text, or a limit of hone's: the environment is not asked further.
    if (calls.length === 0) break;
    for (const { toolCallId, toolName, input } of calls) {
      if (isDone) break;
      const value = await step(toolName, parseJson(input) as Record<string, unknown>);
      const output = { type: "text" as const, value };
      prompt.push({ role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] });
    }
  }
  if (isDone && rewards.length === 0) {
    throw new HoneError("the environment ended the episode without a reward of any step: nothing can be learnt of it");
  }
  return rewards.reduce((sum, reward) => sum + reward, 0);
}

/**
 * The task of an environment, for `export default` of a task file, or for `openTask`.
 *
 * @param url of its server; without one it is asked for by `--set url=`
 */
export function openEnv(url?: string, settings: OpenEnvSettings = {}): Task<Episode, Env> {
  const options = optionsOf(url, settings);
  /** Filled when the environment is known: a call that ends an episode is its answer. */
  const finalTools: string[] = [];
  return defineTask<Episode, Env, typeof options, Begun>({
    name: settings.name ?? "openenv",
    description: "Play the episodes of an OpenEnv environment by its actions.",
    options,
    finalTools,
    scenarios: async ({ url, train, test }) => {
      // That the server is away is said before a model is loaded.
      await surfaceOf(plain(url));
      return (["train", "test"] as const).flatMap((split) =>
        Array.from({ length: { train, test }[split] }, (_, index) => {
          const seed = FIRST_SEED[split] + index;
          return { id: `seed-${seed}`, split, question: `The episode of seed ${seed}`, seed };
        }),
      );
    },
    open: async ({ url, system, reset, solved, seconds }) => {
      const at = plain(url);
      const surface = await surfaceOf(at);
      finalTools.splice(0, finalTools.length, ...surface.tools.map(({ schema }) => schema.name));
      return { ...surface, url: at, system, reset, solved, seconds };
    },
    setUp: async ({ scenario: { seed }, env: { url, seconds, reset }, logger, signal }) => {
      const { Session } = await import("./session.js");
      const begun = await Session.begin({ url, seconds, signal }, { ...reset, seed }, logger.info);
      if (!begun.first.done) return begun;
      begun.session.close();
      throw new HoneError(`the environment's episode of seed ${seed} is over at its reset`);
    },
    tearDown: ({ fixture: { session } }) => session.close(),
    rollout: async (context) => {
      const reward = await played(context);
      const { solved } = context.env;
      // Ten times 0.1 are a little less than 1.
      return { reward, success: reward >= solved - 1e-9 * Math.max(1, Math.abs(solved)), parts: {} };
    },
  });
}
