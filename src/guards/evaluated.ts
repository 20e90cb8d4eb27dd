/**
 * A rollout's record compared with what the engine says that it evaluated and how it sampled: what is learnt from must be what
 * was played, token for token, from one distribution.
 */
import { digestOf, digestOfLogprobs } from "../core/engine/evaluated.js";
import { recordsOf, type Trajectory } from "../core/rollout/trajectory.js";
import type { TokenRecord } from "../core/rollout/transcript.js";
import type { Wrong } from "../core/train/guard.js";
import { deriveSeed } from "../core/util/random.js";

/**
 * Whether hone derives it for a sequence of this rollout: that of the built-in loop draws by the rollout's seed, those of an agent by
 * seeds that follow from it. No more can have begun than there are turns.
 */
function isItsSeed(drawn: number, { seed, maxTurns, agent }: Trajectory): boolean {
  if (drawn === seed) return true;
  for (let number = 1; agent && number < maxTurns; number++) {
    if (drawn === deriveSeed(seed, "sequence", number)) return true;
  }
  return false;
}

function differenceOf(
  { ids, sampled, logprobs, evaluated }: TokenRecord,
  temperature: number,
  played: Trajectory,
): Wrong {
  if (!evaluated) return undefined;
  const { tokens, digest, temperature: used, truncated, foreign, drawn } = evaluated;
  if (tokens > ids.length || sampled.includes(1, tokens)) {
    return `the engine evaluated ${tokens} tokens of a sequence that is recorded with ${ids.length}`;
  }
  if (digest !== digestOf(ids.slice(0, tokens))) {
    return `the ${tokens} tokens that the engine evaluated are not those that are recorded`;
  }
  // Of turns before the first that it tells of (one that a stop text cut) the engine has said nothing.
  const first = drawn[0]?.[0] ?? tokens;
  const isDrawn = (at: number) => (drawn.some(([from, to]) => from <= at && at < to) ? 1 : 0);
  const other = sampled.findIndex((flag, at) => at >= first && flag !== isDrawn(at));
  if (other >= 0) {
    const [was, is] = sampled[other] === 1 ? ["did not draw", "sampled"] : ["drew", "given"];
    return `the engine ${was} token ${other}, which is recorded as ${is}`;
  }
  const retold = drawn.find(
    ([from, to, told]) => told !== undefined && told !== digestOfLogprobs(logprobs.slice(from, to)),
  );
  if (retold) {
    const [from, to] = retold;
    return `the log-probabilities of its tokens ${from} to ${to - 1} are recorded otherwise than the engine told them`;
  }
  if (!isItsSeed(evaluated.seed, played)) {
    return `the engine drew with the seed ${evaluated.seed}, and it is recorded with ${played.seed}`;
  }
  if (foreign) return "some of its keys and values were computed with another adapter than the one that played";
  // The engine divides in f32.
  if (Math.fround(used) !== Math.fround(temperature)) {
    return `the engine sampled at temperature ${Number(used.toPrecision(6))}, and the step trains at ${temperature}`;
  }
  return truncated
    ? "the engine sampled from the likeliest tokens alone (top-k, top-p or min-p), and the step trains on the whole distribution"
    : undefined;
}

/**
 * @param temperature at which the step trains
 * @returns what is wrong, where they differ
 */
export function checkEvaluated(group: readonly Trajectory[], temperature: number): Wrong {
  for (const played of group) {
    for (const record of recordsOf(played)) {
      const difference = differenceOf(record, temperature, played);
      if (difference === undefined) continue;
      return `the rollout ${played.id} is not what was played: ${difference}; the step was not taken. The same command plays it again`;
    }
  }
  return undefined;
}

/** @returns what is wrong, for a rollout of another adapter than that with this SHA-256 */
export function checkPlayer(group: readonly Trajectory[], adapter: string | null): Wrong {
  const other = group.find(({ player }) => player.kind === "engine" && player.adapter !== adapter);
  if (other === undefined) return undefined;
  const [was, wanted] = [(other.player as { adapter: string | null }).adapter, adapter].map((one) =>
    one === null ? "the model without an adapter" : `the adapter ${one.slice(0, 12)}`,
  );
  return `the rollout ${other.id} was played by ${was}, in place of ${wanted}; it is not used. The same command plays it again`;
}
