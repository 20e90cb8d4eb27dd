/**
 * hone as a library: `import { openModel, gather, train } from "@hone-rl/hone"`. Task files import `defineTask` and what goes
 * with it from here; programs that own their training loop import the rest. docs/library.md describes it.
 */

// Types of Node that declarations use: a program need not name them in its own configuration.
/// <reference types="node" preserve="true" />

/** The very zod that hone checks arguments with: a task file needs no package of its own. */
export { z } from "zod";
export { type Episode, type OpenEnvSettings, openEnv } from "./agent/openenv/task.js";
export { type BaseLimits, type BaseModel, withBase } from "./agent/with-base.js";
export { jsonSchema } from "./chat/json-schema.js";
export type { EngineInfo, LocalEngineInfo } from "./core/engine/engine.js";
export type { Gathered } from "./core/gather/gather.js";
export type { GroupReward } from "./core/reward/reward.js";
export type { AgentCounts, Branch, PlayedNode, Player, RolloutFailure, Trajectory } from "./core/rollout/trajectory.js";
export type { TokenRecord } from "./core/rollout/transcript.js";
export type { Adapter, Evaluation, MetricsLine, ValidationRow } from "./core/run/records.js";
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
} from "./core/task/agent.js";
export type { ServerDefinition, TaskServers } from "./core/task/servers.js";
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
} from "./core/task/task.js";
/** Errors that say in one line what is wrong: HoneError what cannot be done, UsageError (one of those) what was asked wrongly. */
export { HoneError, UsageError } from "./core/util/errors.js";
export { Random } from "./core/util/random.js";
export {
  createHone,
  type HoneProvider,
  type HoneProviderOptions,
  type LocalProviderOptions,
  type ServedProviderOptions,
} from "./hone/provider.js";
export { answerOf, exactMatch, type Given, jsonMatch, matches, numericMatch } from "./judge/reward/checks.js";
export {
  type ComposedReward,
  type Composition,
  composeReward,
  type RewardPart,
  type Score,
} from "./judge/reward/compose.js";
export { type FileScenarios, type FromFile, fromFile } from "./machine/dataset/from-file.js";
export { type EvaluateChoice, evaluate } from "./trainer/evaluate.js";
export type { TrainEvents, TrainStart } from "./trainer/events.js";
export { type GatherChoice, gather } from "./trainer/gather.js";
export { Model, type ModelOptions, openModel } from "./trainer/model.js";
export type { RunPlan } from "./trainer/plan-run.js";
export type { GivenReward } from "./trainer/rewards.js";
export { type Ruler, type RulerOptions, ruler } from "./trainer/ruler.js";
export { openRun, planRun, trainRun } from "./trainer/run.js";
export { sft } from "./trainer/sft.js";
export { type SftChoice, type SftOptions, type SftSummary, sftOptions } from "./trainer/sft-options.js";
export type { TrainSummary } from "./trainer/summary.js";
export { type OpenTask, openTask, type TaskChoice } from "./trainer/task.js";
export { type TrainChoice, train } from "./trainer/train.js";
export {
  type RewardFunction,
  type RunEvents,
  type RunOptions,
  type TrainRunChoice,
  type TrainRunOptions,
  trainOptions,
} from "./trainer/train-options.js";
export { TrainingRun } from "./trainer/training-run.js";
