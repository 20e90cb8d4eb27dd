/** A checkpoint as other programs load it: what is written, how near it is to the model that was trained, and what is refused. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
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
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sha256OfFile } from "../../src/core/util/files.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { type ExportConfig, exportRun } from "../../src/machine/export/export.js";
import { adapterOf, checkNear, configIn, prepared, trainedRun } from "./support.js";

const home = mkdtempSync(join(tmpdir(), "hone-export-"));
const out = (name: string) => join(home, "out", name);
const io = { log: () => undefined, update: () => undefined };
let python: string;
beforeAll(async () => {
  python = await prepared();
  await trainedRun(home, "counted");
}, 900_000);
afterAll(() => rmSync(home, { recursive: true }));

const configOf = (given: Partial<ExportConfig> & Pick<ExportConfig, "to">) => configIn(home, python, given);
const exported = (given: Partial<ExportConfig> & Pick<ExportConfig, "to">) => exportRun(configOf(given), io);

/** A Python that does something else in the place of an export. */
function pythonThat(name: string, script: string): string {
  const file = join(home, name);
  writeFileSync(file, `#!/bin/bash\nif [[ "$*" == *learner.export* ]]; then\n${script}\nfi\nexec "${python}" "$@"\n`);
  chmodSync(file, 0o755);
  return file;
}

describe("a merged model in GGUF form", () => {
  // The other types: types.long.test.ts.
  it("with q4_k_m weights is the engine's model with its adapter, within the type's rounding", async () => {
    const { folder, files } = await exported({ to: "gguf", type: "q4_k_m", out: out("q4") });
    expect(files).toEqual(["README.md", "model-q4_k_m.gguf", "hone-export.json"]);
    await checkNear(join(folder, "model-q4_k_m.gguf"), "q4_k_m");
  });
});

describe("an adapter", () => {
  it("in PEFT's form names its base as others find it, and says what training made of it", async () => {
    const { folder, files, step } = await exported({ to: "peft", out: out("peft"), baseName: "Qwen/Qwen2-0.5B" });
    expect(step).toBe(4);
    expect(files).toEqual(["README.md", "adapter_config.json", "adapter_model.safetensors", "hone-export.json"]);
    const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
    expect(config).toMatchObject({
      base_model_name_or_path: "Qwen/Qwen2-0.5B",
      r: 8,
      lora_alpha: 16,
      inference_mode: true,
    });
    const card = readFileSync(join(folder, "README.md"), "utf8");
    expect(card).toMatch(/^---\nlibrary_name: peft\nbase_model: Qwen\/Qwen2-0.5B\nbase_model_relation: adapter\n/);
    expect(card).toContain("| success | 20.0 % (95 %: 10.0 to 90.0, n=50) | 80.0 % (95 %: 10.0 to 90.0, n=50) |");
    expect(card).toContain("| learning rate | 0.0001 |");
    expect(card).toContain("| task | counting |");
    // A path tells others nothing, and them something of the machine.
    expect(card).not.toContain("somebody");
    expect(readFileSync(join(folder, "hone-export.json"), "utf8")).not.toContain(home);
  });

  it.each([
    { model: "Org/Base@v2", arguments: ', revision="v2"', revision: "v2" },
    { model: "hf:Org/Base:sub/b-q8_0.gguf", arguments: ', gguf_file="sub/b-q8_0.gguf"', revision: null },
  ])("in PEFT's form is loaded with the revision and the file of $model", async (base) => {
    const run = base.model.replace(/\W/g, "-");
    await trainedRun(home, run, { model: base.model });
    const { folder } = await exported({ to: "peft", run, out: out(run) });
    const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
    expect(config).toMatchObject({ base_model_name_or_path: "Org/Base", revision: base.revision });
    expect(readFileSync(join(folder, "README.md"), "utf8")).toContain(`from_pretrained("Org/Base"${base.arguments})`);
  });

  it.each([
    ["qwen2.5-0.5b", "license: apache-2.0\n"],
    [
      "qwen2.5-3b",
      "license: other\nlicense_name: qwen-research\nlicense_link: https://huggingface.co/Qwen/Qwen2.5-3B-Instruct/blob/main/LICENSE\n",
    ],
  ])("of %s has its licence as the Hub takes it", async (model, licence) => {
    await trainedRun(home, model, { model });
    const { folder } = await exported({ to: "peft", run: model, out: out(model) });
    expect(readFileSync(join(folder, "README.md"), "utf8")).toContain(`\n${licence}pipeline_tag:`);
  });

  it("in GGUF form is the checkpoint's own file, and the list has its sum", async () => {
    const { folder } = await exported({ to: "gguf-lora", out: out("lora") });
    const file = join(folder, "adapter.gguf");
    expect(readFileSync(file).equals(readFileSync(`${adapterOf()}.gguf`))).toBe(true);
    const list = JSON.parse(readFileSync(join(folder, "hone-export.json"), "utf8"));
    expect(list).toMatchObject({ run: "counted", step: 4, form: "gguf-lora", type: null });
    expect(list.files["adapter.gguf"].sha256).toBe(await sha256OfFile(file));
  });
});

