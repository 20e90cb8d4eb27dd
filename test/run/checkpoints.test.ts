import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { Checkpoints, readManifest, verifyCheckpoint } from "../../src/core/run/checkpoints.js";
import { shape } from "../train/support/fakes.js";

let folder: string;
let checkpoints: Checkpoints;
beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "hone-checkpoints-")), "checkpoints");
  checkpoints = new Checkpoints(folder);
});

const about = { run: "r", ...shape };

function drafted(step: number): string {
  const draft = checkpoints.draft(step);
  expect(existsSync(draft)).toBe(false);
  mkdirSync(draft, { recursive: true });
  return draft;
}

async function publish(step: number): Promise<string> {
  const draft = drafted(step);
  writeFileSync(join(draft, "adapter.gguf"), `adapter ${step}`);
  writeFileSync(join(draft, "optimizer.pt"), `optimizer ${step}`);
  return (await checkpoints.publish(step, about)).adapter;
}

describe("checkpoints", () => {
  it("get their number when they are whole, with a manifest of hashes", async () => {
    drafted(21);
    expect(checkpoints.list()).toEqual([]);
    const adapter = await publish(21);
    expect(checkpoints.list()).toEqual([21]);
    const manifest = await verifyCheckpoint(join(folder, "0021"));
    expect(manifest).toMatchObject({ step: 21, run: "r", model: "f00d" });
    expect(Object.keys(manifest.files)).toEqual(["adapter.gguf", "optimizer.pt"]);
    // sha256 of "adapter 21", from coreutils' sha256sum
    expect(adapter).toBe("55e73102569247048d0f9b1ec89fa71394d6154d677090516c5beffd2e4e806b");
    expect(manifest.files["adapter.gguf"]).toEqual({ sha256: adapter, bytes: 10 });
  });

  it("are not made of an update that wrote no adapter", async () => {
    writeFileSync(join(drafted(1), "optimizer.pt"), "o");
    await expect(checkpoints.publish(1, about)).rejects.toThrow("wrote no adapter.gguf");
    expect(checkpoints.list()).toEqual([]);
  });

  it("that are damaged are refused, naming the file", async () => {
    await publish(1);
    writeFileSync(join(folder, "0001", "optimizer.pt"), "optimizer 2");
    await expect(verifyCheckpoint(join(folder, "0001"))).rejects.toThrow("damaged: optimizer.pt");
    expect(() => readManifest(folder)).toThrow("is no checkpoint");
  });

  it("of another format are refused in one line", async () => {
    await publish(1);
    const file = join(folder, "0001", "manifest.json");
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), version: 1 }));
    await expect(verifyCheckpoint(join(folder, "0001"))).rejects.toThrow(
      /0001 has format 1, and this hone reads format \d+ only: begin another run with --run NAME, from its adapter with --fork .*0001\/adapter, or use the hone that made it$/,
    );
  });

  it("that no committed step names are set aside until they are made again", async () => {
    for (const step of [1, 2, 3]) await publish(step);
    drafted(4);
    expect(checkpoints.setAside(new Set([1, 2]))).toEqual([3]);
    expect(checkpoints.list()).toEqual([1, 2]);
    expect(readdirSync(join(folder, "unreferenced"))).toEqual(["0003"]);
    expect(existsSync(join(folder, ".draft-4"))).toBe(false);

    checkpoints.prune(new Set([2]));
    expect(readdirSync(join(folder, "unreferenced"))).toEqual(["0003"]);
    await publish(3);
    checkpoints.prune(new Set([2, 3]));
    expect(readdirSync(join(folder, "unreferenced"))).toEqual([]);
  });

  it("are pruned to those that are wanted", async () => {
    for (const step of [1, 2, 3, 9999, 10_000]) await publish(step);
    expect(checkpoints.prune(new Set([2, 9999, 10_000]))).toEqual([1, 3]);
    // By their numbers, which are not in the order of their names.
    expect(checkpoints.list()).toEqual([2, 9999, 10_000]);
  });

  it("of another run can be adopted as the start", async () => {
    await publish(7);
    const other = new Checkpoints(join(folder, "..", "other"));
    const { adapter } = await other.adopt(join(folder, "0007"), "fork");
    const manifest = await verifyCheckpoint(other.pathOf(0));
    const origin = { run: "r", step: 7 };
    expect(manifest).toMatchObject({ step: 0, run: "fork", origin, model: "f00d" });
    expect(manifest.files["adapter.gguf"]?.sha256).toBe(adapter);

    const third = new Checkpoints(join(folder, "..", "third"));
    await third.adopt(other.pathOf(0), "fork of the fork");
    expect(readManifest(third.pathOf(0))).toMatchObject({ step: 0, run: "fork of the fork", origin });
  });
});
