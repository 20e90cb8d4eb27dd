/**
 * hone as a library: `import { openModel, gather, train } from "@hone-rl/hone"`. Task files import `defineTask` and what goes
 * with it from here; programs that own their training loop import the rest. docs/library.md describes it.
 */

// Types of Node that declarations use: a program need not name them in its own configuration.
/// <reference types="node" preserve="true" />

/** The very zod that hone checks arguments with: a task file needs no package of its own. */
export { z } from "zod";
export {
  createHone,
  type EvaluateChoice,
  evaluate,
  type GatherChoice,
  type GivenReward,
  gather,
  type HoneProvider,
  type HoneProviderOptions,
  type LocalProviderOptions,
  Model,
  type ModelOptions,
  type OpenTask,
  openModel,
  openRun,
  openTask,
  type RewardFunction,
  type Ruler,
  type RulerOptions,
  type RunOptions,
  ruler,
  type ServedProviderOptions,
  type SftChoice,
  type SftOptions,
  type SftSummary,
  sft,
  sftOptions,
  type TaskChoice,
  type TrainChoice,
  type TrainEvents,
  TrainingRun,
  type TrainRunChoice,
  type TrainRunOptions,
  type TrainStart,
  type TrainSummary,
  train,
  trainOptions,
  trainRun,
} from "./composition/index.js";
export type { EngineInfo, LocalEngineInfo } from "./engine/index.js";
export type { Gathered } from "./gather/index.js";
export type { GroupReward } from "./reward/index.js";
export type { AgentCounts, Branch, Player, RolloutFailure, TokenRecord, Trajectory } from "./rollout/index.js";
export type { Adapter, Evaluation, MetricsLine, ValidationRow } from "./run/index.js";
export {
  type AgentContext,
  type AgentFailure,
  type AgentRollout,
  type AgentTaskDefinition,
  answerOf,
  type CallOutcome,
  type CallRecord,
  type ChatMessage,
  type Claim,
  type CommonOptions,
  type ComposedReward,
  type Composition,
  composeReward,
  defineTask,
  defineTool,
  type ExpertHears,
  type ExpertOptions,
  type ExpertTurn,
  exactMatch,
  type FileScenarios,
  type FinishedRollout,
  type FromFile,
  fromFile,
  type Given,
  jsonMatch,
  jsonSchema,
  type ModelMistakes,
  matches,
  numericMatch,
  type PlainOptions,
  ProgramError,
  type ProgramOptions,
  type Ran,
  type ReplyContext,
  type Reward,
  type RewardPart,
  type RolloutEnd,
  type Scenario,
  type ScenarioIo,
  type Score,
  type ServerDefinition,
  type Split,
  type Task,
  type TaskDefinition,
  type TaskOptions,
  type TaskServers,
  type Tool,
  type ToolCall,
  type ToolContext,
  ToolError,
} from "./tasks/index.js";
/** Errors that say in one line what is wrong: HoneError what cannot be done, UsageError (one of those) what was asked wrongly. */
export { HoneError, Random, UsageError } from "./util/index.js";
