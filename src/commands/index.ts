/** Every command, in the order `yarn hone --help` lists them. */
import type { Command } from "../config/index.js";
import { chatCommand } from "./chat.js";
import { checkCommand } from "./check.js";
import { doctorCommand } from "./doctor.js";
import { emailCommands } from "./email/index.js";
import { evalCommand } from "./eval.js";
import { execCommand } from "./exec.js";
import { exportCommand } from "./export.js";
import { initCommand } from "./init.js";
import { judgeCommand } from "./judge.js";
import { logprobsCommand } from "./logprobs.js";
import { metricsCommand } from "./metrics.js";
import { modelsCommands } from "./models.js";
import { packCommands } from "./pack.js";
import { playCommand } from "./play.js";
import { reportCommand } from "./report.js";
import { rolloutCommand } from "./rollout.js";
import { rolloutsCommand } from "./rollouts.js";
import { runsCommand } from "./runs.js";
import { serveCommand } from "./serve.js";
import { sftCommand } from "./sft.js";
import { trainCommand } from "./train.js";
import { viewCommand } from "./view.js";

export const commands: readonly Command[] = [
  ...emailCommands,
  initCommand,
  checkCommand,
  rolloutCommand,
  judgeCommand,
  sftCommand,
  trainCommand,
  evalCommand,
  runsCommand,
  viewCommand,
  reportCommand,
  exportCommand,
  ...packCommands,
  rolloutsCommand,
  metricsCommand,
  ...modelsCommands,
  serveCommand,
  chatCommand,
  playCommand,
  execCommand,
  logprobsCommand,
  doctorCommand,
];
