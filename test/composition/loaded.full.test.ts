/** A training loads what it uses, and nothing of what was not chosen. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { loadedBy, UNCHOSEN } from "../support/loaded.js";
import { ensureLearnerPython } from "../support/python.js";

const home = mkdtempSync(join(tmpdir(), "hone-loaded-"));
afterAll(() => rmSync(home, { recursive: true }));

it("`train --reward success` loads no judge, no server, no agents and no servers of tools", async () => {
  const python = await ensureLearnerPython();
  const db = ["--db", join(home, "mail.db")];
  loadedBy("build-db", ...db, "--mailboxes", "3");
  const { files, stdout } = loadedBy(
    "train",
    "--model",
    "tiny",
    "--reward",
    "success",
    ...db,
    "--home",
    home,
    "--python",
    python,
    "--gpu",
    "off",
    "--steps",
    "1",
    "--groups-per-step",
    "2",
    "--group-size",
    "2",
    "--validate-n",
    "1",
    "--validate-every",
    "0",
  );
  expect(stdout).toContain(": 1 step, ");
  expect(files).toContain("core/train/step.js");
  expect(files.length).toBeLessThanOrEqual(260);
  expect(files.filter((file) => /^serve\/(?!openai\/)|^insight\/track|vllm/.test(file))).toEqual([]);
  expect(files.filter((file) => UNCHOSEN.test(file))).toEqual([]);
});
