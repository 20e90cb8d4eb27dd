/** `yarn hone sft`: supervised fine-tuning on a trajectory file. */

import { givenOf } from "../../core/config/config.js";
import { clock } from "../../core/util/text.js";
import { learnerProgress } from "../../insight/report/progress-line.js";
import { learnerText } from "../../machine/compute.js";
import { sft } from "../../trainer/sft.js";
import { sftOptions } from "../../trainer/sft-options.js";
import { defineCommand } from "../command.js";

export const sftCommand = defineCommand({
  name: "sft",
  required: ["file", "model"],
  positional: "file",
  async run(_, io) {
    const { signal, log, progress } = io;
    const begun = performance.now();
    const summary = await sft(givenOf(io.given, sftOptions), {
      log,
      onLearner: (info) => log(learnerText(info)),
      onProgress: (told) =>
        progress.update(() => `${learnerProgress(told)}  ${clock((performance.now() - begun) / 1000)}`),
      signal,
    });
    const { loss, updates, seconds, written } = summary;
    log(
      `loss a token: ${loss.first.toFixed(3)} in the first update, ${loss.last.toFixed(3)} in the last of ${updates}; ${seconds.total.toFixed(1)} s\nwritten to ${written}`,
    );
    return summary;
  },
});
