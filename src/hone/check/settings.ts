/** What a check plays, and what playing brings. */

import type { Surveyed } from "../../agent/mcp/plan.js";
import type { AnyTask, PlainOptions, ScenarioIo } from "../../core/task/task.js";
import type { Finding } from "./findings.js";

export interface CheckSettings {
  readonly task: AnyTask;
  /** As worker threads load it: for a task that its own code plays. */
  readonly reference: string;
  readonly taskOptions: PlainOptions;
  /** Access for downloading scenarios from the Hub. */
  readonly io?: ScenarioIo;
  /** MCP servers whose tools the model gets in addition to the task's. */
  readonly servers?: Surveyed | undefined;
  /** Number of scenarios of each split to play, drawn by the seed. */
  readonly n: number;
  readonly seed: number;
  readonly maxTurns: number;
  readonly toolSeconds: number;
  /** Model file; for a task that hone plays, its tokenizer and chat template measure the prompts. */
  readonly model: string;
  /** Tokens of a conversation. */
  readonly context: number;
  readonly signal: AbortSignal;
  /** Called at the start and after each rollout of a task that its own code plays. */
  readonly onPlayed?: ((done: number, total: number) => void) | undefined;
}

export interface Played {
  /** Number of rollouts. */
  readonly played: number;
  /** Tokens of the prompts. */
  readonly prompts: readonly number[];
  readonly findings: Iterable<Finding>;
}
