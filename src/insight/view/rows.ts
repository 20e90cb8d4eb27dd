/** Rollouts of a run as the page shows them: rows of its table, and single ones in full. */

// Declares counts of its own.
import type {} from "../../agent/with-base.js";
import { brokenOff } from "../../core/rollout/deadline.js";
import { type AgentCounts, callsIn } from "../../core/rollout/trajectory.js";
import type { TokenRecord } from "../../core/rollout/transcript.js";
import { mapBigints } from "../../core/util/json.js";
import { cutText } from "../../core/util/text.js";
import type { SeenRollout } from "../../machine/runs/reader.js";
import { shorten } from "../report/played.js";

/** Characters of a question in the table. */
const QUESTION = 200;
/** Of a tool's name: a model may write any. */
const NAME = 64;

export const questionOf = ({ trajectory }: SeenRollout): string =>
  trajectory.scenario.question?.slice(0, QUESTION) ?? "";

export function rowOf(seen: SeenRollout) {
  const { id, phase, step, scenario, member, reward, success, end, turns, trajectory } = seen;
  return {
    id,
    phase,
    step,
    scenario,
    member,
    kind: trajectory.scenario.kind ?? null,
    reward,
    success,
    end,
    /** It ended by no fault of the model, and was not compared with its group. */
    brokenOff: brokenOff(trajectory) !== null,
    turns,
    tokens: seen.completionTokens,
    /** The reward as the update used it; null where it did not use the rollout. */
    trained: seen.trainingReward,
    advantage: seen.advantage,
    /** Its calls that did not run: the name as it was written, and why. */
    failed: callsIn(trajectory).flatMap(({ name, outcome }) =>
      outcome === "ok" ? [] : [[cutText(name, NAME), outcome] as const],
    ),
    seconds: trajectory.seconds.total,
  };
}

/** Run lengths of equal `sampled` values, beginning with given tokens. */
function stretchesOf(sampled: readonly number[]): number[] {
  const lengths: number[] = [];
  let current = 0;
  let length = 0;
  for (const one of sampled) {
    if (one !== current) {
      lengths.push(length);
      current = one;
      length = 0;
    }
    length++;
  }
  return [...lengths, length];
}

export const tokensOf = ({ ids, sampled, logprobs }: TokenRecord) => ({
  ids,
  /** Run lengths: given tokens first, then sampled and given ones alternately. */
  stretches: stretchesOf(sampled),
  /** Log-probabilities of the sampled tokens in order, in thousandths of a nat. */
  logprobs: logprobs.flatMap((logprob, i) => (sampled[i] === 1 ? [Math.round(1000 * logprob)] : [])),
});

/** Truncates every text in the value to a number of characters. */
function cutTexts<T>(value: T, limit: number): T {
  if (typeof value === "string") return shorten(value, limit) as T;
  if (Array.isArray(value)) return value.map((one) => cutTexts(one, limit)) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cutTexts(one, limit)])) as T;
}

function baseOf({ agent = {} }: { readonly agent?: Partial<AgentCounts> }) {
  const { base_calls: calls = 0, base_prompt_tokens: promptTokens = 0, base_completion_tokens: tokens = 0 } = agent;
  return calls === 0 ? null : { calls, promptTokens, tokens };
}

/** @param limit characters of each text that are kept; undefined: all */
export function bodyOf({ id, explanation, trajectory }: SeenRollout, limit?: number) {
  const { player, seconds, tokens, branches = [], tree = [], output = "", answer, reason, deadlineCause } = trajectory;
  const body = {
    id,
    // A page's JSON has no integers beyond 2^53 - 1: there they are texts of their digits.
    messages: mapBigints(trajectory.messages, String),
    calls: mapBigints(trajectory.calls, String),
    answer: mapBigints(answer ?? null, String),
    reward: trajectory.reward,
    reason: reason ?? null,
    deadline: deadlineCause ?? null,
    explanation,
    player: { kind: player.kind, model: player.model, temperature: player.temperature },
    seconds: { total: seconds.total, player: seconds.player, tools: seconds.tools },
    promptTokens: trajectory.promptTokens,
    maxTurns: trajectory.maxTurns,
    seed: trajectory.seed,
    tokens: tokens ? tokensOf(tokens) : null,
    /** An agent's further sequences. */
    branches: branches.map((branch) => ({
      messages: mapBigints(branch.messages, String),
      calls: mapBigints(branch.calls ?? [], String),
      tokens: tokensOf(branch.tokens),
    })),
    /** Its turns over all sequences; empty where there is one. */
    tree,
    /** What an agent has asked the frozen base beside the trained model; null: nothing. */
    base: baseOf(trajectory),
    /** The end of an agent's output. */
    output,
  };
  return limit === undefined ? body : cutTexts(body, limit);
}
