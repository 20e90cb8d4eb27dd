/** The email task's own commands, in the order `yarn hone --help` lists them. */
import type { Command } from "../../config/index.js";
import { buildDbCommand } from "./build-db.js";
import { demoCommand } from "./demo.js";
import { readCommand } from "./read.js";
import { scenariosCommand } from "./scenarios.js";
import { searchCommand } from "./search.js";

/** @public Commands stand above all rooms, so the door of the tasks cannot pass these on. */
export const emailCommands: readonly Command[] = [
  demoCommand,
  buildDbCommand,
  scenariosCommand,
  searchCommand,
  readCommand,
];
