/** Every command, in the order `yarn hone --help` lists them. */

import type { Command } from "../config/command.js";
import { buildDbCommand } from "./build-db.js";
import { demoCommand } from "./demo.js";
import { evalCommand } from "./eval.js";
import { judgeCommand } from "./judge.js";
import { logprobsCommand } from "./logprobs.js";
import { playCommand } from "./play.js";
import { readCommand } from "./read.js";
import { rolloutCommand } from "./rollout.js";
import { runsCommand } from "./runs.js";
import { scenariosCommand } from "./scenarios.js";
import { searchCommand } from "./search.js";
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
