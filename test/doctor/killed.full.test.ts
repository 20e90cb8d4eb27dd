import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

/** Processes that this one has started: ids and commands. */
function childrenOf(pid: number): readonly { pid: number; command: string }[] {
  const { stdout } = spawnSync("ps", ["-eo", "ppid=,pid=,stat=,args="], { encoding: "utf8" });
  return stdout.split("\n").flatMap((line) => {
    const [, parent, child, state = "Z", command = ""] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? [];
    return Number(parent) === pid && !state.startsWith("Z") ? [{ pid: Number(child), command }] : [];
  });
}

const isAlive = (pid: number) =>
  spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" }).stdout.trim();

it("a doctor that is killed leaves no trial behind", async () => {
  const doctor = spawn(process.execPath, [join(packageRoot, "dist/src/cli.js"), "doctor", "--gpu", "off"], {
    stdio: "ignore",
  });
  const trial = await vi.waitFor(() => {
    const found = childrenOf(doctor.pid as number).find(({ command }) => /node.*doctor\/trial\.js/.test(command));
    expect(found).toBeDefined();
    return found?.pid as number;
  }, 300_000);
  doctor.kill("SIGKILL");
  await once(doctor, "close");
  await vi.waitFor(() => expect(isAlive(trial)).toMatch(/^(Z.*)?$/), 300_000);
});
