/**
 * What the learner will read, compared with what was played by another way than the one that wrote it: the batch file is read
 * back, its totals are counted from the rollouts, and one rollout of the step is compared number by number.
 */
import { readFile } from "node:fs/promises";
import type { BatchGroup } from "../core/learn/batch.js";
import { HoneError } from "../core/util/errors.js";
import { Random } from "../core/util/random.js";

interface Header {
  readonly [name: string]: { readonly dtype: string; readonly data_offsets: readonly [number, number] };
}

/** Reads numbers of a safetensors file: 8 bytes of length, a header of JSON, then the bytes of all tensors. */
async function batchReader(path: string): Promise<(name: string) => number[] | undefined> {
  const bytes = await readFile(path);
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, start)) as Header;
  return (name) => {
    const tensor = header[name];
    if (!tensor) return undefined;
    const [from, to] = tensor.data_offsets;
    const part = bytes.subarray(start + from, start + to);
    if (tensor.dtype === "U8") return [...part];
    const read = (i: number) => (tensor.dtype === "F32" ? part.readFloatLE(4 * i) : part.readInt32LE(4 * i));
    return Array.from({ length: part.length / 4 }, (_, i) => read(i));
  };
}

/** Of the sum of a group's advantages, per rollout and unit of its largest one: rounding to f32. */
const ROUNDING = 1e-5;

const differs = (what: string) => {
  throw new HoneError(
    `what was written for the learner is not what was played: ${what}; the step was not taken. The same command learns from the same rollouts again`,
  );
};

/**
 * @param path of the batch file that was written of these groups
 * @param seed of the choice of the rollout that is compared
 * @param whole whether no rollout of a group is left out, so that its advantages sum to 0
 * @throws HoneError where they differ
 */
export async function checkBatch(
  path: string,
  groups: readonly BatchGroup[],
  { seed, whole }: { readonly seed: number; readonly whole: boolean },
): Promise<void> {
  const tensor = await batchReader(path);
  const needed = (name: string) => {
    const values = tensor(name);
    if (!values) throw new HoneError(`the batch file ${path} has no ${name}`);
    return values;
  };
  const [ids, sampled, logprobs, lengths] = ["ids", "sampled", "logprobs", "lengths"].map(needed) as [
    number[],
    number[],
    number[],
    number[],
  ];
  const [numbers, rollouts, advantages] = ["groups", "rollouts", "advantages"].map(needed) as [
    number[],
    number[],
    number[],
  ];
  const played = groups
    .flat()
    .flatMap(({ tokens, branches = [], advantage }) =>
      [tokens, ...branches]
        .filter((record) => record.sampled.some((flag) => flag === 1))
        .map((record) => ({ record, advantage })),
    );
  if (played.length !== lengths.length) differs(`${lengths.length} sequences of ${played.length}`);
  const total = played.reduce((sum, { record }) => sum + record.sampled.filter((flag) => flag === 1).length, 0);
  const written = sampled.reduce((sum, flag) => sum + flag, 0);
  if (written !== total) differs(`${written} tokens are marked as sampled, ${total} were sampled`);
  const restricted = played.reduce((sum, { record }) => sum + (record.allowed?.at.length ?? 0), 0);
  const marked = (tensor("allowed") ?? []).filter((number) => number >= 0).length;
  if (marked !== restricted) {
    differs(`${marked} tokens are marked as drawn under a grammar, ${restricted} were drawn so`);
  }

  const at = new Random("second path", seed).integer(0, played.length - 1);
  const { record, advantage } = played[at] as (typeof played)[0];
  const from = lengths.slice(0, at).reduce((sum, length) => sum + length, 0);
  record.ids.forEach((id, i) => {
    const place = from + i;
    const same =
      ids[place] === id &&
      sampled[place] === record.sampled[i] &&
      logprobs[place] === Math.fround(record.logprobs[i] as number);
    if (!same) differs(`token ${i} of sequence ${at} has another id, mask or log-probability`);
  });
  if (advantages[at] !== Math.fround(advantage)) differs(`sequence ${at} has another advantage`);
  // A rollout in which nothing was sampled has its part in the mean, and is not in the file.
  const silent = groups
    .flat()
    .some(({ tokens, branches = [] }) => [tokens, ...branches].every(({ sampled }) => !sampled.includes(1)));
  if (!whole || silent) return;

  const sums = new Map<number, { sum: number; largest: number; n: number }>();
  rollouts.forEach((rollout, i) => {
    if (i > 0 && rollouts[i - 1] === rollout) return;
    const one = advantages[i] as number;
    const group = sums.get(numbers[i] as number) ?? { sum: 0, largest: 0, n: 0 };
    sums.set(numbers[i] as number, {
      sum: group.sum + one,
      largest: Math.max(group.largest, Math.abs(one)),
      n: group.n + 1,
    });
  });
  for (const [group, { sum, largest, n }] of sums) {
    if (Math.abs(sum) > ROUNDING * n * largest)
      differs(`the advantages of group ${group} sum to ${sum.toFixed(4)}, not to 0`);
  }
}
