/**
 * What the learner will read, compared with what was played by another way than the one that wrote it: the batch file is read
 * back, its totals are counted from the rollouts, and one rollout of the step is compared number by number.
 */
import { readFile } from "node:fs/promises";
import type { BatchGroup } from "../core/learn/batch.js";
import type { Wrong } from "../core/train/guard.js";
import { HoneError } from "../core/util/errors.js";
import { Random } from "../core/util/random.js";

interface Header {
  readonly [name: string]: { readonly dtype: string; readonly data_offsets: readonly [number, number] };
}

/**
 * Reads numbers of a safetensors file: 8 bytes of length, a header of JSON, then the bytes of all tensors. A tensor that is not there
 * is `without`, or a HoneError.
 */
async function batchReader(path: string): Promise<(name: string, without?: number[]) => number[]> {
  const bytes = await readFile(path);
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, start)) as Header;
  return (name, without) => {
    const tensor = header[name];
    if (!tensor && without) return without;
    if (!tensor) throw new HoneError(`the batch file ${path} has no ${name}`);
    const [from, to] = tensor.data_offsets;
    const part = bytes.subarray(start + from, start + to);
    if (tensor.dtype === "U8") return [...part];
    const read = (i: number) => (tensor.dtype === "F32" ? part.readFloatLE(4 * i) : part.readInt32LE(4 * i));
    return Array.from({ length: part.length / 4 }, (_, i) => read(i));
  };
}

/** Of the sum of a group's advantages, per rollout and unit of its largest one: rounding to f32. */
const ROUNDING = 1e-5;

const differs = (what: string) =>
  `what was written for the learner is not what was played: ${what}; the step was not taken. The same command learns from the same rollouts again`;

/**
 * @param path of the batch file that was written of these groups
 * @param seed of the choice of the rollout that is compared
 * @param whole whether no rollout of a group is left out, so that its advantages sum to 0
 * @returns what is wrong, where they differ
 */
export async function checkBatch(
  path: string,
  groups: readonly BatchGroup[],
  { seed, whole }: { readonly seed: number; readonly whole: boolean },
): Promise<Wrong> {
  const tensor = await batchReader(path);
  const [ids, sampled, logprobs, lengths] = [tensor("ids"), tensor("sampled"), tensor("logprobs"), tensor("lengths")];
  const [numbers, rollouts, advantages] = [tensor("groups"), tensor("rollouts"), tensor("advantages")];
  const played = groups
    .flat()
    .flatMap(({ tokens, branches = [], advantage }) =>
      [tokens, ...branches]
        .filter((record) => record.sampled.some((flag) => flag === 1))
        .map((record) => ({ record, advantage })),
    );
  if (played.length !== lengths.length) return differs(`${lengths.length} sequences of ${played.length}`);
  const total = played.reduce((sum, { record }) => sum + record.sampled.filter((flag) => flag === 1).length, 0);
  const written = sampled.reduce((sum, flag) => sum + flag, 0);
  if (written !== total) return differs(`${written} tokens are marked as sampled, ${total} were sampled`);
  const restricted = played.reduce((sum, { record }) => sum + (record.allowed?.at.length ?? 0), 0);
  const marked = tensor("allowed", []).filter((number) => number >= 0).length;
  if (marked !== restricted)
    return differs(`${marked} tokens are marked as drawn under a grammar, ${restricted} were drawn so`);

  const at = new Random("second path", seed).integer(0, played.length - 1);
  const { record, advantage } = played[at] as (typeof played)[0];
  const from = lengths.slice(0, at).reduce((sum, length) => sum + length, 0);
  const other = record.ids.findIndex(
    (id, i) =>
      ids[from + i] !== id ||
      sampled[from + i] !== record.sampled[i] ||
      logprobs[from + i] !== Math.fround(record.logprobs[i] as number),
  );
  if (other >= 0) return differs(`token ${other} of sequence ${at} has another id, mask or log-probability`);
  if (advantages[at] !== Math.fround(advantage)) return differs(`sequence ${at} has another advantage`);
  // A rollout in which nothing was sampled has its part in the mean, and is not in the file.
  const silent = groups
    .flat()
    .some(({ tokens, branches = [] }) => [tokens, ...branches].every(({ sampled }) => !sampled.includes(1)));
  if (!whole || silent) return undefined;

  for (const group of new Set(numbers)) {
    // Of several sequences of a rollout the first.
    const own = advantages.filter((_, i) => numbers[i] === group && (i === 0 || rollouts[i - 1] !== rollouts[i]));
    const sum = own.reduce((sum, one) => sum + one, 0);
    if (Math.abs(sum) > ROUNDING * own.length * Math.max(...own.map(Math.abs)))
      return differs(`the advantages of group ${group} sum to ${sum.toFixed(4)}, not to 0`);
  }
  return undefined;
}
