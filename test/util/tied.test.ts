/** Programs that end with the process that started them. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const moduleAt = (path: string) => JSON.stringify(pathToFileURL(join(packageRoot, "dist/src", path)).href);

function isAlive(pid: number): boolean {
  const { stdout } = spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.trim() !== "" && !stdout.trim().startsWith("Z");
}

/** A shell that writes its id and that of a program which it has started, and waits for it. */
const family = (folder: string) => `sleep 1000 & echo $$ $! > ${folder}/new; mv ${folder}/new ${folder}/pids; wait`;

/** Starts a program by a process of its own, and returns both. */
async function started(program: (folder: string) => string) {
  const folder = mkdtempSync(join(tmpdir(), "hone-tied-"));
  const parent = spawn(process.execPath, ["--input-type=module", "-e", program(folder)], { stdio: "ignore" });
  await expect.poll(() => existsSync(join(folder, "pids"))).toBe(true);
  const pids = readFileSync(join(folder, "pids"), "utf8").trim().split(" ").map(Number);
  expect(pids.map(isAlive)).toEqual(pids.map(() => true));
  return { parent, pids };
}

async function killed({ parent, pids }: { parent: ChildProcess; pids: readonly number[] }) {
  parent.kill("SIGKILL");
  await once(parent, "close");
  await expect.poll(() => pids.filter(isAlive)).toEqual([]);
}

describe("when hone is killed", () => {
  it("converters, exports and their children end", async () => {
    const program = (folder: string) => `
      import { run } from ${moduleAt("machine/models/program.js")};
      await run("sh", ["-c", ${JSON.stringify(family(folder))}], {});`;
    await killed(await started(program));
  });

  it("installers end", async () => {
    const program = (folder: string) => `
      import { run } from ${moduleAt("core/util/run.js")};
      await run("sh", ["-c", ${JSON.stringify(`echo $$ > ${folder}/new; mv ${folder}/new ${folder}/pids; exec sleep 1000`)}]);`;
    await killed(await started(program));
  });

  it("doctor's trial ends", async () => {
    // As the trial, with a channel for messages.
    const program = (folder: string) => `
      import { spawnTied } from ${moduleAt("core/util/tied.js")};
      const options = { stdio: ["ignore", "ignore", "pipe", "ipc"], ownGroup: true };
      const child = spawnTied(process.execPath, ["-e", ${JSON.stringify(
        `const { renameSync, writeFileSync } = require("node:fs");
        process.on("message", (pid) => {
          writeFileSync("${folder}/new", String(pid));
          renameSync("${folder}/new", "${folder}/pids");
        });
        process.send(process.pid);`,
      )}], options).process;
      child.on("message", (pid) => child.send(pid));`;
    await killed(await started(program));
  });
});

describe("a program", () => {
  it("is ended with its children when the work is aborted", async () => {
    const program = (folder: string) => `
      import { existsSync } from "node:fs";
      import { run } from ${moduleAt("machine/models/program.js")};
      const stop = new AbortController();
      const left = setInterval(() => {
        if (existsSync("${folder}/go")) stop.abort(new Error("stopped"));
      }, 20);
      process.exitCode = await run("sh", ["-c", ${JSON.stringify(family(folder))}], { signal: stop.signal }).then(
        () => 0,
        (error) => (error.message === "stopped" ? 7 : 1),
      );
      clearInterval(left);`;
    const folder = mkdtempSync(join(tmpdir(), "hone-tied-"));
    const parent = spawn(process.execPath, ["--input-type=module", "-e", program(folder)], { stdio: "ignore" });
    await expect.poll(() => existsSync(join(folder, "pids"))).toBe(true);
    const pids = readFileSync(join(folder, "pids"), "utf8").trim().split(" ").map(Number);
    spawnSync("touch", [join(folder, "go")]);
    const [status] = await once(parent, "close");
    expect(status).toBe(7);
    await expect.poll(() => pids.filter(isAlive)).toEqual([]);
  });

  it("ends as it would alone: output, exit code, and 127 where there is none of its name", () => {
    const program = `
      import { run } from ${moduleAt("machine/models/program.js")};
      import { run as install } from ${moduleAt("core/util/run.js")};
      const io = {};
      console.log(JSON.stringify([
        await run("sh", ["-c", "echo out; echo err >&2; exit 3"], io),
        (await run("no-such-program", [], io)).code,
        await install("sh", ["-c", "echo 'a  b'; exit 4"]),
        (await install("no-such-program", [])).code,
      ]));`;
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
    const [first, second, third, fourth] = JSON.parse(stdout);
    expect([first.code, [...first.said].sort()]).toEqual([3, ["err", "out"]]);
    expect([second, fourth]).toEqual([127, 127]);
    expect(third).toEqual({ code: 4, stdout: "a  b\n", stderr: "" });
  });
});
