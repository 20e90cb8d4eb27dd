/** From a name to a file, against a server that speaks as the Hub does. Conversion itself: by-name.full.test.ts. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { safetensors, vector } from "../../src/core/learn/safetensors.js";
import { HoneError } from "../../src/core/util/errors.js";
import { tryLock } from "../../src/core/util/lock.js";
import { converted } from "../../src/machine/models/convert.js";
import { defaultWeights } from "../../src/machine/models/found.js";
import type { ModelIo } from "../../src/machine/models/io.js";
import { labelOf } from "../../src/machine/models/reference.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import type { ModelConfig } from "../../src/machine/models/wanted.js";
import { HubServer, revision } from "../support/hub-server.js";

// As it is, but its calls are seen.
vi.mock("../../src/machine/models/convert.js", { spy: true });

const json = (value: unknown) => Buffer.from(JSON.stringify(value));
const weights = safetensors({ a: vector("F32", [1, 2, 3, 4]), b: vector("F32", [5]) }, {});
const about = {
  "config.json": json({ model_type: "qwen2", architectures: ["Qwen2ForCausalLM"] }),
  "tokenizer.json": json({}),
  "tokenizer_config.json": json({ chat_template: "{{ messages }}" }),
};
const without = (name: keyof typeof about) =>
  Object.fromEntries(Object.entries(about).filter(([file]) => file !== name));
const model = { ...about, "model.safetensors": weights };

let gguf: Buffer;
let server: HubServer;
let folder: string;
let said: string[];
const io: ModelIo = { log: (text) => said.push(text), update: () => undefined };

beforeAll(async () => {
  await ensureTestModels(["tiny"], () => undefined);
  gguf = readFileSync(modelPath("qwen2-tiny-q8_0.gguf"));
}, 900_000);
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "hone-resolve-"));
  said = [];
  server = new HubServer({
    "Org/Files": { "one-q8_0.gguf": gguf, "two-f16.gguf": gguf, "README.md": Buffer.from("#") },
    "Org/File": { "one.gguf": gguf, "mmproj-one.gguf": Buffer.from("x") },
    "Org/Parts": { "one-00001-of-00002.gguf": gguf, "one-00002-of-00002.gguf": gguf },
    "Org/Mixture": { ...model, "config.json": json({ model_type: "mixtral", num_local_experts: 8 }) },
    "Org/Pickled": { ...about, "pytorch_model.bin": weights },
    "Org/Adapter": { "adapter_config.json": json({}), "adapter_model.safetensors": weights },
    "Org/Empty": { "README.md": Buffer.from("#") },
    "Org/Base": { ...model, "tokenizer_config.json": json({}) },
    "Org/Mute": { ...without("tokenizer.json"), "model.safetensors": weights },
    "Org/Pieces": {
      ...about,
      "tokenizer.json": json({ model: { type: "BPE", byte_fallback: true } }),
      "model.safetensors": weights,
    },
    "Org/Bytes": {
      ...about,
      "tokenizer.json": json({
        model: { type: "BPE", byte_fallback: true, vocab: { a: 0 } },
        pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "Split" }, { type: "ByteLevel" }] },
      }),
      "model.safetensors": weights,
    },
    "Org/Torn": { ...about, "model-00001-of-00003.safetensors": weights, "model-00003-of-00003.safetensors": weights },
    "Org/Cut": { ...about, "model.safetensors": weights.subarray(0, -2) },
    "Org/Web": { ...about, "config.json": Buffer.from("<html>"), "model.safetensors": weights },
  });
  await server.start();
});
afterEach(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

const config = (more: Partial<ModelConfig> = {}): ModelConfig => ({
  home: join(folder, "state"),
  weights: undefined,
  python: "/nowhere/python",
  hfEndpoint: server.endpoint,
  hfToken: undefined,
  hfOffline: false,
  hfHome: join(folder, "hf"),
  hfCache: undefined,
  ...more,
});
const resolved = (reference: string, more?: Partial<ModelConfig>) => resolveModel(reference, config(more), io);
const snapshot = (name: string) => join(folder, "hf/hub", `models--Org--${name}`, "snapshots", revision);
/** As Python downloads a repository, or some of its files. */
function leave(name: string, files: Record<string, Buffer>) {
  const refs = join(snapshot(name), "../../refs");
  for (const path of [snapshot(name), refs]) mkdirSync(path, { recursive: true });
  writeFileSync(join(refs, "main"), revision);
  for (const [file, content] of Object.entries(files)) writeFileSync(join(snapshot(name), file), content);
}
/** Weights that were asked for, of either host. */
const fetched = () =>
  server.requests.filter(({ path }) => /\/resolve\/.*\.(safetensors|gguf|bin)$/.test(path)).map(({ path }) => path);

