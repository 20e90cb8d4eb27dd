/**
 * The batch file: the input of one update, as flat arrays in a safetensors file. It includes the temperature, because
 * the learner must know the distribution the tokens were sampled from; for each sequence the seed of its draws where hone's own engine
 * drew from the whole distribution, else null; and a run's step, as an update that is interrupted leaves a batch of a step that the
 * run does not have.
 *
 * | tensor | type, shape | |
 * | --- | --- | --- |
 * | ids | I32 [tokens] | all sequences' token ids, one after the other |
 * | sampled | U8 [tokens] | 1 where the policy sampled the token |
 * | logprobs | F32 [tokens] | natural log under the sampling distribution; 0 where not sampled |
 * | allowed | I32 [tokens] | number of the set that the token was drawn from; -1 where every token could come |
 * | sets | U8 [sets, vocabulary / 8] | a bit for each token, the lowest of a byte first; this and `allowed` where a grammar restricts |
 * | lengths | I32 [sequences] | tokens of each sequence |
 * | groups | I32 [sequences] | group numbers, rising |
 * | rollouts | I32 [sequences] | numbers of the rollouts, rising: an agent's rollout may have several sequences |
 * | prompts | I32 [sequences] | tokens at the start that the whole group shares and that were not sampled |
 * | advantages | F32 [sequences] | the rollout's; 1 for supervised learning |
 */
import { bitsOf, isIn } from "../engine/allowed.js";
import type { TokenRecord } from "../rollout/transcript.js";
import { readMetadata, type Tensor, vector, writeSafetensors } from "./safetensors.js";

/** Raised when the meaning of a tensor changes; the Python side refuses other versions. */
const BATCH_VERSION = 3;

export interface BatchTrajectory {
  readonly tokens: TokenRecord;
  /** The rollout's further sequences, each token marked as sampled in one of them alone. */
  readonly branches?: readonly TokenRecord[] | undefined;
  /** From {@link groupAdvantages}. */
  readonly advantage: number;
  /** From which all of its draws follow. */
  readonly seed?: number | undefined;
}

export type BatchGroup = readonly BatchTrajectory[];

export interface BatchSummary {
  groups: number;
  trajectories: number;
  /** Of those trajectories: as many, or more where an agent's have several. */
  sequences: number;
  tokens: number;
  sampledTokens: number;
  /** Tokens of the longest sequence. */
  longest: number;
}

/** Number of tokens at the start that all sequences share and that were not sampled. */
export function sharedPrompt(group: readonly TokenRecord[]): number {
  const [first, ...others] = group;
  if (!first) return 0;
  let length = 0;
  while (
    length < first.ids.length &&
    first.sampled[length] === 0 &&
    others.every((other) => other.ids[length] === first.ids[length] && other.sampled[length] === 0)
  ) {
    length++;
  }
  return length;
}

function check({ ids, sampled, logprobs }: TokenRecord): void {
  if (ids.length !== sampled.length || ids.length !== logprobs.length) {
    throw new RangeError(`a trajectory has ${ids.length} ids, ${sampled.length} flags, ${logprobs.length} logprobs`);
  }
  if (sampled[0] === 1) throw new RangeError("a trajectory starts with a sampled token: nothing could predict it");
  const wrong = logprobs.findIndex((logprob) => !Number.isFinite(logprob));
  if (wrong >= 0) throw new RangeError(`token ${wrong} of a trajectory has the log-probability ${logprobs[wrong]}`);
  const given = logprobs.findIndex((logprob, i) => logprob !== 0 && sampled[i] !== 1);
  if (given >= 0) {
    throw new RangeError(
      `token ${given} of a trajectory was not sampled, and has the log-probability ${logprobs[given]}: the mask is not of these tokens`,
    );
  }
}

/** The sets of a batch, each once. */
class Sets {
  readonly #numbers = new Map<string, number>();
  readonly #bits: Uint8Array[] = [];

  /** Numbers of the sets that the tokens of a sequence were drawn from. @throws RangeError for a token outside its set */
  of({ ids, sampled, allowed }: TokenRecord): Int32Array {
    const numbers = new Int32Array(ids.length).fill(-1);
    allowed?.at.forEach((at, i) => {
      const number = this.#numberOf(allowed.sets[allowed.set[i] as number] as string);
      if (sampled[at] !== 1)
        throw new RangeError(`token ${at} of a trajectory was not sampled, and has an allowed set`);
      if (!isIn(this.#bits[number] as Uint8Array, ids[at] as number)) {
        throw new RangeError(`token ${at} of a trajectory was drawn from a set without it`);
      }
      numbers[at] = number;
    });
    return numbers;
  }

  #numberOf(set: string): number {
    const known = this.#numbers.get(set);
    if (known !== undefined) return known;
    this.#numbers.set(set, this.#bits.length);
    return this.#bits.push(bitsOf(set)) - 1;
  }

