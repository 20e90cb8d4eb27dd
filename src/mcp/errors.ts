/** What can go wrong with a server, by name: a rollout that ends of it counts it. */
import { HoneError } from "../util/index.js";

export type ServerProblem =
  /** Its program is not there, or ended before it had answered. */
  | "server_not_started"
  | "server_silent"
  /** Its process ended, or its address does not answer any more. */
  | "server_died"
  /** It has other tools than the model was told of. */
  | "tools_changed"
  /** More bytes in one message than anybody should read. */
  | "message_too_long";

/** Not the model's doing: the rollout ends of it as of any failing tool. */
export class ServerFailure extends HoneError {
  constructor(
    readonly problem: ServerProblem,
    readonly server: string,
    what: string,
    options?: ErrorOptions,
  ) {
    super(`the MCP server ${server} ${what}`, options);
  }
}

/** Events of a rollout's servers that are no failures, and are counted too. */
export type ServerEvent =
  | ServerProblem
  /** A result was longer than the model may read. */
  | "result_cut"
  /** Images, sound and other bytes were left out of a result. */
  | "binary_left_out"
  /** Lines on stdout that were no messages. */
  | "stray_output"
  /** A call had no answer when its time was over. */
  | "call_timed_out"
  /** A server that had died or hung under other rollouts was started anew. */
  | "server_restarted";

export type ServerEvents = Partial<Record<ServerEvent, number>>;
