/** What a user's task file imports from "hone". */

/** The very zod that hone checks arguments with: a task file needs no package of its own. */
export { z } from "zod";
export {
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
} from "./tasks/index.js";
export { Random } from "./util/index.js";
