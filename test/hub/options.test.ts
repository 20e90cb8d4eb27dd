/** The variables that Hugging Face's tools read mean the same here. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readGiven, withDefaults } from "../../src/core/config/config.js";
import { missingPart } from "../../src/machine/hub/cache.js";
import { hubOptionsOf } from "../../src/machine/hub/hub-options.js";
import { downloadOptions } from "../../src/machine/input-options.js";

const folder = mkdtempSync(join(tmpdir(), "hone-hub-options-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Options as the command line makes them of an environment. */
async function optionsIn(env: Record<string, string>) {
  return hubOptionsOf(withDefaults(downloadOptions, await readGiven({ env, folder })), env);
}

describe("the folder of downloads", () => {
  it.each([
    [{}, join(homedir(), ".cache/huggingface/hub")],
    [{ XDG_CACHE_HOME: "/x" }, "/x/huggingface/hub"],
    [{ XDG_CACHE_HOME: "/x", HF_HOME: "/h" }, "/h/hub"],
    [{ HF_HOME: "~/h" }, join(homedir(), "h/hub")],
    [{ HF_HOME: "/h", HUGGINGFACE_HUB_CACHE: "/old" }, "/old"],
    [{ HF_HOME: "/h", HUGGINGFACE_HUB_CACHE: "/old", HF_HUB_CACHE: "/c" }, "/c"],
  ])("with %j", async (env, cache) => {
    expect((await optionsIn(env)).cache).toBe(cache);
  });
});

describe("the token", () => {
  const home = join(folder, "home");
  mkdirSync(home);
  writeFileSync(join(home, "token"), "hf_saved\n");

  it.each([
    [{ HF_TOKEN: " hf_given\n" }, "hf_given"],
    [{ HF_HOME: home }, "hf_saved"],
    [{ HF_HOME: home, HF_TOKEN: "hf_given" }, "hf_given"],
    [{ HF_HOME: home, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" }, undefined],
    // Saved for the Hub itself; who runs a mirror must not see it.
    [{ HF_HOME: home, HF_ENDPOINT: "https://mirror.example" }, undefined],
    [{ HF_HOME: home, HF_ENDPOINT: "https://mirror.example", HF_TOKEN: "hf_given" }, "hf_given"],
  ])("with %j", async (env, token) => {
    expect((await optionsIn({ XDG_CACHE_HOME: folder, ...env } as Record<string, string>)).token).toBe(token);
  });

  it("that cannot be one is refused without showing it", async () => {
    await expect(optionsIn({ HF_TOKEN: "hf secret" })).rejects.toThrow(/^HF_TOKEN holds characters that no token has/);
  });
});

it.each(["mirror.example", "ftp://mirror.example", "https://"])("HF_ENDPOINT=%s is refused", async (endpoint) => {
  await expect(optionsIn({ HF_ENDPOINT: endpoint })).rejects.toThrow(`HF_ENDPOINT: ${endpoint} is no address`);
});

it.each([
  [["a.parquet", "README.md"], undefined],
  [["t-00000-of-00002.parquet", "t-00001-of-00002.parquet"], undefined],
  [["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"], undefined],
  [["m-00001-of-00001.gguf"], undefined],
  [["t-00000-of-00003.parquet", "t-00002-of-00003.parquet"], "t-00001-of-00003.parquet"],
  [["m-00001-of-00003.gguf", "m-00002-of-00003.gguf"], "m-00003-of-00003.gguf"],
  [["a-00001-of-00001.x", "b-00002-of-00002.x"], "b-00001-of-00002.x"],
])("of %j the missing part is %s", (paths, missing) => {
  expect(missingPart(paths)).toBe(missing);
});
