/** `yarn hone replay`: recomputes committed steps of a run. */

import { UnfinishedError } from "../../core/util/errors.js";
import { planOf } from "../../trainer/plan-run.js";
import { replay } from "../../trainer/replay/replay.js";
import type { PlanReplay, ReplayCheck, ReplayedStep } from "../../trainer/replay/types.js";
import { defineCommand } from "../command.js";

const line = ({ part, result, text }: ReplayCheck) => `  ${part.padEnd(18)}${result.padEnd(9)}${text}`;

const stepText = (run: string, { step, checks }: ReplayedStep) =>
  [`${run}, step ${step}:`, ...checks.map(line)].join("\n");

export const replayCommand = defineCommand({
  name: "replay",
  positional: "run",
  epilogue:
    "same: every bit. close: to rounding, on another machine or with other threads. Exits with an error where a part differs.",
  async run(config, { given, log, signal }) {
    const onStep = (run: string, done: ReplayedStep) => log(stepText(run, done));
    const planned = (...[given, reward, io]: Parameters<PlanReplay>) => planOf({ given, reward, ...io });
    const done = await replay(config, given, planned, { log, signal, onStep });
    log(`not rebuilt: ${done.notRebuilt.join("; ")}`);
    const differing = done.steps.flatMap(({ step, checks }) => {
      const other = checks.filter(({ result }) => result === "differs").map(({ part }) => part);
      return other.length === 0 ? [] : [`step ${step} of ${done.run} cannot be reproduced: other ${other.join(", ")}`];
    });
    if (differing.length === 0) return done;
    throw new UnfinishedError(differing.join("; "), done);
  },
});
