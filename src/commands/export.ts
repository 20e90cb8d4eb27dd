/** `yarn hone export`: writes a trained model in a format that other programs load. */
import { defineCommand } from "../config/index.js";
import { exportRun } from "../export/index.js";
import { linesTo } from "../models/index.js";
import { hone } from "../util/index.js";

export const exportCommand = defineCommand({
  name: "export",
  summary: "Write a trained model for other programs (PEFT, GGUF, safetensors, Ollama), or push it to the Hub.",
  example: `${hone("export")} --to gguf --type q8_0`,
  required: ["to"],
  positional: "run",
  epilogue:
    "--out is the folder to make; without it exports/RUN-STEP-FORM in the home folder. docs/export.md says how each form is loaded.",
  async run(config, io) {
    const done = await exportRun(config, linesTo(io.log, io.signal));
    io.log(`${done.folder}: ${done.files.join(", ")}`);
    if (done.repository !== null) io.log(`on the Hub: ${done.repository}`);
    return done;
  },
});
