/** The environment of a copy of hone that was unpacked with its Python packages: made from those alone. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type PackedWheels, packedWheels } from "../../src/machine/python/packed.js";
import { ensurePython, type PythonOptions } from "../../src/machine/python/python.js";
import { program } from "../support/nvidia.js";

let folder: string;
const before = { ...process.env };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-packed-"));
  process.env.XDG_CACHE_HOME = folder;
});
afterEach(() => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, before);
  rmSync(folder, { recursive: true });
});

/** Names of the builds that there is an environment of. */
const made = () =>
  readdirSync(join(folder, "hone"))
    .filter((name) => existsSync(join(folder, "hone", name, "hone.json")))
    .map((name) => name.split("-").at(-1));

/** Pythons that make environments of themselves and write down how pip is called; a uv that must not be asked. */
function fakePythons(versions: Record<string, string>): () => string[] {
  const log = join(folder, "pip.log");
  for (const [name, version] of Object.entries(versions)) {
    program(
      folder,
      name,
      `case "$*" in
  *version_info*) echo "${version}";;
  "-m venv --clear "*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python";;
  *cpu_torch.main*) echo "made to load without CUDA" >> ${log};;
  *--require-hashes*) echo "$*$PIP_TARGET" >> ${log}
    for last; do :; done
    if grep -q unsloth "$last"; then echo "ERROR: No matching distribution found for unsloth==1" >&2; exit 1; fi;;
  "-m pip "*) echo "$*$PIP_TARGET" >> ${log}; [ "$PIP_USER" != 1 ];;
esac`,
    );
  }
  program(folder, "uv", `echo uv >> ${log}; exit 1`);
  process.env.PATH = `${folder}:/usr/bin:/bin`;
  return () => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : []);
}

const packed = (given: Partial<PackedWheels> = {}): PackedWheels => ({
  folder: join(folder, "wheels"),
  build: "cpu",
  python: [3, 11],
  ...given,
});
const card = { index: 0, uuid: undefined, name: "NVIDIA One", capability: 89, memoryBytes: undefined };
const device = (driver: string) => ({ card, nvidia: { gpus: [card], driver, problem: undefined } });
const none = { card: undefined, nvidia: { gpus: [], driver: undefined, problem: undefined } };

const ensure = (options: PythonOptions) => ensurePython({ device: none, packed: packed(), ...options });

describe("an environment of packed packages", () => {
  it("is made by the Python they are for, from their folder and no index", async () => {
    const asked = fakePythons({ python3: "3 12", "python3.11": "3 11" });
    // Pip refuses the one in an environment, and installs into the other place.
    process.env.PIP_USER = "1";
    process.env.PIP_TARGET = "/elsewhere";
    await ensure({});
    expect(asked()).toEqual([
      // From an index of PyTorch's own builds, which are not locked.
      expect.stringMatching(/ install --no-compile --no-index --find-links \S+wheels --no-deps torch==\S+$/),
      expect.stringMatching(/ --no-index --find-links \S+wheels --no-deps --require-hashes -r \S+requirements\.txt$/),
      "made to load without CUDA",
    ]);
    expect(made()).toEqual(["cpu"]);
    await ensure({});
    expect(asked()).toHaveLength(3);
  });

  it("needs that Python", async () => {
    fakePythons({ python3: "3 12", "python3.11": "3 9" });
    await expect(ensure({})).rejects.toThrow(
      /hone was unpacked with are for Python 3\.11: python3 is 3\.12, .*install 3\.11, or give --python/,
    );
  });

  it("has the packed PyTorch on each card that runs it, and is made once", async () => {
    const asked = fakePythons({ python3: "3 11" });
    const cuda12 = { packed: packed({ build: "cuda12" }) };
    // A machine with this driver would get CUDA 13 otherwise.
    await ensure({ ...cuda12, device: device("590.44.01") });
    expect(made()).toEqual(["cuda12"]);
    const installs = asked().length;
    // What this build of PyTorch needs of NVIDIA's was packed with it.
    expect(asked().at(-1)).toMatch(/ --no-index --find-links \S+wheels torch==\S+$/);
    await ensure({ ...cuda12, device: device("590.44.01") });
    await ensure({ ...cuda12, device: device("590.44.01"), cpu: true });
    await ensure({ ...cuda12, anyBuild: true });
    expect(asked()).toHaveLength(installs);
  });

  it("is refused for a card that does not run it, unless the learner computes on the CPU", async () => {
    const asked = fakePythons({ python3: "3 11" });
    const old = { packed: packed({ build: "cuda13" }), device: device("550.54.14") };
    await expect(ensure(old)).rejects.toThrow(
      "hone was packed with a PyTorch for CUDA 13, but 0 NVIDIA One with driver 550.54.14 runs CUDA 12: pack it --for linux-x64-cuda12, or use --gpu off",
    );
    await expect(ensure({ device: device("590.44.01") })).rejects.toThrow(
      /packed with a PyTorch without CUDA, but .*--for linux-x64-cuda13/,
    );
    expect(asked()).toEqual([]);
    await ensure({ ...old, cpu: true });
    expect(made()).toEqual(["cuda13"]);
  });

  it("says what was not packed", async () => {
    fakePythons({ python3: "3 11" });
    await expect(ensure({ extras: ["unsloth"] })).rejects.toThrow(
      /wheels, with which hone was unpacked, has no unsloth==1; pack hone again, with --learner unsloth/,
    );
    expect(made()).toEqual([]);
  });

  it("is none of a hone that was not unpacked", () => {
    expect(packedWheels(folder)).toBeUndefined();
    mkdirSync(join(folder, "wheels"));
    expect(packedWheels(folder)).toBeUndefined();
  });
});
