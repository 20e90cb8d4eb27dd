/** Messages between a gathering and its workers: plain data, since closures cannot be sent to threads. */
import type { MessagePort } from "node:worker_threads";
import type { PlayerSpec } from "../rollout/player.js";
import type { RolloutLimits, Waiting } from "../rollout/rollout.js";
import type { RolloutFailure, Trajectory } from "../rollout/trajectory.js";
import type { ServerPlan } from "../task/servers.js";
import type { PlainOptions, Scenario } from "../task/task.js";

/** Settings that every worker of a pool gets when it starts. Plain data. */
export interface WorkerSettings {
  /** As for `loadTask`: closures cannot be sent, so each worker loads the task itself. */
  readonly task: string;
  readonly taskOptions: PlainOptions;
  /** MCP servers whose tools the rollouts have beside the task's. */
  readonly servers?: ServerPlan | undefined;
  readonly player: PlayerSpec;
  readonly limits: RolloutLimits;
}

/** One group, or the rest of one. */
export interface GroupJob {
  readonly scenario: Scenario;
  readonly step: number;
  readonly members: readonly { readonly id: string; readonly index: number; readonly seed: number }[];
  /** As in `EnginePlayer`, but of the time of the group: threads outlive adapters. */
  readonly adapter: string | null;
  /** Receives the ids of the members that may begin. The sender closes it. */
  readonly begin: MessagePort;
}

/** What the members of a group wait for while their thread loads the task and opens its environment. */
export const PREPARING = "the task's file and its environment";
/** What a member waits for until the gathering lets it begin. */
export const TURN_TO_BEGIN = "its turn to begin";

/** Messages of workers about rollouts. Each rollout ends with one "done" or "failed". */
export type RolloutMessage =
  | { readonly kind: "waiting"; readonly id: string; readonly thread: number; readonly waiting: Waiting }
  | { readonly kind: "done"; readonly trajectory: Trajectory }
  | { readonly kind: "failed"; readonly failure: RolloutFailure };

/** A "note" is for the user, once. A thread that has "started" hears demands through the port. */
export type WorkerMessage =
  | { readonly kind: "started"; readonly thread: number; readonly port: MessagePort }
  | { readonly kind: "note"; readonly text: string }
  | RolloutMessage;

/** To a thread: to "answer", which it does unless its code blocks it; to "close" what it holds (an environment, processes), and then the port. */
export type ThreadDemand = "answer" | "close";

/** Null, or an error message for the user: the worker could not start to play. */
export type GroupResult = { setupError: string } | null;
