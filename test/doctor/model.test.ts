import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { checkModel } from "../../src/hone/doctor/model.js";

const folder = mkdtempSync(join(tmpdir(), "hone-doctor-model-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const config = {
  home: folder,
  weights: undefined,
  hfEndpoint: "http://127.0.0.1:9",
  hfToken: undefined,
  hfOffline: false,
  hfHome: join(folder, "hf"),
  hfCache: undefined,
  gpu: "off",
  device: undefined,
  threads: undefined,
} as const;

it("says whether the model trains here", async () => {
  expect(await checkModel("tiny", config)).toMatchObject({
    name: "model",
    state: "ok",
    found: expect.stringMatching(/^tiny trains here with default settings on the CPU with [\d.]+ GB: yes/),
  });
});

it("says that a model is not here, and how it comes", async () => {
  expect(await checkModel("Org/Name", config)).toMatchObject({
    state: "none",
    found: expect.stringMatching(/Org\/Name is not on this machine, .*models pull Org\/Name/),
  });
});

it("refuses a name that is none", async () => {
  await expect(checkModel("tinny", config)).rejects.toThrow("did you mean tiny?");
});