test("a repository with one GGUF file: it is downloaded, and never asked for again", async () => {
  const file = await resolved("hf:Org/File:one.gguf");
  expect(file).toBe(join(snapshot("File"), "one.gguf"));
  expect(readFileSync(file).equals(gguf)).toBe(true);
  server.requests.length = 0;
  expect(await resolved("hf:Org/File:one.gguf")).toBe(file);
  expect(await resolved("hf:Org/File:one.gguf", { hfOffline: true })).toBe(file);
  expect(server.requests).toEqual([]);
  // By its repository alone others could exist, so the Hub is asked; without it, what is here will do.
  expect(await resolved("Org/File")).toBe(file);
  expect(fetched()).toEqual([]);
  expect(server.requests).toHaveLength(1);
  expect(await resolved("Org/File", { hfOffline: true })).toBe(file);
});

test("several GGUF files are listed; a name or --weights says which", async () => {
  await expect(resolved("Org/Files")).rejects.toThrow(
    "Org/Files has several GGUF files; give one of them: hf:Org/Files:one-q8_0.gguf, hf:Org/Files:two-f16.gguf",
  );
  expect(fetched()).toEqual([]);
  await expect(resolved("hf:Org/Files:tow.gguf")).rejects.toThrow(
    "Org/Files has no file tow.gguf; it has one-q8_0.gguf, two-f16.gguf",
  );
  expect(await resolved("Org/Files", { weights: "q8_0" })).toBe(join(snapshot("Files"), "one-q8_0.gguf"));
  await expect(resolved("Org/Parts")).rejects.toThrow(
    "one-00001-of-00002.gguf of Org/Parts is one part of a model; hone takes models in one file",
  );
  await expect(resolved("hf:Org/Parts:one-00001-of-00002.gguf")).rejects.toThrow(/is one part of a model/);
});

test.each([
  ["Org/Mixture", "Org/Mixture cannot be used: its architecture is mixtral"],
  ["Org/Pickled", "Org/Pickled has no weights that hone reads: its weights are in pytorch_model.bin"],
  ["Org/Adapter", "Org/Adapter has no weights that hone reads: it is an adapter"],
  ["Org/Empty", "Org/Empty has no weights that hone reads: it has no model.safetensors and no GGUF file"],
  ["Org/Base", "Org/Base has no chat template: it is a base model"],
  ["Org/Mute", "Org/Mute has no vocabulary"],
  ["Org/Pieces", "Org/Pieces has a SentencePiece vocabulary without tokenizer.model"],
  ["Org/Torn", "Org/Torn has no file model-00002-of-00003.safetensors: a part of its weights is missing"],
  ["Org/Web", "config.json of Org/Web is no JSON"],
  ["Org/Nothing", "there is no model Org/Nothing at"],
  ["Org/File@v2", "Org/File has no revision v2 at"],
])("%s is refused before a weight is downloaded", async (reference, message) => {
  await expect(resolved(reference)).rejects.toThrow(message);
  expect(fetched()).toEqual([]);
});

test("byte-level BPE that transformers saved with SentencePiece's byte_fallback is taken", async () => {
  // The next that is missing is a Python for the conversion.
  await expect(resolved("Org/Bytes")).rejects.toThrow("--python /nowhere/python: there is no Python");
  expect(fetched()).toHaveLength(1);
});

test("weights that the Hub itself has only in part are no model", async () => {
  await expect(resolved("Org/Cut")).rejects.toThrow(/^model\.safetensors of Org\/Cut is not whole/);
  expect(readdirSync(join(folder, "state/gguf"))).toEqual([".lock"]);
});

test("an architecture that the Hub read from a GGUF header is refused before the file is downloaded", async () => {
  server.gguf = { architecture: "gemma2" };
  await expect(resolved("Org/File")).rejects.toThrow("its architecture is gemma2; hone takes qwen2, qwen3, llama");
  expect(fetched()).toEqual([]);
});

