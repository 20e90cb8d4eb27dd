/** Tools of MCP servers: listing them, and calling them in rollouts. */
export { type LeftOut, type ServerTool, toolsFingerprint } from "./catalogue.js";
export type { ListedTool } from "./connection.js";
export { type ServerEvents, ServerFailure } from "./errors.js";
export { type Guarded, programOf, startGuarded } from "./guarded.js";
export type { Listed } from "./listing.js";
export {
  type McpConfig,
  planServers,
  type ServerPlan,
  type Surveyed,
  serverLogs,
  surveyServers,
  usablePlan,
} from "./plan.js";
export { McpServers, type RolloutServers, withServerTools } from "./servers.js";
export type { ServerSpec } from "./servers-file.js";