  /** Tensors of the batch; none where nothing was restricted. @throws RangeError when sets are of several vocabularies */
  tensors(numbers: readonly number[]): Record<string, Tensor> {
    const [first, ...others] = this.#bits;
    if (!first) return {};
    if (others.some((bits) => bits.length !== first.length)) {
      throw new RangeError("tokens were drawn from sets of several vocabularies");
    }
    return {
      allowed: vector("I32", numbers),
      sets: { dtype: "U8", shape: [this.#bits.length, first.length], data: Buffer.concat(this.#bits) },
    };
  }
}

/** Sequences without a sampled token teach nothing. */
const sequencesOf = ({ tokens, branches = [] }: BatchTrajectory) =>
  [tokens, ...branches].filter(({ sampled }) => sampled.includes(1));

interface BatchOptions {
  /** Sampling temperature of the tokens. */
  readonly temperature: number;
  /** Of the run. */
  readonly step?: number | undefined;
}

/** The step that a batch file is of; undefined where it says none. */
export function stepOfBatch(path: string): number | undefined {
  const step = readMetadata(path)?.step;
  return step === undefined ? undefined : Number(step);
}

/**
 * Writes the trajectories of one update; those in which nothing was sampled are left out.
 *
 * @throws RangeError when a token record is inconsistent
 */
export async function writeBatch(
  path: string,
  groups: readonly BatchGroup[],
  { temperature, step }: BatchOptions,
): Promise<BatchSummary> {
  const sets = new Sets();
  const flat = { ids: [] as number[], sampled: [] as number[], logprobs: [] as number[], allowed: [] as number[] };
  const each = {
    lengths: [] as number[],
    groups: [] as number[],
    rollouts: [] as number[],
    prompts: [] as number[],
    advantages: [] as number[],
    seeds: [] as (number | null)[],
  };
  const summary: BatchSummary = {
    groups: 0,
    trajectories: 0,
    sequences: 0,
    tokens: 0,
    sampledTokens: 0,
    longest: 0,
  };

  for (const group of groups) {
    for (const { tokens, branches = [] } of group) [tokens, ...branches].forEach(check);
    const members = group
      .map((member) => ({ ...member, sequences: sequencesOf(member) }))
      .filter(({ sequences }) => sequences.length > 0);
    if (members.length === 0) continue;
    const prompt = sharedPrompt(members.flatMap(({ sequences }) => sequences));
    for (const { sequences, advantage, seed } of members) {
      for (const sequence of sequences) {
        const { ids, sampled, logprobs } = sequence;
        const allowed = sets.of(sequence);
        // Spreading long arrays into push() would overflow the stack.
        for (let i = 0; i < ids.length; i++) {
          flat.ids.push(ids[i] as number);
          flat.sampled.push(sampled[i] as number);
          flat.logprobs.push(logprobs[i] as number);
          flat.allowed.push(allowed[i] as number);
          summary.sampledTokens += sampled[i] as number;
        }
        each.lengths.push(ids.length);
        each.groups.push(summary.groups);
        each.rollouts.push(summary.trajectories);
        each.prompts.push(prompt);
        each.advantages.push(advantage);
        // Other engines measure no draws.
        const isOwn = sequence.evaluated?.draws !== undefined && !sequence.evaluated.truncated;
        each.seeds.push(isOwn ? (seed ?? null) : null);
        summary.longest = Math.max(summary.longest, ids.length);
      }
      summary.trajectories++;
      summary.sequences += sequences.length;
    }
    summary.groups++;
  }
  summary.tokens = flat.ids.length;

  await writeSafetensors(
    path,
    {
      ids: vector("I32", flat.ids),
      sampled: vector("U8", flat.sampled),
      logprobs: vector("F32", flat.logprobs),
      ...sets.tensors(flat.allowed),
      lengths: vector("I32", each.lengths),
      groups: vector("I32", each.groups),
      rollouts: vector("I32", each.rollouts),
      prompts: vector("I32", each.prompts),
      advantages: vector("F32", each.advantages),
    },
    {
      format: "hone-batch",
      version: String(BATCH_VERSION),
      temperature: String(temperature),
      ...(each.seeds.some((seed) => seed !== null) ? { seeds: JSON.stringify(each.seeds) } : {}),
      ...(step === undefined ? {} : { step: String(step) }),
    },
  );
  return summary;
}
