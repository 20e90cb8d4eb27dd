/** Rollouts: conversations of a player with a task. */
export type { ApiSettings } from "./api-session.js";
export { ApiSession } from "./api-session.js";
export { type Answered, OutOfTime, type Running, runCall, ToolFailure } from "./calls.js";
export {
  type Chat,
  type ChatSettings,
  chatOf,
  chatOptions,
  chatSettings,
  requireFormat,
  requireWriter,
  templateOf,
} from "./chat.js";
export { brokenOff, type DeadlineCause, deadlineCause } from "./deadline.js";
export type { SamplingSettings } from "./engine-session.js";
export { EngineSession } from "./engine-session.js";
export { ExpertSession } from "./expert-session.js";
export { type FieldTag, formatNamed, formatNames, formats } from "./formats/index.js";
export { openSession } from "./open-session.js";
export type { EnginePlayer, PlayerSpec } from "./player.js";
export { type ReadTurn, readTurn, withIds } from "./reading.js";
export { type Refusal, refusalByRequest } from "./refusals.js";
export { opening, playRollout, type RolloutLimits, type RolloutOutcome, type Waiting } from "./rollout.js";
export { type SampledTurn, type SampleOptions, sampleTurn } from "./sample.js";
export type { Opening, Session, Turn, TurnLimits } from "./session.js";
export { type BoundedTokenizer, ChatTemplate, callId, type TemplateTokenizer } from "./template.js";
export { splitThoughts, withoutThoughts } from "./thoughts.js";
export {
  type AgentCounts,
  type Branch,
  callsIn,
  type HasCalls,
  type PlayedNode,
  type Player,
  type RolloutFailure,
  readTrajectories,
  type Trajectory,
} from "./trajectory.js";
export { type Segment, type TokenRecord, Transcript } from "./transcript.js";
