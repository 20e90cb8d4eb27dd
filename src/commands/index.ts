/** Every command, in the order `yarn hone --help` lists them. */
import type { Command } from "../config/command.js";
import { buildDbCommand } from "../tasks/email/commands/build-db.js";
import { demoCommand } from "../tasks/email/commands/demo.js";
import { readCommand } from "../tasks/email/commands/read.js";
import { scenariosCommand } from "../tasks/email/commands/scenarios.js";
import { searchCommand } from "../tasks/email/commands/search.js";
import { evalCommand } from "./eval.js";
import { judgeCommand } from "./judge.js";
import { logprobsCommand } from "./logprobs.js";
import { playCommand } from "./play.js";
import { rolloutCommand } from "./rollout.js";
import { runsCommand } from "./runs.js";
import { sftCommand } from "./sft.js";
import { trainCommand } from "./train.js";

export const commands: readonly Command[] = [
  demoCommand,
  buildDbCommand,
  scenariosCommand,
  searchCommand,
  readCommand,
  rolloutCommand,
  judgeCommand,
  sftCommand,
  trainCommand,
  evalCommand,
  runsCommand,
  playCommand,
  logprobsCommand,
];
