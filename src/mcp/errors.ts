/** Failures of servers by name; a rollout that ends because of one counts it. */
import { HoneError } from "../util/errors.js";

export type ServerProblem =
  /** Its program does not exist, or ended before it answered. */
  | "server_not_started"
  | "server_silent"
  /** Its process ended, or its address stopped answering. */
  | "server_died"
  /** Its tools differ from those in the catalogue. */
  | "tools_changed"
  /** A message exceeded the size limit. */
  | "message_too_long";

/** Not the model's mistake: the rollout ends as with any failing tool. */
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

/** Events of a rollout's servers that are not failures but are counted too. */
export type ServerEvent =
  | ServerProblem
  /** A result was longer than the model's limit. */
  | "result_cut"
  /** Images, sound and other binary data were left out of a result. */
  | "binary_left_out"
  /** Lines on stdout that were not messages. */
  | "stray_output"
  /** A call got no answer before its deadline. */
  | "call_timed_out"
  /** A server that had died or hung in another rollout was restarted. */
  | "server_restarted";

export type ServerEvents = Partial<Record<ServerEvent, number>>;
