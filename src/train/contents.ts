/** Fingerprints of all that defines a run besides its settings: with other contents it is another run. */
import { modelFingerprint } from "../engine/index.js";
import { type ServerPlan, toolsFingerprint } from "../mcp/index.js";
import type { RunRecord } from "../run/index.js";
import type { AnyTask, Scenario } from "../tasks/index.js";
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
