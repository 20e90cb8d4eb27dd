/** The task contract, and how a task is found. The email task is a room of its own in email/. */

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
  rewardReturned,
} from "./agent.js";
export { answerOf, exactMatch, type Given, jsonMatch, matches, numericMatch } from "./checks.js";
export {
  type ComposedReward,
  type Composition,
  composeReward,
  type RewardPart,
  RULER_PART,
  rulerWeightOf,
  type Score,
} from "./compose.js";
export { type FileScenarios, type FromFile, fromFile } from "./dataset/index.js";
export { type BuildProgress, type BuildSource, type BuildSummary, buildMailDatabase } from "./email/building/index.js";
export { findSource, importMail, QuestionReader, type Skipped } from "./email/import/index.js";
export {
  type EmailScenario,
  emailTask,
  type MailDatabase,
  type MailHeader,
  type MailHit,
  mailDatabasePath,
  openMailDatabase,
  sameAnswer,
} from "./email/index.js";
export { kinds, type Mailbox, syntheticWorld, type WorldOptions } from "./email/synthetic/index.js";
export { TASK_SECONDS } from "./limits.js";
export { loadTask, scenariosOf } from "./load.js";
export { promptOf } from "./messages.js";
export {
  givenForTask,
  recordedForTask,
  resolveTaskOptions,
  taskDifferences,
  taskOptionsOf,
  taskOptionsText,
} from "./options.js";
export {
  type ArgumentsOf,
  checkArguments,
  jsonSchema,
  parameterNames,
  problemByRequest,
  type ToolParameters,
} from "./parameters.js";
export { translated, Untranslatable } from "./patterns.js";
export { checkReward } from "./reward-checks.js";
export type { ServerDefinition, ServerScope, TaskServers } from "./servers.js";
export {
  type AgentTaskDefinition,
  type AnyTask,
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
  type ToolSchema,
  toolSchema,
} from "./task.js";
