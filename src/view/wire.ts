/** The data of the page: what the live server answers and what a report file holds. The page's source reads these types. */
import type { Matrix } from "../report/index.js";
import type { Device, LogTail, RolloutPhase, StepRow, ValidationRow } from "../run/index.js";
import type { CallRecord, ChatMessage, Reward } from "../tasks/index.js";

/** All of a run but its rollouts. */
export interface RunView {
  /** Its place among the runs of the page. */
  readonly id: number;
  readonly name: string;
  readonly project: string;
  readonly folder: string;
  /** One line where the run cannot be read; then the rest is empty. */
  readonly problem: string | null;
  readonly created: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly contents: Readonly<Record<string, string>>;
  readonly devices: readonly Device[];
  readonly steps: readonly StepRow[];
  readonly validations: readonly ValidationRow[];
  readonly checkpoints: readonly { readonly step: number; readonly damage: string | null }[];
  /** A process is at work on it. */
  readonly running: boolean;
  readonly logs: readonly LogTail[];
  /** Rollouts of each phase and step. */
  readonly counts: readonly { readonly phase: RolloutPhase; readonly step: number; readonly n: number }[];
  /** Another text whenever the run has changed. */
  readonly revision: string;
}

/** One rollout in the table. */
export interface Row {
  readonly id: number;
  readonly phase: RolloutPhase;
  readonly step: number;
  readonly scenario: string;
  readonly member: number;
  readonly kind: string | null;
  readonly reward: number;
  readonly success: boolean;
  readonly end: string;
  /** It ended by no fault of the model, and was not compared with its group. */
  readonly brokenOff: boolean;
  readonly turns: number;
  readonly tokens: number;
  /** What the update was told; null where it was told nothing. */
  readonly trained: number | null;
  readonly advantage: number | null;
  /** Calls that did not run, by why. */
  readonly errors: Readonly<Record<string, number>>;
  readonly seconds: number;
}

export interface Rows {
  readonly rows: readonly Row[];
  /** What was asked, by scenario. */
  readonly questions: Readonly<Record<string, string>>;
  /** The step to ask from next; null where these were the last. */
  readonly next: number | null;
}

/** Tokens of one rollout. */
export interface Tokens {
  readonly ids: readonly number[];
  /** Lengths of stretches, the first of given tokens, then sampled and given ones by turns. */
  readonly stretches: readonly number[];
  /** Log-probabilities of the sampled tokens in order, thousandths of a nat. */
  readonly logprobs: readonly number[];
}

/** One rollout as it is read. */
export interface Body {
  readonly id: number;
  readonly messages: readonly ChatMessage[];
  readonly calls: readonly CallRecord[];
  readonly answer: Readonly<Record<string, unknown>> | null;
  readonly reward: Reward;
  readonly reason: string | null;
  readonly deadline: string | null;
  readonly explanation: string | null;
  readonly player: { readonly kind: string; readonly model: string; readonly temperature: number };
  readonly seconds: { readonly total: number; readonly player: number; readonly tools: number };
  readonly promptTokens: number;
  readonly maxTurns: number;
  readonly seed: number;
  readonly tokens: Tokens | null;
}

/** Bytes of tokens by id, each byte one character of the text. */
export type Pieces = Readonly<Record<number, string>>;

export interface BodyAnswer {
  readonly body: Body;
  /** Empty where the model file is not here: then ids are shown. */
  readonly pieces: Pieces;
}

/** What a report file has of one run, beside its `RunView`, which is read first, and the chunks with its rollouts. */
export interface ReportRun {
  readonly rows: Rows;
  /** Number of the chunk that has a rollout's body, by its id. */
  readonly chunks: Readonly<Record<number, number>>;
  readonly pieces: Pieces;
}

/** What a report file says of itself. */
export interface ReportAbout {
  readonly made: string;
  readonly runs: number;
  /** Characters of a text that a file keeps. */
  readonly textLimit: number;
}

/** The page of an evaluation. */
export interface SeenMatrix extends Matrix {
  readonly made: string;
}
