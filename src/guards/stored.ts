/**
 * What the run's store has of a committed step, read again beside what the step was made of: replay, the page and a repetition of
 * the step take it from there.
 */
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { TokenRecord } from "../core/rollout/transcript.js";
import type { CreditedGroup } from "../core/train/credit.js";
import { demanding, type Guard } from "../core/train/guard.js";
import { HoneError } from "../core/util/errors.js";

/** A rollout as the store has it. */
export interface StoredRollout {
  readonly scenario: string;
  readonly member: number;
  readonly trainingReward: number | null;
  readonly advantage: number | null;
  readonly trajectory: Trajectory;
}

/** Another reader of the store than the one that writes it. */
export interface StoreReader {
  /** The last step that is committed. */
  last(): number;
  rollouts(step: number): Iterable<StoredRollout>;
}

const recordsOf = ({ tokens, branches = [] }: Trajectory): readonly TokenRecord[] =>
  tokens ? [tokens, ...branches.map((branch) => branch.tokens)] : [];

const same = (one: readonly number[], other: readonly number[], as: (value: number) => number) =>
  one.length === other.length && one.every((value, i) => as(value) === other[i]);

/** The store has log-probabilities in f32. */
const isSame = (made: TokenRecord, found: TokenRecord) =>
  same(made.ids, found.ids, Number) &&
  same(made.sampled, found.sampled, Number) &&
  same(made.logprobs, found.logprobs, Math.fround);

function differenceOf(made: Trajectory, found: StoredRollout | undefined): string | undefined {
  if (found === undefined) return "is not there";
  const { trajectory } = found;
  if (trajectory.id !== made.id) return `is ${trajectory.id} there`;
  if (trajectory.reward.reward !== made.reward.reward) {
    return `has the reward ${trajectory.reward.reward} there, and earned ${made.reward.reward}`;
  }
  const [ours, theirs] = [recordsOf(made), recordsOf(trajectory)];
  const whole = ours.length === theirs.length && ours.every((record, i) => isSame(record, theirs[i] as TokenRecord));
  return whole ? undefined : "has other tokens, masks or log-probabilities there";
}

interface Made {
  readonly trajectory: Trajectory;
  /** null where the group has none of the training's. */
  readonly reward: number | null;
  readonly advantage: number;
}

const madeOf = ({ members, brokenOff, rewarded }: CreditedGroup): readonly Made[] => [
  ...members.map((member) => ({ ...member, reward: rewarded ? member.reward : null })),
  ...brokenOff.map((trajectory) => ({ trajectory, reward: null, advantage: 0 })),
];

function creditDifference({ reward, advantage }: Made, row: StoredRollout | undefined): string | undefined {
  if (row?.trainingReward !== reward) return `has the training reward ${row?.trainingReward} there, and got ${reward}`;
  // Of a group without a verdict nothing is noted.
  if ((row.advantage ?? 0) === advantage) return undefined;
  return `has the advantage ${row.advantage} there, and was trained with ${advantage}`;
}

/** @throws HoneError where the store has a rollout, reward or advantage of the step otherwise */
export function checkStored(step: number, groups: readonly CreditedGroup[], rows: Iterable<StoredRollout>): void {
  const placeOf = (scenario: string, member: number) => `${scenario}/${member}`;
  const stored = new Map([...rows].map((row) => [placeOf(row.scenario, row.member), row]));
  for (const made of groups.flatMap(madeOf)) {
    const { id, scenario, index } = made.trajectory;
    const row = stored.get(placeOf(scenario.id, index));
    const difference = differenceOf(made.trajectory, row) ?? creditDifference(made, row);
    if (difference === undefined) continue;
    throw new HoneError(`the store has step ${step} otherwise than it was made: the rollout ${id} ${difference}`);
  }
}

export const STORED = {
  name: "what is stored, read again",
  sees: "a committed step whose rollouts, tokens, rewards or advantages the run's store has otherwise than they were trained on",
} as const;

export function storedGuard(reader: StoreReader): Guard {
  const made = new Map<number, readonly CreditedGroup[]>();
  return {
    ...STORED,
    beforeUpdate: ({ groups, steps }) => {
      made.set((steps.at(-1)?.step ?? -1) + 1, groups);
      return undefined;
    },
    afterWaking: () =>
      demanding("take the commit back", () => {
        const last = reader.last();
        // With --staleness several steps may be committed before one of them wakes the engine.
        for (const [step, groups] of made) {
          if (step > last) continue;
          made.delete(step);
          checkStored(step, groups, reader.rollouts(step));
        }
      }),
  };
}