test("a gated repository says where its conditions are accepted, and how the token is given", async () => {
  server.behave = { gated: { "Org/File": "good" } };
  const asked = `Org/File is gated: accept its conditions at ${server.endpoint}/Org/File, then set HF_TOKEN to a token of that account (${server.endpoint}/settings/tokens)`;
  await expect(resolved("Org/File")).rejects.toThrow(asked);
  await expect(resolved("Org/File", { hfToken: "other" })).rejects.toThrow(
    `${asked}; the token that was sent has no access`,
  );
  expect(await resolved("Org/File", { hfToken: "good\n" })).toBe(join(snapshot("File"), "one.gguf"));
  const shown = server.requests.filter(({ host }) => host === "cdn").map(({ authorization }) => authorization);
  expect(shown).toEqual([undefined]);
  await expect(resolved("Org/Empty", { hfToken: "good bad" })).rejects.toThrow("HF_TOKEN holds characters");
});

test("an interrupted download is no model: offline it is not here, and online it goes on", async () => {
  const controller = new AbortController();
  const update = (line: () => string) => {
    if (!/ 0 B of /.test(line())) controller.abort(new HoneError("stopped"));
  };
  const stopped = resolveModel("Org/File", config(), { ...io, update, signal: controller.signal });
  await expect(stopped).rejects.toThrow("stopped");
  const blobs = join(folder, "hf/hub/models--Org--File/blobs");
  const [part = "", ...others] = readdirSync(blobs);
  expect([part, others]).toEqual([expect.stringMatching(/\.incomplete$/), []]);
  const had = statSync(join(blobs, part)).size;
  expect(had).toBeGreaterThan(0);
  await expect(resolved("Org/File", { hfOffline: true })).rejects.toThrow("Org/File was not downloaded before");
  server.requests.length = 0;
  const file = await resolved("Org/File");
  expect(readFileSync(file).equals(gguf)).toBe(true);
  expect(server.requests.flatMap(({ host, range }) => (host === "cdn" ? [range] : []))).toEqual([`bytes=${had}-`]);
});

test("a server that is gone: what was downloaded is taken, with a word; else the reason", async () => {
  const file = await resolved("Org/File");
  const gone = { hfEndpoint: "http://127.0.0.1:1" };
  expect(await resolved("hf:Org/File:one.gguf", gone)).toBe(file);
  expect(said).toEqual([]);
  expect(await resolved("Org/File", gone)).toBe(file);
  expect(said).toEqual([
    expect.stringMatching(
      /^http:\/\/127\.0\.0\.1:1 cannot be reached .*; taking what was downloaded of Org\/File before$/,
    ),
  ]);
});

test.each([
  [
    "no chat template",
    { "chat_template.jinja": about["tokenizer_config.json"], "tokenizer_config.json": json({}) },
    "chat_template.jinja",
    /^Org\/Partly has no chat template: it is a base model; .*; if that was merely not downloaded \(.*\): run once without/,
  ],
  [
    "half a vocabulary",
    { "vocab.json": json({}), "merges.txt": Buffer.from("#") },
    "merges.txt",
    /has no vocabulary: .*; if that was merely/,
  ],
  [
    "no configuration",
    {},
    "config.json",
    /^Org\/Partly was downloaded in part \(.*\): run once without HF_HUB_OFFLINE/,
  ],
])(
  "a copy that another program fetched in part (%s) is completed; offline it is not here",
  async (_, files, lacking, message) => {
    const rest = "vocab.json" in files ? without("tokenizer.json") : about;
    await server.stop();
    server = new HubServer({ "Org/Partly": { ...rest, ...files, "model.safetensors": weights } });
    await server.start();
    // All but Python could be asked for then.
    const whole = "--python /nowhere/python: there is no Python that can be run";
    await expect(resolved("Org/Partly")).rejects.toThrow(whole);
    server.requests.length = 0;
    await expect(resolved("Org/Partly")).rejects.toThrow(whole);
    expect(server.requests).toEqual([]);
    rmSync(join(snapshot("Partly"), lacking));
    await expect(resolved("Org/Partly", { hfOffline: true })).rejects.toThrow(message);
    await expect(resolved("Org/Partly")).rejects.toThrow(whole);
    expect(existsSync(join(snapshot("Partly"), lacking))).toBe(true);
  },
);

