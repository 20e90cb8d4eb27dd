/**
 * hone as a library: `import { openModel, gather, train } from "@hone-rl/hone"`. Task files import `defineTask` and what goes
 * with it from here; programs that own their training loop import the rest. docs/library.md describes it.
 */

// Types of Node that declarations use: a program need not name them in its own configuration.
/// <reference types="node" preserve="true" />

/** The very zod that hone checks arguments with: a task file needs no package of its own. */
export { z } from "zod";
export { type EvaluateChoice, evaluate } from "./composition/evaluate.js";
export type { TrainEvents, TrainStart } from "./composition/events.js";
export { type GatherChoice, gather } from "./composition/gather.js";
export { Model, type ModelOptions, openModel } from "./composition/model.js";
export type { RunPlan } from "./composition/plan-run.js";
export {
  createHone,
  type HoneProvider,
  type HoneProviderOptions,
  type LocalProviderOptions,
  type ServedProviderOptions,
} from "./composition/provider.js";
export type { GivenReward } from "./composition/rewards.js";
export { type Ruler, type RulerOptions, ruler } from "./composition/ruler.js";
export { openRun, planRun, trainRun } from "./composition/run.js";
export { sft } from "./composition/sft.js";
export { type SftChoice, type SftOptions, type SftSummary, sftOptions } from "./composition/sft-options.js";
export type { TrainSummary } from "./composition/summary.js";
export { type OpenTask, openTask, type TaskChoice } from "./composition/task.js";
export { type TrainChoice, train } from "./composition/train.js";
export {
  type RewardFunction,
  type RunEvents,
  type RunOptions,
  type TrainRunChoice,
  type TrainRunOptions,
  trainOptions,
} from "./composition/train-options.js";
export { TrainingRun } from "./composition/training-run.js";
export type { EngineInfo, LocalEngineInfo } from "./engine/engine.js";
export type { Gathered } from "./gather/gather.js";
export type { GroupReward } from "./reward/reward.js";
export type { AgentCounts, Branch, PlayedNode, Player, RolloutFailure, Trajectory } from "./rollout/trajectory.js";
export type { TokenRecord } from "./rollout/transcript.js";
export type { Adapter, Evaluation, MetricsLine, ValidationRow } from "./run/records.js";
export {
  type AgentContext,
  type AgentFailure,
  type AgentRollout,
  type Logger,
  type ModelMistakes,
  ProgramError,
  type ProgramOptions,
  type Ran,
  type RolloutContext,
} from "./tasks/agent.js";
export { answerOf, exactMatch, type Given, jsonMatch, matches, numericMatch } from "./tasks/checks.js";
export { type ComposedReward, type Composition, composeReward, type RewardPart, type Score } from "./tasks/compose.js";
export { type FileScenarios, type FromFile, fromFile } from "./tasks/dataset/from-file.js";
export { jsonSchema } from "./tasks/parameters.js";
export type { ServerDefinition, TaskServers } from "./tasks/servers.js";
export {
  type AgentTaskDefinition,
  type CallOutcome,
  type CallRecord,
  type ChatMessage,
  type Claim,
  type CommonOptions,
  defineTask,
  defineTool,
  type ExpertHears,
  type ExpertOptions,
  type ExpertTurn,
  type FinishedRollout,
  type PlainOptions,
  type ReplyContext,
  type Reward,
  type RolloutEnd,
  type Scenario,
  type ScenarioIo,
  type Split,
  type Task,
  type TaskDefinition,
  type TaskOptions,
  type Tool,
  type ToolCall,
  type ToolContext,
  ToolError,
} from "./tasks/task.js";
/** Errors that say in one line what is wrong: HoneError what cannot be done, UsageError (one of those) what was asked wrongly. */
export { HoneError, UsageError } from "./util/errors.js";
export { Random } from "./util/random.js";
