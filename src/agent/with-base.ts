/**
 * A frozen model for an agent's own use: `rollout: withBase(limits, …)`. What a rollout asks of it is no turn of the trained model.
 * The limits go with the function, so that memory is planned for it.
 */
import type { LanguageModelV3 } from "@ai-sdk/provider";
import type { AgentContext, AgentRollout } from "../core/task/agent.js";
import type { Scenario } from "../core/task/task.js";

/** Of the base model; none of them is the trained model's. */
export interface BaseLimits {
  /** Its turns in a rollout. Default 50. */
  readonly calls?: number;
  /** Tokens of a turn. Default 1000. */
  readonly maxTokens?: number;
  /** Seconds of a turn. Default 60 on vLLM; none on hone's own engine, where tokens limit a turn. */
  readonly seconds?: number;
  /** Tokens of a conversation. Default: as the trained model's. */
  readonly context?: number;
  /** Turns that are sampled at once, over all rollouts: each has KV of its own. Default 4, on a GPU 16; never more than rollouts. */
  readonly atOnce?: number;
}

/** The model without what training has added to it: a user simulator, a grader, a sub-agent. */
export interface BaseModel {
  /** For the AI SDK, in this process. */
  readonly model: LanguageModelV3;
  /** At the rollout's `baseUrl` this key is answered by it. Programs have it as HONE_BASE_API_KEY. */
  readonly apiKey: string;
}

declare module "../core/rollout/trajectory.js" {
  interface AgentCounts {
    /** Turns of the frozen base model, which are in no sequence, and their tokens: evaluated and sampled. */
    base_calls?: number;
    base_prompt_tokens?: number;
    base_completion_tokens?: number;
    /** Requests to it that were answered with an error. */
    base_refused?: number;
  }
}

const DEFAULTS = { calls: 50, maxTokens: 1000 };
const NAMES: readonly (keyof BaseLimits)[] = ["calls", "maxTokens", "seconds", "context", "atOnce"];

/** Known to any copy of hone that a task's file may have loaded. */
const LIMITS = Symbol.for("hone.base-limits");

/**
 * A rollout that has the base model beside the trained one, as `base`.
 *
 * @throws TypeError for a limit that is none
 */
export function withBase<S extends Scenario = Scenario, E = unknown, F = unknown>(
  limits: BaseLimits,
  rollout: (context: AgentContext<S, E, F> & { readonly base: BaseModel }) => ReturnType<AgentRollout>,
): AgentRollout<S, E, F> {
  for (const [name, value] of Object.entries(limits)) {
    if (!NAMES.includes(name as keyof BaseLimits))
      throw new TypeError(`withBase: there is no limit ${name}; there are ${NAMES.join(", ")}`);
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1))
      throw new TypeError(`withBase: ${name} is ${value}; it must be a whole number, at least 1`);
  }
  const played: AgentRollout<S, E, F> = (context) => rollout(context as Parameters<typeof rollout>[0]);
  return Object.assign(played, { [LIMITS]: limits });
}

export type CompleteLimits = BaseLimits & Required<Pick<BaseLimits, keyof typeof DEFAULTS>>;

/** Undefined where a task's rollout has no base model. */
export function baseLimitsOf(rollout: unknown): CompleteLimits | undefined {
  const limits = (rollout as { readonly [LIMITS]?: BaseLimits } | undefined)?.[LIMITS];
  if (!limits) return undefined;
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  return { ...DEFAULTS, ...Object.fromEntries(given) };
}

/** An engine that it is beside. */
interface Beside {
  readonly sequences: number;
  readonly contextPerSequence: number;
  readonly gpu: string | false;
}

/** The sizes of its own, beside an engine with these. */
export const baseSizes = ({ context, atOnce }: BaseLimits, { sequences, contextPerSequence, gpu }: Beside) => ({
  sequences: Math.min(sequences, atOnce ?? (gpu === false ? 4 : 16)),
  contextPerSequence: context ?? contextPerSequence,
});

/** The same for a task's rollout; undefined where it has no base model. */
export function baseSizesOf(rollout: unknown) {
  const limits = baseLimitsOf(rollout);
  return limits && ((beside: Beside) => baseSizes(limits, beside));
}
