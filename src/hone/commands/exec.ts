/** `yarn hone exec`: runs a program (JavaScript or TypeScript) that imports hone, from any folder. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { importUserFile } from "../../core/util/user-file.js";
import { allowExit } from "../../core/util/watch.js";
import { defineCommand } from "../command.js";

export const execCommand = defineCommand({
  name: "exec",
  required: ["program"],
  positional: "program",
  epilogue: "The program finds its arguments in process.argv; those that begin with - come after --.",
  async run({ program: [name = "", ...args] }) {
    const file = resolve(name);
    if (!existsSync(file)) throw new UsageError(`exec: there is no file ${file}`);
    process.argv = [process.execPath, file, ...args];
    allowExit();
    try {
      await importUserFile(file);
    } catch (error) {
      if (error instanceof HoneError) throw error;
      // A defect of the program, whose author needs the stack.
      const stack = error instanceof Error ? error.stack : undefined;
      throw new HoneError(`${file} failed: ${stack ?? messageOf(error)}`, { cause: error });
    }
    return { program: file };
  },
});
