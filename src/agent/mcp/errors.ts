/** Failures of servers by name; a rollout that ends because of one counts it. */

import type { ServerProblem } from "../../core/task/servers.js";
import { HoneError } from "../../core/util/errors.js";

/** Not the model's mistake: the rollout ends as with any failing tool. */
export class ServerFailure extends HoneError {
  constructor(
    readonly problem: ServerProblem,
    readonly server: string,
    what: string,
  ) {
    super(`the MCP server ${server} ${what}`);
  }
}
