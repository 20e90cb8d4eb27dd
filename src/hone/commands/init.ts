/** `hone init`: a new project with a task of its own, ready for `npm run train`. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import type { Config } from "../../core/config/config.js";
import { DEFAULT_MODEL } from "../../core/config/defaults.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { type CommandIo, defineCommand } from "../command.js";
import { besideOf, dependencyOf, type Ground, groundOf, nameOf, writeProject } from "../init/init.js";
import { honeOf } from "../init/templates.js";

type Asked = Pick<Config, "package" | "model">;

/** Asks for each value that no option gave. */
async function ask(given: Asked, { package: before }: Ground, io: CommandIo): Promise<Asked> {
  const lines = createInterface({ input: process.stdin, output: io.stream });
  // On a terminal readline intercepts Ctrl-C; pass it on as SIGINT.
  lines.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
  const answer = async (question: string) =>
    (await lines.question(question, { signal: io.signal })).trim() || undefined;
  try {
    const known = given.package ?? (before && honeOf(before));
    return {
      package: known ?? (await answer("hone's tarball, as `yarn package` makes it: ")),
      model: given.model ?? (await answer(`Model to train (${DEFAULT_MODEL}, a smoke test): `)),
    };
  } catch (error) {
    // Ctrl-D.
    if (error instanceof Error && error.name === "AbortError" && !io.signal.aborted)
      throw new HoneError("init was ended");
    throw error;
  } finally {
    lines.close();
  }
}

export const initCommand = defineCommand({
  name: "init",
  positional: "folder",
  async run(config, io) {
    const ground = groundOf(config.folder);
    const interactive = process.stdin.isTTY === true && io.stream.isTTY === true;
    if (!config.yes && !interactive) {
      throw new UsageError(
        "init asks, and there is no terminal to answer at; --yes takes the defaults for what is not given",
      );
    }
    const answered = config.yes ? config : await ask(config, ground, io);
    const before = ground.package && honeOf(ground.package);
    if (answered.package === undefined && before === undefined) {
      throw new UsageError(
        "init needs --package: the tarball that `yarn package` makes of hone, or a published version such as @hone-rl/hone@1.2.3",
      );
    }
    const dependency =
      answered.package === undefined ? (before as string) : dependencyOf(answered.package, ground.folder);
    const named = answered.model ?? DEFAULT_MODEL;
    // A file is named from here, and read from the project's folder.
    const model = existsSync(named) ? resolve(named) : named;
    const name = nameOf(ground.folder);
    const files = writeProject(ground, { name, hone: dependency, beside: besideOf(dependency, ground.folder), model });
    const smoke = model === DEFAULT_MODEL;
    io.log(
      [
        `${ground.folder}: ${files.join(", ")}`,
        "Now, in that folder:",
        // An unpacked hone is installed, and may have no network.
        ...(ground.unpacked ? [] : ["  npm install"]),
        `  npm run train              ${smoke ? "a smoke test with the tiny model, some minutes with the first download of PyTorch" : `trains ${model}`}`,
        ...(smoke ? ["  npm run train -- --run real --model qwen2.5-0.5b --steps 50      a real model"] : []),
      ].join("\n"),
    );
    return { folder: ground.folder, files, package: dependency, model };
  },
});
