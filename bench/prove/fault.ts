/** What a fault is: a change of one place of hone's source, which training must not survive unnoticed. */

export const families = [
  "policy",
  "tokens",
  "log-probabilities",
  "rewards",
  "advantages",
  "learner",
  "storage",
  "engine",
] as const;

export type Family = (typeof families)[number];

/** A text that is in the file once, and what takes its place. Of a `.ts` file the compiled one is changed with it; the engine is compiled. */
export interface Patch {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export const at = (file: string, find: string, replace: string): Patch => ({ file, find, replace });

/** Options of runs in which every step has an update. */
export const ANY_REWARD = ["--control", "random-reward"];
/** Of runs in which the model is sure of few tokens. */
export const FREE = ["--temperature", "1.4"];
/** Of runs whose steps have two updates. */
export const TWICE = ["--iterations", "2"];

export interface Fault {
  readonly name: string;
  readonly family: Family;
  readonly patch: Patch;
  /** In other files, of a fault that one place alone does not make. */
  readonly also?: readonly Patch[];
  /** Steps of the run, of a fault that shows in statistics; default those of all. */
  readonly steps?: number;
  /** Of the engine; default 1, which has one lane. */
  readonly threads?: number;
  /** Options of the run in which it shows, in addition to the usual ones. */
  readonly flags?: readonly string[];
  /** Of a step; default that of all. One that needs several with a gradient does not act in a step that has one. */
  readonly groups?: number;
  /** Its last step is made by a process of its own, which goes on with the run. */
  readonly resumed?: boolean;
  /**
   * Its author had not read the guards. Met: guards were written for it (outside.ts); the others: none was when it was first tried, and
   * that outcome is kept (unmet.ts, third.ts, fourth.ts, sixth.ts).
   */
  readonly outside?: "met" | "unmet" | "third" | "fourth" | "sixth";
  /** Of the fourth and sixth list: like a fault of an earlier one, which its author had not seen. */
  readonly akin?: true;
  /** An independent test of what no run can show, since it only sees its own numbers. */
  readonly test?: string;
}

/** Where a fault was seen: in the run itself, by `hone replay` of its first and last step, or by a test; null: nowhere. */
export type SeenBy = "run" | "replay" | "test" | null;

export interface Outcome {
  readonly name: string;
  readonly family: Family;
  readonly seen: SeenBy;
  /** In the run: the step that was not taken; by replay: the first that differs. */
  readonly step: number | null;
  /** The guard, or the test's file. */
  readonly guard: string | null;
  /** Its message. */
  readonly words: string | null;
  /** Of one from outside, tried again after guards were written for what nobody saw. */
  readonly since?: Pick<Outcome, "seen" | "step" | "guard" | "words">;
}
