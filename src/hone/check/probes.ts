/** Trivial players without a model: one stays silent, one answers with nothing, one with irrelevant text. */
import type { McpServers } from "../../agent/mcp/servers.js";
import { opening, playRollout, type RolloutOutcome } from "../../core/rollout/rollout.js";
import type { Session } from "../../core/rollout/session.js";
import {
  type AnyTask,
  type ExpertScript,
  type ExpertTurn,
  type Scenario,
  type ToolCall,
  toolSchema,
} from "../../core/task/task.js";
import { messageOf } from "../../core/util/errors.js";
import { Random } from "../../core/util/random.js";
import { ExpertSession } from "../expert-session.js";
import type { CheckSettings } from "./settings.js";

export const probes = ["silence", "empty answer", "unrelated answer", "expert"] as const;
export type Probe = (typeof probes)[number];

/** Result of one probe on one scenario. */
export interface Probed {
  readonly probe: Probe;
  readonly scenario: string;
  /** Undefined where the task's own code threw. */
  readonly outcome: RolloutOutcome | undefined;
  readonly error: string | undefined;
}

interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
}

/** A minimal value that satisfies a schema, or a meaningless one of the right type. */
function filled(schema: JsonSchema, text: string, number: number): unknown {
  if (schema.enum) return schema.enum[0];
  if (schema.type === "string") return text;
  if (schema.type === "number" || schema.type === "integer") return Math.max(number, schema.minimum ?? number);
  if (schema.type === "boolean") return false;
  if (schema.type === "array") return [];
  const properties = schema.properties ?? {};
  return Object.fromEntries(
    (schema.required ?? []).map((name) => [name, filled(properties[name] ?? {}, text, number)]),
  );
}

/** An answer of the first turn: by the final tool if there is one. */
function answer(task: AnyTask, text: string, number: number): ExpertTurn {
  const final = task.tools.find((tool) => tool.final);
  if (!final) return text;
  const args = filled(toolSchema(final).function.parameters as JsonSchema, text, number) as ToolCall["arguments"];
  return [{ name: final.name, arguments: args }];
}

/** What each probe plays in the place of the task's expert; after that it stays silent. */
const scripts: Readonly<Record<Exclude<Probe, "expert">, (task: AnyTask) => ExpertScript>> = {
  *silence() {},
  *"empty answer"(task) {
    yield answer(task, "", 0);
  },
  *"unrelated answer"(task) {
    yield answer(task, "The weather is fine today.", 987_654_321);
  },
};

function sessionOf(probe: Probe, task: AnyTask, scenario: Scenario, seed: number): Session {
  const player = probe === "expert" ? task : { ...task, expert: () => scripts[probe](task) };
  return new ExpertSession(player, scenario, new Random("check", seed, scenario.id), {});
}

interface Ground extends Pick<CheckSettings, "task" | "maxTurns" | "toolSeconds" | "seed" | "signal"> {
  readonly env: unknown;
  readonly servers: McpServers | undefined;
}

/** Plays one scenario with a probe; an error thrown by the task is recorded as a finding. */
export async function probeScenario(ground: Ground, scenario: Scenario, probe: Probe): Promise<Probed> {
  const { task, env, servers, maxTurns, toolSeconds, seed, signal } = ground;
  const limits = {
    maxTurns,
    maxTokens: 1,
    turnSeconds: 60,
    toolSeconds,
    rolloutSeconds: 600,
    onToolError: "observe",
  } as const;
  try {
    // Building the prompt runs the task's code as well.
    opening(task, scenario, maxTurns);
    const session = sessionOf(probe, task, scenario, seed);
    const own = await servers?.begin(`${scenario.id}/${probe}`, scenario);
    const about = { task: own?.task ?? task, scenario, env, session, limits, signal, folder: own?.folder };
    const outcome = await playRollout(about).finally(() => own?.end());
    return { probe, scenario: scenario.id, outcome, error: undefined };
  } catch (error) {
    signal.throwIfAborted();
    return { probe, scenario: scenario.id, outcome: undefined, error: messageOf(error) };
  }
}
