/** With `--model`: whether that model trains on this machine, by the memory plan. */

import { hone } from "../../core/util/program.js";
import type { MachineChoice } from "../../engine/engine-options.js";
import { showModel } from "../../machine/models/installed.js";
import type { ModelConfig } from "../../machine/models/wanted.js";
import { fitText } from "../../machine/plan/by-default.js";
import { machineText, plannedFor, thisMachine } from "../../machine/plan/here.js";
import { type Check, none, note, ok } from "./check.js";

/** @throws UsageError for a name that is none */
export async function checkModel(model: string, config: ModelConfig & MachineChoice): Promise<Check> {
  const { name, shape } = await showModel(model, config);
  // What is wrong with a GPU other checks say.
  const here = await thisMachine(() => undefined, config);
  const { fits } = plannedFor(shape, here);
  if (fits === undefined) {
    return none(
      "model",
      `${name} is not on this machine, so that its shape is not known; \`${hone("models pull")} ${model}\``,
    );
  }
  const where = `with default settings on ${machineText(here)}`;
  if (fits === null)
    return note(
      "model",
      `${name} does not train ${where} by the memory plan`,
      `\`${hone("models")}\` lists smaller ones`,
    );
  if ("flags" in fits) return note("model", `${name} trains here with options, by the memory plan`, fitText(fits));
  return ok("model", `${name} trains here ${where}: ${fitText(fits)}, by the memory plan`);
}
