/** `yarn hone export`: writes a trained model in a format that other programs load. */

import { exportRun } from "../../machine/export/export.js";
import { defineCommand } from "../command.js";

export const exportCommand = defineCommand({
  name: "export",
  required: ["to"],
  positional: "run",
  epilogue:
    "--out is the folder to make; without it exports/RUN-STEP-FORM in the home folder. docs/export.md says how each form is loaded.",
  async run(config, io) {
    const done = await exportRun(config, io);
    io.log(`${done.folder}: ${done.files.join(", ")}`);
    if (done.repository !== null) io.log(`on the Hub: ${done.repository}`);
    return done;
  },
});
