/** `yarn doctor`: whether this machine can run hone, and how to fix each problem. */

import { UnfinishedError } from "../../core/util/errors.js";
import { reportDevice, usesCuda } from "../../engine/device/device.js";
import { fetchForGpu } from "../../machine/python/machine.js";
import { ensurePython } from "../../machine/python/python.js";
import { ensureVllm } from "../../machine/python/vllm.js";
import { defineCommand } from "../command.js";
import { type Check, checkText } from "../doctor/check.js";
import { diagnose } from "../doctor/diagnose.js";

export const doctorCommand = defineCommand({
  name: "doctor",
  async run(config, io) {
    if (config.install && config.python === undefined) {
      // Does not initialise the GPU, so the checks below see it as it is.
      const device = reportDevice(config);
      const { torchIndex } = config;
      const extras = config.learner === "unsloth" ? (["unsloth"] as const) : [];
      const { signal, log } = io;
      await ensurePython({ onProgress: log, signal, torchIndex, device, cpu: !usesCuda(config, device), extras });
      await fetchForGpu(config, reportDevice(config), log, signal);
      const { engine, engineUrl, enginePython: given } = config;
      if (engine === "vllm" && engineUrl === undefined) {
        await ensureVllm({ given, cuda: usesCuda(config, device), torchIndex, onProgress: log, signal });
      }
    }
    const checks: Check[] = [];
    await diagnose(config, io.signal, io.log, (check) => {
      checks.push(check);
      io.log(checkText(check));
    });
    const bad = checks.filter(({ state }) => state === "wrong").map(({ name }) => name);
    const result = { ok: bad.length === 0, checks };
    if (bad.length > 0) throw new UnfinishedError(`doctor: to be mended: ${bad.join(", ")}`, result);
    io.log("all is well");
    return result;
  },
});
