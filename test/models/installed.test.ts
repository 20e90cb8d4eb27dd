/** `yarn hone models` over a cache that other programs filled too. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { tryLock } from "../../src/core/util/lock.js";
import { modelFile } from "../../src/engine/models.js";
import { listModels, removeModel, showModel } from "../../src/machine/models/installed.js";
import { labelOf } from "../../src/machine/models/reference.js";

/** Its name takes 40 bytes of each repository. */
const commit = "a".repeat(40);
const qwen = JSON.stringify({
  model_type: "qwen2",
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  vocab_size: 100,
  max_position_embeddings: 512,
});
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-installed-"));
  // Where files of wheels are.
  vi.stubEnv("XDG_CACHE_HOME", join(folder, "user"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const config = () => ({
  home: join(folder, "state"),
  weights: undefined,
  hfEndpoint: "http://127.0.0.1:1",
  hfToken: undefined,
  hfOffline: false,
  hfHome: undefined,
  hfCache: folder,
});

/** A repository in the cache, as Python would have left it. */
function cached(id: string, files: Record<string, string>) {
  const place = join(folder, `models--${id.replace("/", "--")}`);
  for (const [index, [name, content]] of Object.entries(files).entries()) {
    const link = join(place, "snapshots", commit, name);
    const blob = join(place, "blobs", String(index).repeat(40));
    for (const path of [link, blob]) mkdirSync(dirname(path), { recursive: true });
    writeFileSync(blob, content, "latin1");
    symlinkSync(blob, link);
  }
  mkdirSync(join(place, "refs"), { recursive: true });
  writeFileSync(join(place, "refs/main"), commit);
  return place;
}

const template = JSON.stringify({ chat_template: "x" });
const base = { "tokenizer.json": "{}", "model.safetensors": "x".repeat(100) };
const model = { ...base, "tokenizer_config.json": template };

it("lists what hone can use, and says how much of a model is here", async () => {
  cached("Qwen/Qwen3-0.6B", { ...model, "config.json": qwen });
  cached("Qwen/Qwen3-4B", { "config.json": qwen });
  cached("Qwen/Qwen3-8B-GGUF", { "Qwen3-8B-Q8_0.gguf": "y".repeat(50) });
  cached("Org/Mine", { ...model, "config.json": qwen });
  cached("Org/Mixture", { ...model, "config.json": JSON.stringify({ model_type: "mixtral" }) });
  cached("Qwen/Qwen3-1.7B", { ...base, "config.json": qwen });
  cached("Org/Base", { ...base, "config.json": qwen });
  cached("Org/File", { "a.gguf": readFileSync(modelFile("tiny"), "latin1") });
  const mute = readFileSync(modelFile("tiny"), "latin1").replace("tokenizer.chat_template", "tokenizer.chat_templatX");
  cached("Org/Mute-GGUF", { "a.gguf": mute });
  cached("Org/Parts", { "a-00001-of-00002.gguf": readFileSync(modelFile("tiny"), "latin1") });
  cached("Qwen/Qwen3-4B-GGUF", { "Qwen3-4B-00001-of-00002.gguf": "z" });
  cached("Org/Web", { ...model, "config.json": "<html>" });
  cached("Org/Speech", { "model.onnx": "" });
  cached("gpt2", { ...base, "config.json": JSON.stringify({ model_type: "gpt2" }) });
  const rows = await listModels(config());
  const here = rows.filter((row) => row.here).map(({ name, bytes, files }) => [name, bytes, files.length]);
  const { size } = statSync(modelFile("tiny"));
  expect(here).toEqual([
    ["tiny", size, 1],
    ["qwen3-0.6b", 142 + qwen.length + template.length, 0],
    ["qwen3-8b", 90, 1],
    ["Org/File", size + 40, 1],
    ["Org/Mine", 142 + qwen.length + template.length, 0],
  ]);
  expect(rows.find(({ name }) => name === "qwen3-4b")).toMatchObject({ here: false, bytes: qwen.length + 40 + 41 });
  expect(await showModel("Org/Parts", config())).toMatchObject({ here: false, files: [], shape: null });
  expect(await showModel("llama3.2-1b", config())).toMatchObject({ here: false, gated: true, tool_calls: "llama3" });
  const tested = async (name: string) => (await showModel(name, config())).tested;
  expect(await tested("tiny")).toBe("its own weights, in most tests");
  expect(await tested("smollm2-135m-q4_1")).toMatch("its published weights");
  expect(await tested("llama3.2-1b")).toMatch(/architecture llama .*its whole vocabulary .*not its published weights$/);
  expect(await tested("Org/Mine")).toMatch(/architecture qwen2 .*neither its vocabulary and template nor its weights$/);
  expect(await tested("Org/Parts")).toBeNull();
  expect(await showModel("Org/Mine@main", config())).toMatchObject({ here: true, repository: "Org/Mine" });
});

it("shows the file and the revision that were named, not the first of the repository", async () => {
  const place = cached("Org/Files-GGUF", { "a.gguf": "no model", "b.gguf": readFileSync(modelFile("tiny"), "latin1") });
  const named = await showModel("hf:Org/Files-GGUF:b.gguf", config());
  expect(named.files).toEqual([join(place, "snapshots", commit, "b.gguf")]);
  expect(named.shape?.parameters).toBeGreaterThan(0);
  expect(await showModel("hf:Org/Files-GGUF:c.gguf", config())).toMatchObject({ here: false, files: [], shape: null });
  cached("Org/Mine", { ...model, "config.json": qwen });
  expect(await showModel("Org/Mine@v2", config())).toMatchObject({ here: false, shape: null });
});

it("removes downloads and conversions, of nothing that is being downloaded, and no file of the user's own", () => {
  const place = cached("Qwen/Qwen3-8B-GGUF", { "Qwen3-8B-Q8_0.gguf": "y".repeat(50) });
  const gguf = join(folder, "state/gguf");
  mkdirSync(gguf, { recursive: true });
  const made = [`Qwen--Qwen3-8B-f16-${"0".repeat(12)}.gguf`, `Qwen--Qwen3-8B-q8_0-${"1".repeat(12)}.gguf`];
  const others = [`Qwen--Qwen3-8B-f16-of-mine-f16-${"0".repeat(12)}.gguf`, "Qwen--Qwen3-8B.gguf"];
  for (const name of [...made, ...others]) writeFileSync(join(gguf, name), "12345");
  const lockFile = join(folder, ".locks/models--Qwen--Qwen3-8B-GGUF/hone.lock");
  mkdirSync(dirname(lockFile), { recursive: true });
  const lock = tryLock(lockFile);
  expect(() => removeModel("qwen3-8b", config())).toThrow("is being downloaded by another process");
  lock?.close();
  expect(removeModel("qwen3-8b", config()).bytes).toBe(100);
  expect([place, ...made.map((name) => join(gguf, name))].filter(existsSync)).toEqual([]);
  expect(others.map((name) => existsSync(join(gguf, name)))).toEqual([true, true]);
  expect(() => removeModel("qwen3-8b", config())).toThrow("nothing of qwen3-8b is here");
  expect(() => removeModel("tiny", config())).toThrow("it stays");
});

it("removes what was made of one folder, and leaves what was made of another of that name", async () => {
  const [mine, other] = ["a/merged", "b/merged"].map((name) => join(folder, name)) as [string, string];
  const gguf = join(folder, "state/gguf");
  for (const path of [mine, other, gguf]) mkdirSync(path, { recursive: true });
  const made = (place: string, size: number) => {
    const file = join(gguf, `${labelOf({ kind: "folder", path: place })}-f16-${"0".repeat(12)}.gguf`);
    writeFileSync(file, "x".repeat(size));
    return file;
  };
  const [ofMine, ofOther] = [made(mine, 3), made(other, 5)];
  // However the place is written.
  const link = join(folder, "latest");
  symlinkSync(mine, link);
  expect(await showModel(link, config())).toMatchObject({ bytes: 3, files: [ofMine] });
  expect(removeModel(`${mine}/`, config())).toMatchObject({ bytes: 3, removed: [ofMine] });
  expect(existsSync(ofOther)).toBe(true);
  expect((await showModel(other, config())).files).toEqual([ofOther]);
});
