/** Which packages are downloaded for another machine, and from where; pip itself is a stand-in. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { packedWheels } from "../../src/python-env/packed.js";
import { collectWheels, type WheelsChoice } from "../../src/python-env/wheels.js";
import { program } from "../support/nvidia.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-wheels-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** What pip is asked for, without what is common to all calls. */
async function collected(given: Partial<WheelsChoice> = {}, fails = "nothing"): Promise<string[]> {
  const log = join(folder, "pip.log");
  const wheels = join(folder, "wheels");
  mkdirSync(wheels);
  const python = program(
    folder,
    "python",
    `case "$*" in
  *version_info*) echo "3 12";;
  "-m venv --clear "*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python";;
  *cpu_wheel.py*) echo "cpu_wheel.py" >> ${log};;
  *"${fails}"*) echo "ERROR: none" >&2; exit 1;;
  "-m pip "*) echo "$*" >> ${log};;
esac`,
  );
  await collectWheels({
    ...{ folder: wheels, build: "cpu", python, torchIndex: undefined, unsloth: false, onProgress: () => undefined },
    ...given,
  });
  const common = `-m pip --disable-pip-version-check --no-input download --only-binary :all: --dest ${wheels} --find-links ${wheels} `;
  return readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => line.replace(common, "").replaceAll(/\S*\/native\/learner\//g, ""));
}

describe("packages for another machine", () => {
  it("have PyTorch for the CPU from what pip has on the disk, or PyTorch's index", async () => {
    expect(await collected()).toEqual(["--no-deps --no-index torch==2.13.0", "-r requirements.txt"]);
    rmSync(join(folder, "wheels"), { recursive: true });
    rmSync(join(folder, "pip.log"));
    expect(await collected({}, "--no-index")).toEqual([
      "--no-deps --index-url https://download.pytorch.org/whl/cpu torch==2.13.0",
      "-r requirements.txt",
    ]);
  });

  it("have the general build, made to load without CUDA, where neither has one", async () => {
    expect(await collected({}, "-index")).toEqual(["--no-deps torch==2.13.0", "cpu_wheel.py", "-r requirements.txt"]);
  });

  it.each([
    [
      "cuda12",
      [
        "--no-deps --index-url https://download.pytorch.org/whl/cu126 torch==2.13.0",
        "-r requirements.txt",
        expect.stringMatching(/^--no-deps --index-url \S+\/cu126 torchvision==/),
        "-r requirements-unsloth-cuda.txt",
        expect.stringMatching(/^--no-deps unsloth==\S+ unsloth_zoo==\S+$/),
      ],
    ],
    [
      "cuda13",
      ["-r requirements.txt", "-r requirements-unsloth-cuda.txt", expect.stringMatching(/^--no-deps unsloth==/)],
    ],
    [
      "cpu",
      ["--no-deps --no-index torch==2.13.0", "-r requirements.txt", "-r requirements-unsloth.txt", expect.any(String)],
    ],
  ] as const)("have Unsloth when it is asked for: %s", async (build, asked) => {
    expect(await collected({ build, unsloth: true })).toEqual(asked);
    // What unpacking finds in hone's folder.
    expect(packedWheels(folder)).toMatchObject({ build, python: [3, 12] });
    expect(readdirSync(join(folder, "wheels"))).toEqual(["hone-wheels.json"]);
  });

  it("are not said to be there when one is not", async () => {
    await expect(collected({}, "-r ")).rejects.toThrow(/^installing Python packages for .* failed: ERROR: none$/);
    expect(existsSync(join(folder, "wheels/hone-wheels.json"))).toBe(false);
  });
});
