/** All checks, in order of their dependencies. */

import type { OnLine } from "../../core/util/run.js";
import { buildForMachine } from "../../engine/device/build.js";
import { reportDevice, usesCuda } from "../../engine/device/device.js";
import { packagesIn } from "../../engine/device/runtime.js";
import { describe } from "../../engine/device/visible.js";
import { withHeartbeat } from "../../engine/heartbeat.js";
import { modelFile } from "../../engine/models.js";
import { packagesOfPython } from "../../machine/python/given.js";
import { type Check, none } from "./check.js";
import { checkAddon, checkBackends, checkCard, checkCuda, checkDriver } from "./gpu.js";
import { checkDisk, checkMemory, checkNode } from "./machine.js";
import { checkPython } from "./python.js";
import { checkTrial } from "./try.js";
import { checkVllm, type VllmConfig } from "./vllm.js";

/** Seconds of rollouts of the tiny model. */
const PLAYED = 5;

/**
 * @param onCheck called with each check as soon as it is done
 * @param log reports work that takes long
 * @throws UsageError when `device` names no card
 */
export async function diagnose(
  choice: VllmConfig,
  signal: AbortSignal,
  log: (text: string) => void,
  onCheck: (check: Check) => void,
): Promise<void> {
  const said = <T>(what: string, work: (onLine: OnLine) => Promise<T>) =>
    withHeartbeat(log, (onLine) => {
      onLine(what);
      return work(onLine);
    });
  onCheck(checkNode());
  onCheck(checkMemory());
  onCheck(checkDisk(choice.home));
  const addon = checkAddon();
  onCheck(addon);
  onCheck(checkBackends());

  const report = reportDevice(
    choice,
    choice.python === undefined ? packagesIn() : await packagesOfPython(choice.python),
  );
  // Where the driver runs no CUDA, that is what is wrong.
  const card = usesCuda(choice, report) && report.cuda?.majors.length ? report.card : undefined;
  const { checks, facts } = await said("asking Python for its packages", () =>
    checkPython(choice.python, choice.learner, card && describe(card), card && buildForMachine(report)),
  );
  onCheck(checkCard(report, choice.gpu));
  onCheck(checkDriver(report, choice.gpu));
  for (const check of checks) onCheck(check);
  onCheck(checkCuda(report, facts?.torch ? facts.torch.cuda : undefined, choice.gpu));
  if (addon.state === "wrong") {
    onCheck(none("rollouts", "not tried: the engine's addon does not load"));
    return;
  }
  const { gpu, device, threads, learner } = choice;
  const request = {
    gpu,
    device,
    threads,
    learner,
    model: modelFile("tiny"),
    python: facts?.executable ?? null,
    seconds: PLAYED,
  };
  const tried = await said("trying a small training step of the tiny model", (onLine) =>
    checkTrial(request, signal, onLine),
  );
  for (const check of tried) onCheck(check);
  if (choice.engine !== "vllm") {
    if (choice.model === undefined) return;
    const { checkModel } = await import("./model.js");
    onCheck(await checkModel(choice.model, choice));
    return;
  }
  for (const check of await checkVllm(choice, usesCuda(choice, report), signal, log)) onCheck(check);
}
