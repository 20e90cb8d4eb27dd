/** A pack of this very hone, whose Python packages are stand-ins: what is in it, that it runs, and what is refused. */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
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
import { type PackConfig, pack } from "../../src/machine/pack/pack.js";
import { readManifest, unpack } from "../../src/machine/pack/unpack.mjs";

const base = mkdtempSync(join(tmpdir(), "hone-pack-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));
const logged: string[] = [];
const io = { log: (line: string) => void logged.push(line), update: () => undefined };
const pipLog = join(base, "pip.log");

/** A Python of a version that makes environments of itself, and "downloads" PyTorch when it is asked for. */
function python(name: string, version: string): string {
  const file = join(base, name);
  writeFileSync(
    file,
    `#!/bin/sh
case "$*" in
  *version_info*) echo "${version}";;
  "-m venv --clear "*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python";;
  "-m pip "*) echo "$*" >> "${pipLog}"
    for last; do [ "$before" = --dest ] && dest="$last"; before="$last"; done
    case "$*" in *whl/cpu*) exit 1;; esac
    echo wheel > "$dest/torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl";;
esac
`,
  );
  chmodSync(file, 0o755);
  return file;
}

const here = spawnSync("python3", ["-c", "import sys; print(*sys.version_info[:2])"], {
  encoding: "utf8",
}).stdout.trim();
const out = join(base, "packed");
const model = join(base, "mine.gguf");
const configOf = (given: Partial<PackConfig> = {}): PackConfig =>
  ({
    for: "linux-x64-cpu",
    out,
    partSize: "60M",
    force: false,
    learner: "auto",
    home: join(base, "home"),
    python: python("python", here),
    hfEndpoint: "http://127.0.0.1:1",
    hfOffline: true,
    ...given,
  }) as PackConfig;

describe("a pack of hone", () => {
  const into = join(base, "unpacked");
  beforeAll(async () => {
    const tiny = readFileSync(new URL("../../models/tiny/tiny.gguf", import.meta.url));
    writeFileSync(model, tiny);
    await pack(configOf({ model: `tiny,${model}` }), io);
    await unpack(out, into, { log: () => undefined });
  });

  it("has parts of the size, the program that unpacks it, and says what the machine must have", () => {
    const manifest = readManifest(out);
    expect(manifest).toMatchObject({
      target: "linux-x64-cpu",
      python: here.replace(" ", "."),
      models: ["models/mine.gguf"],
    });
    const { parts, files } = manifest;
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.slice(0, -1).map((name) => files[name]?.bytes)).toEqual(parts.slice(1).map(() => 60_000_000));
    const others = ["README.md", "hone-pack.json", "unpack.mjs"];
    expect(readdirSync(out).sort()).toEqual([...others, ...parts].sort());
    const readme = readFileSync(join(out, "README.md"), "utf8");
    expect(readme).toContain(`- Linux on x64 with glibc ${manifest.glibc} or newer`);
    expect(readme).toContain("Models: tiny, models/mine.gguf.");
    expect(readme).not.toContain(base);
  });

  it("has llama.cpp's libraries for its target alone, the addon, and PyTorch by pip", () => {
    expect(readdirSync(join(into, "node_modules/@node-llama-cpp"))).toEqual(["linux-x64"]);
    const inside = join(into, "node_modules/@hone-rl/hone");
    expect(existsSync(join(inside, "build/Release/hone_engine.node"))).toBe(true);
    expect(existsSync(join(into, "node_modules/vitest"))).toBe(false);
    expect(readdirSync(join(inside, "wheels")).sort()).toEqual([
      "hone-wheels.json",
      "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    ]);
    const asked = readFileSync(pipLog, "utf8").trim().split("\n");
    expect(asked[0]).toMatch(/pip .*download --only-binary :all: --dest \S+ .*--no-index --no-deps torch==2\.13\.0$/);
    expect(asked.at(-1)).toMatch(/ --no-deps --require-hashes -r \S+requirements\.txt$/);
    expect(logged).toEqual(expect.arrayContaining([expect.stringContaining("getting torch==2.13.0 for the CPU")]));
  });

  it("runs where it was unpacked: the engine, a task, the model that it brought", () => {
    const run = (...args: string[]) =>
      spawnSync("npx", ["--no", "--", "hone", ...args], { cwd: into, encoding: "utf8" });
    const hone = join(into, "node_modules/.bin/hone");
    const built = spawnSync(hone, ["build-db", "--mailboxes", "2", "--json"], { cwd: into, encoding: "utf8" });
    expect(built.status, built.stderr).toBe(0);
    const played = run(
      "rollout",
      "--model",
      "models/mine.gguf",
      "--n",
      "1",
      "--group-size",
      "1",
      "--max-turns",
      "1",
      "--gpu",
      "off",
      "--context",
      "2048",
      "--max-tokens",
      "4",
      "--threads",
      "1",
      "--json",
    );
    expect(played.status, played.stderr).toBe(0);
    expect(JSON.parse(played.stdout.trimEnd().split("\n").at(-1) ?? "")).toMatchObject({ rollouts: 1 });
  });

  it("is not replaced without --force", async () => {
    await expect(pack(configOf(), io)).rejects.toThrow(/is an earlier pack; --force replaces it/);
    mkdirSync(join(base, "mine"));
    writeFileSync(join(base, "mine/thesis.txt"), "years");
    await expect(pack(configOf({ out: join(base, "mine"), force: true }), io)).rejects.toThrow(
      /holds something that is no pack \(no hone-pack\.json\); give another folder/,
    );
  });
});

describe("what cannot be packed", () => {
  const place = join(base, "refused");
  it.each([
    ["a Python that is none", { python: join(base, "none") }, /--python .*none: there is no Python that can be run/],
    ["a Python that is too old", { python: "OLD" }, /old is Python 3\.8; learning needs 3\.10 to 3\.14/],
    ["a model that is not there", { model: "/nowhere.gguf" }, /there is no file \/nowhere\.gguf/],
    ["two models of one name", { model: "MINE,MINE" }, /--model .*: two of them would be models\/mine\.gguf there/],
  ] as const)("is said in one line, and leaves nothing: %s", async (_, given, message) => {
    const old = python("old", "3 8");
    const change = JSON.parse(JSON.stringify(given).replaceAll("MINE", model).replace("OLD", old));
    const error = (await pack(configOf({ out: place, ...change }), io).catch((thrown: unknown) => thrown)) as Error;
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain("\n");
    expect(existsSync(place)).toBe(false);
    expect(readdirSync(base).filter((name) => name.includes(".part"))).toEqual([]);
  });
});
