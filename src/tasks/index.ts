/** The task contract, and how a task is found. The email task is a room of its own in email/. */

export { loadTask, scenariosOf } from "./load.js";
export { taskOptionsOf } from "./options.js";
export {
  type AnyTask,
  type CallOutcome,
  type CallRecord,
  type ChatMessage,
  type Claim,
  defineTask,
  defineTool,
  type ExpertHears,
  type ExpertOptions,
  type ExpertTurn,
  type FinishedRollout,
  type ReplyContext,
  type Reward,
  type RolloutEnd,
  type Scenario,
  type Split,
  type Task,
  type TaskOptions,
  type Tool,
  type ToolCall,
  type ToolContext,
  ToolError,
  type ToolSchema,
  toolSchema,
} from "./task.js";