test("a folder of one's own is checked as a download is", async () => {
  const mine = join(folder, "mine");
  mkdirSync(mine);
  for (const [name, content] of Object.entries(about)) writeFileSync(join(mine, name), content);
  await expect(resolved(mine)).rejects.toThrow(`${mine} has no weights that hone reads`);
  writeFileSync(join(mine, "model.safetensors"), weights.subarray(0, -1));
  await expect(resolved(mine)).rejects.toThrow(
    /model\.safetensors of mine is not whole \(\d+ bytes, its header says \d+\)/,
  );
  writeFileSync(join(mine, "model.safetensors"), weights);
  writeFileSync(join(mine, "model.safetensors.index.json"), json({ weight_map: { c: "model.safetensors" } }));
  await expect(resolved(mine)).rejects.toThrow("mine lacks the weights c, which its index puts in model.safetensors");
  rmSync(join(mine, "model.safetensors.index.json"));
  // Only then is anything asked of Python.
  await expect(resolved(mine)).rejects.toThrow("--python /nowhere/python: there is no Python that can be run");
  expect(vi.mocked(converted).mock.lastCall?.[0]).toMatchObject({
    name: "mine",
    label: labelOf({ kind: "folder", path: mine }),
  });
  expect(readdirSync(join(folder, "state/gguf"))).toEqual([".lock"]);

  // A conversion that waits for another ends with Ctrl-C.
  const lock = tryLock(join(folder, "state/gguf/.lock"));
  const controller = new AbortController();
  const say = () => {
    controller.abort(new HoneError("interrupted"));
    setTimeout(() => lock?.close(), 1000);
  };
  const waiting = resolveModel(mine, config(), { ...io, log: say, signal: controller.signal });
  await expect(waiting).rejects.toThrow("interrupted");

  const finished = join(folder, "finished");
  mkdirSync(finished);
  copyFileSync(modelPath("qwen2-tiny-q8_0.gguf"), join(finished, "a.gguf"));
  expect(await resolved(finished)).toBe(join(finished, "a.gguf"));
});

test("what a model would be is looked at before its weights are downloaded, or converted", async () => {
  const sizes = { hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4 };
  const sized = {
    model_type: "qwen2",
    ...sizes,
    vocab_size: 100,
    max_position_embeddings: 512,
    tie_word_embeddings: true,
  };
  await server.stop();
  server = new HubServer({ "Org/Sized": { ...model, "config.json": json(sized) } });
  await server.start();
  const seen: object[] = [];
  const inspect = (shape: object) => {
    seen.push(shape);
    throw new HoneError("of another shape");
  };
  await expect(resolveModel("Org/Sized", config(), io, { inspect })).rejects.toThrow("of another shape");
  expect(fetched()).toEqual([]);
  expect(seen).toMatchObject([{ architecture: "qwen2", kvHeads: 4, headSize: 16, vocabulary: 100, weightType: "F16" }]);
  const mine = join(folder, "sized");
  mkdirSync(mine);
  for (const [name, content] of Object.entries(model)) writeFileSync(join(mine, name), content);
  writeFileSync(join(mine, "config.json"), json(sized));
  await expect(resolveModel(mine, config(), io, { inspect })).rejects.toThrow("of another shape");
  expect(vi.mocked(converted)).not.toHaveBeenCalledWith(
    expect.objectContaining({ folder: mine }),
    expect.anything(),
    io,
  );
});

test("a repository that is not there is told with what to check", async () => {
  for (const name of ["Org/Nothing", "Qwen/Qwen2.5-0.5B-Instruct"]) {
    await expect(resolved(name)).rejects.toThrow(/check the name, HF_ENDPOINT and HF_TOKEN$/);
  }
});

test("offline, what the network would not mend either is said as it is", async () => {
  await expect(resolved("Org/Mixture")).rejects.toThrow("its architecture is mixtral");
  leave("Adapter", { "adapter_config.json": json({}), "adapter_model.safetensors": json({}) });
  server.requests.length = 0;
  const offline = { hfOffline: true };
  await expect(resolved("Org/Mixture", offline)).rejects.toThrow(
    "Org/Mixture cannot be used: its architecture is mixtral",
  );
  await expect(resolved("Org/Adapter", offline)).rejects.toThrow(
    /it is an adapter: give the model under it with --model/,
  );
  expect(server.requests).toEqual([]);
});

