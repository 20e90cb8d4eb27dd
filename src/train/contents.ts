/** Fingerprints of all that defines a run besides its settings: with other contents it is another run. */
import { modelFingerprint } from "../engine/models.js";
import { toolsFingerprint } from "../gather/servers.js";
import type { RunRecord } from "../run/records.js";
import type { ServerPlan } from "../tasks/servers.js";
import type { AnyTask, Scenario } from "../tasks/task.js";
import { scenariosFingerprint } from "./sampler.js";

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
