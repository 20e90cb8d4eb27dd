import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { lockRun, ownerOf } from "../../src/core/run/lock.js";
import { HoneError } from "../../src/core/util/errors.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-lock-"));
});

/** Another process that takes the lock in the way lock.ts does, and then waits to be killed. */
async function otherOwner(): Promise<{ pid: number; kill(): Promise<void> }> {
  const sqlite = createRequire(import.meta.url).resolve("better-sqlite3");
  const code = `
    const Database = require(${JSON.stringify(sqlite)});
    const fs = require("node:fs");
    const lock = new Database(${JSON.stringify(join(folder, "lock"))});
    lock.pragma("journal_mode = MEMORY");
    lock.exec("BEGIN EXCLUSIVE");
    const owner = { pid: process.pid, host: "elsewhere", since: "2031-02-03T04:05:06.000Z" };
    fs.writeFileSync(${JSON.stringify(join(folder, "owner.json"))}, JSON.stringify(owner));
    console.log("locked");
    setInterval(() => lock, 1000);
  `;
  const child = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  return {
    pid: child.pid as number,
    kill: () =>
      new Promise((resolve) => {
        child.once("exit", () => resolve());
        child.kill("SIGKILL");
      }),
  };
}

describe("the owner of a run, for those who look at it", () => {
  const note = (change: object) => {
    const lock = lockRun(folder);
    const owner = JSON.parse(readFileSync(join(folder, "owner.json"), "utf8"));
    lock.release();
    writeFileSync(join(folder, "owner.json"), JSON.stringify({ ...owner, ...change }));
  };

  it("is the process of that id that was there when the run was taken, whatever the clock says since", () => {
    for (const hours of [0, -9, 9]) {
      note({ since: new Date(Date.now() + 3_600_000 * hours).toISOString() });
      expect(ownerOf(folder)?.pid).toBe(process.pid);
    }
  });

  it("is nobody where a process of another machine took it", () => {
    note({ host: "elsewhere" });
    expect(ownerOf(folder)).toBeUndefined();
  });

  it.skipIf(process.platform !== "linux")("is not another one to which a killed owner's id was given", () => {
    note({ ticks: 1 });
    expect(ownerOf(folder)).toBeUndefined();
  });
});

describe("the lock of a run directory", () => {
  it("is refused while a living process has it, naming the process and since when", async () => {
    const other = await otherOwner();
    try {
      expect(() => lockRun(folder)).toThrow(HoneError);
      expect(() => lockRun(folder)).toThrow(`process ${other.pid} on elsewhere since 2031-02-03T04:05:06.000Z`);
    } finally {
      await other.kill();
    }
  });

  it("of a killed process is taken over, and tells whose it was", async () => {
    const other = await otherOwner();
    await other.kill();
    const lock = lockRun(folder);
    expect(lock.previous?.pid).toBe(other.pid);
    lock.release();
  });

  it("is not given to the same process twice, and is free again when released", () => {
    const lock = lockRun(folder);
    expect(lock.previous).toBeUndefined();
    expect(() => lockRun(folder)).toThrow(`process ${process.pid}`);
    lock.release();
    const again = lockRun(folder);
    expect(again.previous).toBeUndefined();
    again.release();
  });

  it("does not depend on the file that names the owner", () => {
    writeFileSync(join(folder, "owner.json"), "{ half a fi");
    const lock = lockRun(folder);
    expect(lock.previous).toBeUndefined();
    expect(() => lockRun(folder)).toThrow("is in use by process");
    lock.release();
  });
});
