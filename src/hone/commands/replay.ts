/** `yarn hone replay`: recomputes a committed step of a run. */

import { UnfinishedError } from "../../core/util/errors.js";
import { planOf } from "../../trainer/plan-run.js";
import { replay } from "../../trainer/replay/replay.js";
import type { ReplayCheck } from "../../trainer/replay/types.js";
import { defineCommand } from "../command.js";

const line = ({ part, result, text }: ReplayCheck) => `  ${part.padEnd(18)}${result.padEnd(9)}${text}`;

export const replayCommand = defineCommand({
  name: "replay",
  positional: "run",
  epilogue:
    "same: every bit. close: to rounding, on another machine or with other threads. Exits with an error where a part differs.",
  async run(config, { given, log, signal }) {
    const done = await replay(config, given, (given, reward, io) => planOf({ given, reward, ...io }), { log, signal });
    log([`${done.run}, step ${done.step}:`, ...done.checks.map(line)].join("\n"));
    const other = done.checks.filter(({ result }) => result === "differs").map(({ part }) => part);
    if (other.length === 0) return done;
    throw new UnfinishedError(`step ${done.step} of ${done.run} cannot be reproduced: other ${other.join(", ")}`, done);
  },
});
