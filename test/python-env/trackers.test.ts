/** The packages of trackers: installed into hone's own environment when they are asked for, never into the user's. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { ensureTrackers } from "../../src/python-env/trackers.js";
import { readTrackers } from "../../src/track/names.js";
import { HoneError, UsageError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";

const pins =
  readFileSync(join(packageRoot, "native/learner/requirements-track.txt"), "utf8").match(/^\w+==\S+$/gm) ?? [];
const [tensorboard = "", wandb = ""] = pins;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-trackers-"));
});

/** An interpreter that says which packages it has. */
function environment(versions: Record<string, string | null>): string {
  const python = join(folder, "env/bin/python");
  mkdirSync(join(folder, "env/bin"), { recursive: true });
  writeFileSync(python, `#!/bin/sh\necho '${JSON.stringify(versions)}'\n`);
  chmodSync(python, 0o755);
  return python;
}

const version = (pin: string) => pin.split("==")[1] as string;

async function ensured(python: string, names: string[], given: boolean) {
  const said: string[] = [];
  const installed: (readonly string[])[] = [];
  const install = async (_: string, args: readonly string[]) => void installed.push(args);
  const failure = await ensureTrackers(python, names, { given, onProgress: (line) => said.push(line), install }).then(
    () => undefined,
    (error: unknown) => error as Error,
  );
  return { said, installed, failure };
}

describe("hone's own environment", () => {
  it("is left alone where no tracker is asked for, or all are there", async () => {
    expect(await ensured(join(folder, "none"), [], false)).toEqual({ said: [], installed: [], failure: undefined });
    const python = environment({ tensorboard: version(tensorboard), wandb: version(wandb) });
    expect((await ensured(python, ["tensorboard", "wandb"], false)).installed).toEqual([]);
  });

  it("gets what it lacks, in the version that is pinned, with the learner's requirements held", async () => {
    const python = environment({ tensorboard: version(tensorboard), wandb: null });
    const { said, installed } = await ensured(python, ["tensorboard", "wandb"], false);
    expect(installed).toEqual([["-r", join(packageRoot, "native/learner/requirements.txt"), wandb]]);
    expect(said).toEqual(["installing wandb for --track"]);
  });

  it("gets another version where an older hone had one", async () => {
    const python = environment({ wandb: "0.1.0" });
    expect((await ensured(python, ["wandb"], false)).installed.flat()).toContain(wandb);
  });
});

describe("a Python that the user names", () => {
  it("may have any version", async () => {
    const { failure, installed } = await ensured(environment({ wandb: "0.1.0" }), ["wandb"], true);
    expect([failure, installed]).toEqual([undefined, []]);
  });

  it("is refused where it lacks one, in one line with the command that installs it; nothing is installed", async () => {
    const python = environment({ wandb: null });
    const { failure, installed } = await ensured(python, ["wandb"], true);
    expect(failure).toBeInstanceOf(HoneError);
    expect(failure?.message).toBe(
      `--track wandb: --python ${python} lacks wandb: run ${python} -m pip install ${wandb}, or leave one of the two out`,
    );
    expect(installed).toEqual([]);
  });
});

it("--track takes the trackers that there are", () => {
  expect(readTrackers(undefined)).toEqual([]);
  expect(readTrackers(["wandb", "tensorboard", "wandb"])).toEqual(["wandb", "tensorboard"]);
  expect(() => readTrackers(["mlflow"])).toThrow(UsageError);
  expect(() => readTrackers(["mlflow"])).toThrow("--track mlflow: give tensorboard or wandb, or both");
});
