/** Every command, in the order `yarn hone --help` lists them. */
import { buildDbCommand } from "./build-db.js";
import type { Command } from "./command.js";
import { playCommand } from "./play.js";
import { rolloutCommand } from "./rollout.js";

export const commands: readonly Command[] = [buildDbCommand, rolloutCommand, playCommand];
