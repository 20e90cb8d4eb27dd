/** Which packages are downloaded for another machine, and from where; pip itself is a stand-in. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { collectWheels, type WheelsChoice } from "../../src/machine/pack/wheels.js";
import { packedWheels } from "../../src/machine/python/packed.js";
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
  *"${fails}"*) echo "ERROR: none" >&2; exit 1;;
  *--require-hashes*) for last; do :; done
    echo "hashed $(sed -n 's/^\\([^ =]*\\)==.*/\\1/p' "$last" | grep -E '^(torch|nvidia-nccl-cu13|peft|trl|unsloth|torchao)$' | tr '\\n' ' ')" >> ${log};;
  "-m pip "*) echo "$*" >> ${log};;
esac`,
  );
  await collectWheels({
    folder: wheels,
    build: "cpu",
    python,
    torchIndex: undefined,
    unsloth: false,
    onProgress: () => undefined,
    ...given,
  });
  const common = `-m pip --disable-pip-version-check --no-input download --only-binary :all: --dest ${wheels} --find-links ${wheels} `;
  return readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => line.replace(common, "").trim());
}

describe("packages for another machine", () => {
  it("have PyTorch for the CPU from what pip has on the disk, or PyTorch's index", async () => {
    expect(await collected()).toEqual(["--no-index --no-deps torch==2.13.0", "hashed peft"]);
    rmSync(join(folder, "wheels"), { recursive: true });
    rmSync(join(folder, "pip.log"));
    expect(await collected({}, "--no-index")).toEqual([
      "--index-url https://download.pytorch.org/whl/cpu --no-deps torch==2.13.0",
      "hashed peft",
    ]);
  });

  it("have the general build, checked, where neither has one", async () => {
    expect(await collected({}, "-index")).toEqual(["hashed peft torch"]);
  });

  it.each([
    [
      "cuda12",
      [
        expect.stringMatching(/^--index-url \S+\/cu126 --no-deps torch==2\.13\.0 torchvision==\S+$/),
        "hashed peft unsloth trl",
        expect.stringMatching(/^torch==2\.13\.0 torchvision==\S+$/),
      ],
    ],
    ["cuda13", ["hashed peft torch unsloth trl nvidia-nccl-cu13"]],
    ["cpu", ["--no-index --no-deps torch==2.13.0", "hashed peft unsloth trl"]],
  ] as const)("have Unsloth when it is asked for: %s", async (build, asked) => {
    const got = await collected({ build, unsloth: true });
    expect(got.map((line) => line.replace("torchao ", ""))).toEqual(asked);
    // What only a GPU's path imports.
    expect(got.join().includes("torchao")).toBe(build !== "cpu");
    // What unpacking finds in hone's folder.
    expect(packedWheels(folder)).toMatchObject({ build, python: [3, 12] });
    expect(readdirSync(join(folder, "wheels"))).toEqual(["hone-wheels.json"]);
  });

  it("are not said to be there when one is not", async () => {
    await expect(collected({}, "-r ")).rejects.toThrow(
      /^Python packages could not be fetched: ERROR: none; or give --python/,
    );
    expect(existsSync(join(folder, "wheels/hone-wheels.json"))).toBe(false);
  });
});
