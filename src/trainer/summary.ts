/** The result of a training, over all its calls. */

import type { Share } from "../core/run/evaluation.js";
import type { ValidationRow } from "../core/run/records.js";
import { bestOf, type Run } from "../core/run/run.js";
import type { JudgeUsage } from "../core/run/verdicts.js";
import { type DifficultyCount, difficultyOf } from "../insight/report/difficulty.js";

export interface TrainSummary {
  run: string;
  folder: string;
  /** Committed steps, over all calls. */
  steps: number;
  /** Steps of this call. */
  seconds: number;
  /** How hard the scenarios were before training; null without --difficulty. */
  difficulty: DifficultyCount | null;
  /** Success on the validation scenarios at the start and after the last step. */
  before: Share | null;
  after: Share | null;
  best: { step: number; success: number } | null;
  /** Over all updates: mean of their means, highest p99, highest max. null without updates. */
  mismatch: { mean: number; p99: number; max: number } | null;
  /** Cost of judging over all calls; null without a judge. */
  judge: JudgeUsage | null;
  /** The best adapter; null when it is the base model. */
  adapter: string | null;
  /** The adapter of the last step; null before the first update. */
  latest: string | null;
}

function shareOf(row: ValidationRow | undefined): Share | null {
  if (!row) return null;
  const { success, n, low, high } = row.result;
  return { success, n, low, high };
}

export function summarise(run: Run, seconds: number): TrainSummary {
  const validations = run.store.validations();
  const last = run.store.lastStep();
  const best = bestOf(validations);
  const mismatches = run.store.steps().flatMap(({ metrics }) => metrics?.mismatch ?? []);
  return {
    run: run.name,
    folder: run.folder,
    steps: last.step,
    seconds,
    difficulty: difficultyOf(run.store.difficulty(), run.store.record()?.options.difficulty),
    before: shareOf(validations.find(({ step }) => step === 0)),
    after: shareOf(validations.find(({ step }) => step === last.step)),
    best: best ? { step: best.step, success: best.result.success } : null,
    mismatch:
      mismatches.length === 0
        ? null
        : {
            mean: mismatches.reduce((sum, mismatch) => sum + mismatch.mean, 0) / mismatches.length,
            p99: Math.max(...mismatches.map((mismatch) => mismatch.p99)),
            max: Math.max(...mismatches.map((mismatch) => mismatch.max)),
          },
    judge: run.store.judgeSpending() ?? null,
    latest: run.adapterOf(last)?.path ?? null,
    adapter: typeof best?.checkpoint === "number" ? run.checkpoints.adapterOf(best.checkpoint) : null,
  };
}
