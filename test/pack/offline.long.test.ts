/** From a pack to a trained adapter in a network namespace without a network, by somebody with an empty home. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const alone = spawnSync("unshare", ["-rn", "true"]);
const lack = alone.status === 0 ? "" : " (skipped: this machine makes no network namespaces)";

describe.skipIf(lack)(`a pack for linux-x64-cpu${lack}`, () => {
  const base = mkdtempSync(join(tmpdir(), "hone-offline-"));
  afterAll(() => rmSync(base, { recursive: true, force: true }));
  const [made, carried, hone] = ["made", "carried", "hone"].map((name) => join(base, name)) as [string, string, string];
  const home = join(base, "home");
  mkdirSync(home);
  // Neither an index that somebody set up here, nor the way in which this test was started.
  const path = [dirname(process.execPath), process.env.PATH].join(":");
  const env = { PATH: path, HOME: home, TMPDIR: base };

  function offline(cwd: string, ...command: string[]) {
    const started = performance.now();
    const done = spawnSync("unshare", ["-rn", ...command], { cwd, env, encoding: "utf8" });
    expect([command.join(" "), done.status, done.stderr]).toEqual([command.join(" "), 0, expect.any(String)]);
    console.log(`${command.slice(0, 6).join(" ")}: ${((performance.now() - started) / 1000).toFixed(0)} s`);
    return done;
  }
  const last = (stdout: string) => JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
  const npx = (...args: string[]) => last(offline(hone, "npx", "--no", "--", "hone", ...args, "--json").stdout);

  it("is made here", () => {
    const cli = join(packageRoot, "dist/src/cli.js");
    const args = ["pack", "--for", "linux-x64-cpu", "--out", made, "--part-size", "300M", "--model", "tiny", "--json"];
    const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: base, encoding: "utf8" });
    expect(status, stderr).toBe(0);
    const { files, bytes } = last(stdout);
    console.log(`${files.length} files, ${(bytes / 1e6).toFixed(0)} MB unpacked`);
    renameSync(made, carried);
  });

  // A root in a container may not mount either.
  const mounts = spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "none", base]).status === 0;
  it.skipIf(!mounts)(`fits the disk or is refused${mounts ? "" : " (skipped: no disk can be mounted here)"}`, () => {
    const small = join(base, "small");
    mkdirSync(small);
    const on = (command: string) => {
      const whole = `mount -t tmpfs -o size=9m none "${small}"; ${command}; code=$?; ls -A "${small}"; exit $code`;
      const { status, stdout, stderr } = spawnSync("unshare", ["-m", "bash", "-c", whole], {
        encoding: "utf8",
        cwd: base,
      });
      expect(status, stderr).toBe(1);
      // Nothing is left there.
      expect(stdout.trimEnd().split("\n").at(-1)).not.toContain("part");
      return stderr;
    };
    const [node, cli] = [process.execPath, join(packageRoot, "dist/src/cli.js")];
    expect(on(`"${node}" "${cli}" pack --for linux-x64-cpu --out "${small}/pack"`)).toMatch(
      /the pack needs .* of free disk in .*\/small, which has 9\.\d+ MB; free some, or give --out on a larger disk/,
    );
    expect(on(`"${node}" "${carried}/unpack.mjs" --into "${small}/hone"`)).toMatch(
      /^unpack: unpacking needs .* GB of free disk in .*small, which has 0\.01 GB; free some, or give --into/,
    );
  });

  it("is unpacked there", () => {
    offline(carried, process.execPath, "unpack.mjs", "--into", hone);
    rmSync(carried, { recursive: true });
    expect(readdirSync(hone)).toContain("node_modules");
  });

  it("makes its Python environment, and finds all well", () => {
    const { ok, checks } = npx("doctor", "--install", "--gpu", "off");
    expect([ok, JSON.stringify(checks)]).toEqual([true, expect.stringContaining("rollouts")]);
  });

  it("trains three steps", () => {
    npx("build-db", "--mailboxes", "10");
    const size = ["--groups-per-step", "2", "--group-size", "4", "--max-turns", "3", "--validate-n", "2"];
    // Rollouts of the untrained model often have equal rewards, of which nothing is learnt; coins differ.
    const coins = ["--control", "random-reward"];
    expect(npx("train", "--model", "tiny", "--steps", "3", ...size, ...coins, "--gpu", "off")).toMatchObject({
      steps: 3,
    });
    expect(existsSync(join(hone, ".hone/email/models/tiny/checkpoints/0003/adapter.gguf"))).toBe(true);
  });

  it("begins a project of one's own, whose task checks out", () => {
    offline(hone, "npx", "--no", "--", "hone", "init", "--yes");
    const checked = offline(hone, "npm", "run", "--silent", "check", "--", "--json");
    expect(last(checked.stdout)).toMatchObject({ task: "capitals", findings: [] });
  });
});