test("a part of a model is no model where another program downloaded it, either", async () => {
  const part = "one-00001-of-00002.gguf";
  leave("Parts", { [part]: gguf });
  for (const reference of [`hf:Org/Parts:${part}`, "Org/Parts"]) {
    await expect(resolved(reference, { hfOffline: true })).rejects.toThrow(
      /^one-00001-of-00002\.gguf.* is one part of/,
    );
  }
});

test("offline, a whole base model is told as it is", async () => {
  leave("Base", { ...model, "tokenizer_config.json": json({}) });
  await expect(resolved("Org/Base", { hfOffline: true })).rejects.toThrow(
    /^Org\/Base has no chat template: it is a base model; give the one that was made for chat/,
  );
});

test("offline nothing is asked, whatever is missing", async () => {
  for (const reference of ["Org/File", "Org/Mixture", "qwen2.5-0.5b", "hf:Org/Files:one-q8_0.gguf"]) {
    await expect(resolved(reference, { hfOffline: true })).rejects.toThrow(
      /was not downloaded before: run once without/,
    );
  }
  expect(server.requests).toEqual([]);
});

test.each([
  ["nothing", "null"],
  ["a list", "[]"],
  ["a number for a tensor", '{"a": 7}'],
  ["nothing for a tensor", '{"a": null}'],
  ["a shape that is none", '{"a": {"dtype": "F32", "shape": 4, "data_offsets": [0, 16]}}'],
  ["text in a shape", '{"a": {"dtype": "F32", "shape": ["4"], "data_offsets": [0, 16]}}'],
  ["no places", '{"a": {"dtype": "F32", "shape": [4]}}'],
  ["places of another length", '{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}'],
  ["an unknown type", '{"a": {"dtype": "F31", "shape": [4], "data_offsets": [0, 16]}}'],
  ["a huge shape", '{"a": {"dtype": "F32", "shape": [1e300], "data_offsets": [0, 16]}}'],
])("a safetensors header with %s is refused in one line", async (_, text) => {
  const place = join(folder, "mine");
  mkdirSync(place);
  const head = Buffer.from(text);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(head.length));
  const files = { ...about, "model.safetensors": Buffer.concat([length, head, Buffer.alloc(16)]) };
  for (const [file, content] of Object.entries(files)) writeFileSync(join(place, file), content);
  const refused = await resolved(place).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(HoneError);
  expect((refused as Error).message).toMatch(
    /^model\.safetensors of mine is not whole \(its header does not describe tensors\): download or copy it again$/,
  );
});

test.each([
  ["config.json", "[]", /^config\.json of .* is no JSON object/],
  ["tokenizer_config.json", "null", /^tokenizer_config\.json of .* is no JSON object/],
  ["tokenizer_config.json", '["chat_template"]', /^tokenizer_config\.json of .* is no JSON object/],
  ["model.safetensors.index.json", "7", /^model\.safetensors\.index\.json of .* is no JSON object/],
  [
    "model.safetensors.index.json",
    '{"weight_map": {"c": null}}',
    /^mine lacks the weights c, which its index puts in null$/,
  ],
])("%s that is %s is refused in one line", async (file, text, why) => {
  const place = join(folder, "mine");
  mkdirSync(place);
  for (const [name, content] of Object.entries(model)) writeFileSync(join(place, name), content);
  writeFileSync(join(place, file), text);
  await expect(resolved(place)).rejects.toThrow(HoneError);
  await expect(resolved(place)).rejects.toThrow(why);
});

test("weights that nobody named are the model's own bf16 on a card that multiplies it, else f16", () => {
  const bf16 = join(folder, "bf16");
  const older = join(folder, "older");
  mkdirSync(bf16, { recursive: true });
  mkdirSync(older, { recursive: true });
  writeFileSync(join(bf16, "config.json"), '{"torch_dtype": "bfloat16"}');
  writeFileSync(join(older, "config.json"), '{"torch_dtype": "float16"}');
  expect([80, 89, 90].map((capability) => defaultWeights(bf16, capability))).toEqual(["bf16", "bf16", "bf16"]);
  expect(defaultWeights(bf16, 75)).toBe("f16");
  expect(defaultWeights(older, 89)).toBe("f16");
  writeFileSync(join(bf16, "config.json"), '{"dtype": "bfloat16"}');
  expect(defaultWeights(bf16, 80)).toBe("bf16");
});
