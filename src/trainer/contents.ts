/** Fingerprints of all that defines a run besides its settings: with other contents it is another run. */

import { toolsFingerprint } from "../agent/servers.js";
import type { RunRecord } from "../core/run/records.js";
import type { ServerPlan } from "../core/task/servers.js";
import type { AnyTask, Scenario } from "../core/task/task.js";
import { modelFingerprint } from "../engine/models.js";
import { scenariosFingerprint } from "../scenarios/held-out.js";

/** @param model its file */
export function contentsOf(
  model: string,
  task: AnyTask,
  scenarios: readonly Scenario[],
  servers: ServerPlan | undefined,
): RunRecord["contents"] {
  return {
    model: modelFingerprint(model),
    task: task.name,
    scenarios: scenariosFingerprint(scenarios),
    ...(servers ? { tools: toolsFingerprint(servers.tools) } : {}),
  };
}
