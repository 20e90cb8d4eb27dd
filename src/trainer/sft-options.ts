/** What imitation is asked for, and what it tells. */
import "./options.js";
import { type ProgramOption, programOptions } from "../core/config/config.js";
import type { LearnerInfo, SftMetrics } from "../core/learn/types.js";
import type { Given } from "./given.js";
import type { ImitationBatch } from "./warm-start.js";

export type SftOption = ProgramOption<"sft">;

/** The options of imitation: those of `hone sft`. */
export const sftOptions = programOptions("sft");

/** `file` and `model` must be given. */
export type SftOptions = Given<SftOption>;

export interface SftChoice {
  /** Lines for people. */
  readonly log?: (line: string) => void;
  readonly onLearner?: (info: LearnerInfo) => void;
  readonly onProgress?: (progress: { readonly phase: string; readonly done: number; readonly total: number }) => void;
  /** Aborted to stop: nothing is left of an unfinished result. */
  readonly signal?: AbortSignal;
}

export interface SftSummary extends SftMetrics {
  /** What was learnt from. */
  readonly batch: ImitationBatch;
  /** The adapter's file, or the model's. */
  readonly written: string;
}
