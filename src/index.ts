/** What a user's task file imports from "hone". */
export {
  type CallOutcome,
  type CallRecord,
  type ChatMessage,
  defineTask,
  defineTool,
  type ExpertOptions,
  type ExpertTurn,
  type FinishedRollout,
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
} from "./task/task.js";
export { Random } from "./util/random.js";