describe("what cannot be exported", () => {
  it.each([
    [
      "a checkpoint that is not there",
      { checkpoint: ["99"] },
      /--checkpoint 99: the run \w+ has none; give one of latest, best, base, 4/,
    ],
    [
      "the base model",
      { checkpoint: ["base"] },
      /--checkpoint base: the run counted has no adapter there, but its base model/,
    ],
    ["two checkpoints", { checkpoint: ["4", "best"] }, /export takes one --checkpoint/],
    ["a type that the form has not", { type: "q8_0", to: "safetensors" }, /safetensors are written in f16 or bf16/],
    ["a type of an adapter alone", { type: "f16", to: "peft" }, /--to peft writes the adapter alone, in f32/],
    ["another base model", { model: "tiny" }, /is not the model that the run counted was trained from; give that one/],
    ["a base model that is gone", { model: "/nowhere/model.gguf" }, /there is no file \/nowhere\/model\.gguf/],
    ["weights that are not there", { baseFolder: "/nowhere" }, /--base-folder: there is no \/nowhere\/config\.json/],
    ["a name that no repository has", { push: "mine" }, /--push mine: a repository on the Hub is written/],
    ["a push without a token", { push: "me/mine" }, /--push me\/mine needs a token .* set HF_TOKEN/],
    ["a push offline", { push: "me/mine", hfToken: "x", hfOffline: true }, /HF_HUB_OFFLINE is set/],
  ] as const)("is said in one line: %s", async (_, given, message) => {
    const place = out("refused");
    await expect(exported({ to: "gguf", out: place, ...given } as never)).rejects.toThrow(message);
    expect(existsSync(place)).toBe(false);
  });

  it("is a run whose model is gone, merged; its adapter alone needs no model", async () => {
    await trainedRun(home, "moved", { model: "/nowhere/base.gguf" });
    await expect(exported({ to: "gguf", run: "moved", out: out("moved") })).rejects.toThrow(
      /there is no file .*base\.gguf/,
    );
    const { folder } = await exported({ to: "peft", run: "moved", out: out("moved") });
    const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
    expect(config.base_model_name_or_path).toBeNull();
  });
});

describe("the folder of an export", () => {
  it("has files that others may read, as far as the umask allows, whatever the mode of the checkpoint's", async () => {
    const modes = (folder: string) =>
      readdirSync(folder).map((name) => (statSync(join(folder, name)).mode & 0o777).toString(8));
    const umask = process.umask(0o022);
    try {
      const { folder } = await exported({ to: "safetensors", out: out("modes") });
      expect(new Set(modes(folder))).toEqual(new Set(["644"]));
      chmodSync(join(home, "p/models/counted/checkpoints/0004/adapter/adapter_model.safetensors"), 0o600);
      process.umask(0o007);
      expect(new Set(modes((await exported({ to: "peft", out: out("own-modes") })).folder))).toEqual(new Set(["660"]));
    } finally {
      process.umask(umask);
    }
  });

  it("replaces an earlier one with --force alone, and never what is no export", async () => {
    const place = out("again");
    await exported({ to: "peft", out: place });
    await expect(exported({ to: "gguf-lora", out: place })).rejects.toThrow(
      /is an earlier export; --force replaces it/,
    );
    expect(existsSync(join(place, "adapter_config.json"))).toBe(true);
    await exported({ to: "gguf-lora", out: place, force: true });
    expect(readdirSync(place).sort()).toEqual(["README.md", "adapter.gguf", "hone-export.json"]);
    const mine = out("mine");
    mkdirSync(mine);
    writeFileSync(join(mine, "thesis.txt"), "years");
    await expect(exported({ to: "peft", out: mine, force: true })).rejects.toThrow(/holds something that is no export/);
    expect(readdirSync(mine)).toEqual(["thesis.txt"]);
  });

  it("is not there when the disk filled up half way, and the line says so", async () => {
    const full = pythonThat(
      "full",
      `echo half > "${join(home, "written")}"; echo "OSError: 131072 requested and 4632 written" >&2; exit 1`,
    );
    const place = join(home, "full-out/model");
    await expect(exported({ to: "gguf", out: place, python: full })).rejects.toThrow(
      /the disk filled up during the export/,
    );
    expect(existsSync(join(home, "written"))).toBe(true);
    expect(readdirSync(join(home, "full-out"))).toEqual([]);
  });

  // A root in a container may not mount either.
  const lack =
    spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "none", home]).status === 0
      ? ""
      : "no disk can be mounted here";
  it.skipIf(lack)(`is refused before the work on a disk that is too small${lack && ` (skipped: ${lack})`}`, () => {
    const small = join(home, "small");
    mkdirSync(small);
    const command = `mount -t tmpfs -o size=200k none "${small}" && "${process.execPath}" "${cli}" export counted --to gguf --python "${python}" --out "${small}/model" --home "${home}"; code=$?; ls -A "${small}"; exit $code`;
    const { status, stdout, stderr } = spawnSync("unshare", ["-m", "bash", "-c", command], { encoding: "utf8" });
    expect(stderr).toMatch(/the export needs .* of free disk in .*small.*, which has .*; free some, or give --out/);
    expect(status).toBe(1);
    expect(stdout.trim()).not.toContain("model");
  });

  it("is not there after a kill in the middle; what was left is removed by the next export", async () => {
    const started = join(home, "started");
    const slow = pythonThat(
      "slow",
      `echo half > "$(echo "$*" | sed 's/.*"into":"\\([^"]*\\)".*/\\1/')"; touch "${started}"; sleep 60`,
    );
    const folder = join(home, "killed-out");
    const args = [
      "export",
      "counted",
      "--to",
      "gguf",
      "--out",
      join(folder, "model"),
      "--home",
      home,
      "--python",
      slow,
    ];
    const child = spawn(process.execPath, [cli, ...args], { stdio: "ignore" });
    while (!existsSync(started)) await sleep(50);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(readdirSync(folder)).toEqual([`.model.${child.pid}.part`]);
    expect(readdirSync(join(folder, `.model.${child.pid}.part`))).toEqual(["model-f16.gguf"]);
    await exported({ to: "peft", out: join(folder, "model") });
    expect(readdirSync(folder)).toEqual(["model"]);
  });
});

const cli = join(packageRoot, "dist/src/cli.js");
