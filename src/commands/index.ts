/** Every command, in the order `yarn hone --help` lists them. */
import { buildDbCommand } from "./build-db.js";
import type { Command } from "./command.js";
import { playCommand } from "./play.js";
import { readCommand } from "./read.js";
import { rolloutCommand } from "./rollout.js";
import { scenariosCommand } from "./scenarios.js";
import { searchCommand } from "./search.js";
import { sftCommand } from "./sft.js";
import { trainCommand } from "./train.js";

export const commands: readonly Command[] = [
  buildDbCommand,
  scenariosCommand,
  searchCommand,
  readCommand,
  rolloutCommand,
  sftCommand,
  trainCommand,
  playCommand,
];
