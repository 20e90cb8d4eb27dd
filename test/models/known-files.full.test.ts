/** A model's folder is data: nothing in it is run, and programs that read it have no keys. */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { MODEL_TYPES } from "../../src/machine/architectures.js";
import { ensureLearnerPython } from "../support/python.js";
import { runHone } from "./support/cli.js";

const home = mkdtempSync(join(tmpdir(), "hone-known-files-"));
const ran = join(home, "ran");
let python: string;

beforeAll(async () => {
  await ensureTestModels(["published"], () => undefined);
  const real = await ensureLearnerPython();
  // Keeps what each program got, and runs it.
  python = join(home, "python");
  writeFileSync(
    python,
    `#!/bin/sh
mkdir -p ${home}/seen/$$
env > ${home}/seen/$$/env
for one in "$@"; do case "$one" in /*) [ -d "$one" ] && cp -RP "$one" ${home}/seen/$$/;; esac; done
exec ${real} "$@"
`,
  );
  chmodSync(python, 0o755);
}, 900_000);
afterAll(() => rmSync(home, { recursive: true }));

const CODE = `open(${JSON.stringify(ran)}, "a").write(__name__)
class Own:
    @classmethod
    def from_pretrained(cls, *_, **__):
        raise SystemExit
`;

/** Modules in the working folder, as in that of a model which was downloaded. */
beforeAll(() => {
  for (const name of ["json", "torch", "transformers", "gguf", "learner", "venv"]) {
    mkdirSync(join(home, name));
    writeFileSync(join(home, name, "__init__.py"), CODE);
    writeFileSync(join(home, name, "convert.py"), CODE);
  }
});

/** A folder whose configurations name Python files of its own wherever transformers would look for such names. */
function hostile(base: string, name: string, change: (config: Record<string, unknown>) => void): string {
  const folder = join(home, name);
  cpSync(modelPath(base), folder, { recursive: true });
  const edit = (file: string, edits: (content: Record<string, unknown>) => void) => {
    const content = JSON.parse(readFileSync(join(folder, file), "utf8"));
    edits(content);
    writeFileSync(join(folder, file), JSON.stringify(content));
  };
  const own = "own.Own";
  const map = { AutoConfig: own, AutoTokenizer: [own, own], AutoModel: own, AutoModelForCausalLM: own };
  edit("config.json", (config) => {
    config.auto_map = map;
    change(config);
  });
  edit("tokenizer_config.json", (tokenizer) => {
    tokenizer.auto_map = { AutoTokenizer: [own, own] };
    tokenizer.trust_remote_code = true;
  });
  for (const file of ["own.py", "tokenization_own.py", "__init__.py", "torch.py"])
    writeFileSync(join(folder, file), CODE);
  mkdirSync(join(folder, "conversion"));
  writeFileSync(join(folder, "conversion/__init__.py"), CODE);
  return folder;
}

const pull = (folder: string) =>
  runHone(home, ["models", "pull", folder], {
    HONE_PYTHON: python,
    HF_TOKEN: "hf_secret",
    OPENAI_API_KEY: "secret",
    AWS_SECRET_ACCESS_KEY: "secret",
    MY_DATABASE: "secret",
    PYTHONPATH: join(home, "elsewhere"),
  });

describe("a folder with Python files", () => {
  it("is refused where its first class is none that hone knows", async () => {
    const folder = hostile("qwen2.5-small", "first", (config) => {
      config.architectures = ["LLaDAModelLM", "Qwen2ForCausalLM"];
    });
    const { status, stderr } = await pull(folder);
    expect([status, stderr]).toEqual([1, expect.stringContaining("cannot be used: it writes no text (LLaDAModelLM)")]);
    expect(existsSync(ran)).toBe(false);
  });

  it.each([
    ["qwen2.5-small", "no class", (config: Record<string, unknown>) => void delete config.architectures],
    [
      "qwen2.5-small",
      "a class within another's part",
      (config: Record<string, unknown>) => {
        config.text_config = { architectures: ["LLaDAModelLM"], model_type: "qwen2" };
      },
    ],
    ["llama2-small", "pieces", () => undefined],
  ])("%s, with %s, is converted by its known files, without keys", async (base, name, change) => {
    rmSync(join(home, "seen"), { recursive: true, force: true });
    const { status, stderr, stdout } = await pull(hostile(base, name.replaceAll(" ", "-"), change));
    expect(status, stderr).toBe(0);
    expect(stdout).toContain("to GGUF with f16 weights, once");
    expect(existsSync(ran)).toBe(false);
    const seen = readdirSync(join(home, "seen"), { recursive: true, encoding: "utf8" });
    expect(seen.filter((file) => file.endsWith("config.json"))).not.toEqual([]);
    expect(seen.filter((file) => file.endsWith(".py"))).toEqual([]);
    for (const file of seen.filter((one) => /config\.json$/.test(one))) {
      expect(readFileSync(join(home, "seen", file), "utf8")).not.toContain("own.Own");
    }
    // Of all but the first questions to Python, which are hone's own.
    const environments = seen
      .filter((file) => file.endsWith("/env"))
      .map((file) => readFileSync(join(home, "seen", file), "utf8"));
    const converters = environments.filter((text) => /^HF_HUB_OFFLINE=1$/m.test(text));
    expect(converters).not.toEqual([]);
    for (const text of converters) {
      expect(text).not.toMatch(/secret/);
      expect(text).not.toContain("elsewhere");
    }
  });
});

it("the source that hone was tested with has every class that hone converts", () => {
  const text = readFileSync(join(packageRoot, "build/llama.cpp/conversion/__init__.py"), "utf8");
  for (const { class: name } of MODEL_TYPES.values()) expect(text).toContain(`"${name}"`);
});
