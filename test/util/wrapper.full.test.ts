/** A process that npm, npx or yarn has started ends with them, unless it was detached. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const { npm_lifecycle_event: _, ...outside } = process.env;

/** A program that writes its id and its ancestors', watches, and writes a file when it is told of their end. */
function watching(): string {
  const folder = mkdtempSync(join(tmpdir(), "hone-wrapper-"));
  const compiled = pathToFileURL(join(packageRoot, "dist/src/hone/wrapper.js")).href;
  writeFileSync(
    join(folder, "watch.mjs"),
    `import { renameSync, writeFileSync } from "node:fs";
    import { onWrapperEnd } from ${JSON.stringify(compiled)};
    onWrapperEnd(() => writeFileSync("told", ""));
    writeFileSync("new", String(process.pid));
    renameSync("new", "pid");
    setInterval(() => undefined, 1000);`,
  );
  return folder;
}

/** As npm: starts a line in a shell, with its own input and process group, and passes no signal on. */
const wrap = `
  const { spawn } = require("node:child_process");
  const { env, line } = JSON.parse(process.argv[1]);
  const shell = spawn("sh", ["-c", line, process.execPath], { stdio: "inherit", env: { ...process.env, ...env } });
  const { renameSync, writeFileSync } = require("node:fs");
  writeFileSync("its shell", String(shell.pid));
  renameSync("its shell", "shell");
  setInterval(() => undefined, 1000);`;

/** Has the program started by a wrapper, kills that or its shell, and returns whether the program is told. */
async function isTold({
  line = `"$0" watch.mjs; true`,
  env = { npm_lifecycle_event: "train" },
  kill = "wrapper",
  seconds = 4,
}: {
  readonly line?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly kill?: "wrapper" | "shell";
  /** How long to wait for it. */
  readonly seconds?: number;
}): Promise<boolean> {
  const folder = watching();
  const wrapper = spawn(process.execPath, ["-e", wrap, JSON.stringify({ env, line })], {
    cwd: folder,
    env: outside,
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  const written = () => ["pid", "shell"].every((name) => existsSync(join(folder, name)));
  await vi.waitFor(() => expect(written()).toBe(true), 300_000);
  const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
  const shell = Number(readFileSync(join(folder, "shell"), "utf8"));
  try {
    process.kill(kill === "wrapper" ? (wrapper.pid as number) : shell, "SIGKILL");
    if (kill === "wrapper") await once(wrapper, "close");
    for (let i = 0; i < 20 * seconds && !existsSync(join(folder, "told")); i++) await sleep(50);
    return existsSync(join(folder, "told"));
  } finally {
    for (const one of [pid, shell, wrapper.pid as number]) spawnSync("kill", ["-KILL", String(one)]);
  }
}

describe.concurrent("a process that a package manager has started", () => {
  it("is told when that is killed", async () => {
    expect(await isTold({ seconds: 300 })).toBe(true);
  });

  it("is told when the shell between them is killed", async () => {
    expect(await isTold({ kill: "shell", seconds: 300 })).toBe(true);
  });

  it("is not told when it leads a session of its own", async () => {
    expect(await isTold({ line: `setsid "$0" watch.mjs; true` })).toBe(false);
  });

  it("is not told in the background of a script", async () => {
    expect(await isTold({ line: `"$0" watch.mjs & sleep 1000` })).toBe(false);
    expect(await isTold({ line: `nohup "$0" watch.mjs > log & sleep 1000`, kill: "shell" })).toBe(false);
  });
});

it("a process that something else has started is not told", async () => {
  expect(await isTold({ env: {} })).toBe(false);
});
