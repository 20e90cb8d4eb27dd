/** All checks, in order of their dependencies. */

import type { OnLine } from "../../core/util/run.js";
import { buildForMachine } from "../../engine/device/build.js";
import { reportDevice, usesCuda } from "../../engine/device/device.js";
import { packagesIn } from "../../engine/device/runtime.js";
import { describe } from "../../engine/device/visible.js";
import { withHeartbeat } from "../../engine/heartbeat.js";
import { packagesOfPython } from "../../machine/python/given.js";
import { type Check, none } from "./check.js";
import { checkAddon, checkBackends, checkCard, checkCuda, checkDriver } from "./gpu.js";
import { checkDisk, checkMemory, checkNode } from "./machine.js";
import { checkPython } from "./python.js";
import { checkTrial } from "./try.js";
import { checkVllm, type VllmConfig } from "./vllm.js";

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
  const tell = (checks: readonly Check[]) => checks.forEach(onCheck);
  const said = <T>(what: string, work: (onLine: OnLine) => Promise<T>) =>
    withHeartbeat(log, (onLine) => {
      onLine(what);
      return work(onLine);
    });
  const { gpu, device, threads, learner, python } = choice;
  tell([checkNode(), checkMemory(), checkDisk(choice.home)]);
  // An addon may end this process as it loads: what was found before is told by then.
  const addon = checkAddon();
  tell([addon, checkBackends()]);

  const report = reportDevice(choice, python === undefined ? packagesIn() : await packagesOfPython(python));
  // Where the driver runs no CUDA, that is what is wrong.
  const card = usesCuda(choice, report) && report.cuda?.majors.length ? report.card : undefined;
  const { checks, facts } = await said("asking Python for its packages", () =>
    checkPython(python, learner, card && describe(card), card && buildForMachine(report)),
  );
  const torchCuda = facts?.torch ? facts.torch.cuda : undefined;
  tell([checkCard(report, gpu), checkDriver(report, gpu), ...checks, checkCuda(report, torchCuda, gpu)]);
  if (addon.state === "wrong") return onCheck(none("rollouts", "not tried: the engine's addon does not load"));
  const request = { gpu, device, threads, learner, python: facts?.executable ?? null };
  tell(await said("trying a small training step of the tiny model", (onLine) => checkTrial(request, signal, onLine)));
  if (choice.engine === "vllm") return tell(await checkVllm(choice, usesCuda(choice, report), signal, log));
  if (choice.model === undefined) return;
  const { checkModel } = await import("./model.js");
  onCheck(await checkModel(choice.model, choice));
}
