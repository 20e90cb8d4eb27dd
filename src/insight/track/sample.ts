/** A sample of a step's rollouts, as rows of a table. */

import type { Trajectory } from "../../core/rollout/trajectory.js";
import { Random } from "../../core/util/random.js";
import { cutText } from "../../core/util/text.js";
import { conversationText } from "../report/conversation.js";

/** Rollouts per step. */
const MOST = 4;
/** Characters of a conversation at most. */
const TEXT = 4000;

export type RolloutTable = NonNullable<ReturnType<Sample["table"]>>;

/** Every rollout of the step is equally likely to be chosen (reservoir sampling; Vitter 1985, algorithm R). */
export class Sample {
  readonly #step: number;
  readonly #random: Random;
  readonly #kept: Trajectory[] = [];
  /** Training rewards by the rollout's id. */
  readonly #trained = new Map<string, number>();
  #seen = 0;

  constructor(run: string, step: number) {
    this.#step = step;
    this.#random = new Random("tracked rollouts", run, step);
  }

  add(trajectory: Trajectory): void {
    this.#seen++;
    if (this.#kept.length < MOST) this.#kept.push(trajectory);
    else {
      const place = this.#random.integer(0, this.#seen - 1);
      if (place < MOST) this.#kept[place] = trajectory;
    }
  }

  /** @param rewards for each of the group, in order; rollouts that are not compared have none */
  rewarded(group: readonly Trajectory[], rewards: readonly number[] | undefined): void {
    if (rewards?.length !== group.length) return;
    for (const [i, { id }] of group.entries()) this.#trained.set(id, rewards[i] as number);
  }

  table() {
    if (this.#kept.length === 0) return undefined;
    const rows = this.#kept.map((one) => ({
      step: this.#step,
      scenario: one.scenario.id,
      question: cutText(one.scenario.question ?? "", TEXT),
      reward: one.reward.reward,
      "training reward": this.#trained.get(one.id) ?? null,
      success: one.reward.success,
      end: one.end,
      turns: one.turns,
      tokens: one.completionTokens,
      conversation: cutText(conversationText(one, false), TEXT),
    }));
    return { columns: Object.keys(rows[0] as object), rows: rows.map((row) => Object.values(row)) };
  }
}
