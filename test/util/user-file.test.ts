/** A user's own TypeScript files run as they are on the disk. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const folder = mkdtempSync(join(tmpdir(), "hone-user-file-"));
afterAll(() => rmSync(folder, { recursive: true }));

it("nothing that others can write to is run in place of a task file or a configuration", () => {
  const temporary = join(folder, "shared");
  const project = join(folder, "project");
  for (const path of [temporary, project]) mkdirSync(path);
  writeFileSync(join(project, "hone.config.ts"), 'console.log("honest"); export default {} as object;');
  writeFileSync(join(project, "program.ts"), 'console.log("honest" as string);');
  const run = () => {
    const cli = join(packageRoot, "dist/src/cli.js");
    const env = { PATH: process.env.PATH, HOME: folder, TMPDIR: temporary };
    const { stdout, stderr } = spawnSync(process.execPath, [cli, "exec", "program.ts"], {
      cwd: project,
      encoding: "utf8",
      env,
    });
    return stdout + stderr;
  };
  expect(run()).toBe("honest\nhonest\n");
  for (const name of existsSync(temporary) ? readdirSync(temporary, { recursive: true, encoding: "utf8" }) : []) {
    if (!name.endsWith("js")) continue;
    const file = join(temporary, name);
    writeFileSync(file, readFileSync(file, "utf8").replaceAll("honest", "poisoned"));
  }
  expect(run()).toBe("honest\nhonest\n");
});
