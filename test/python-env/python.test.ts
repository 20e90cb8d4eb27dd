/** The Python that learns, where something is wrong with it: one clear line, nothing left behind. */
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HoneError } from "../../src/core/util/errors.js";
import { madeEnvironments } from "../../src/engine/device/environment.js";
import { whyNotFetched } from "../../src/machine/python/failure.js";
import { ensurePython } from "../../src/machine/python/python.js";

let folder: string;
const before = { ...process.env };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-python-"));
  process.env.XDG_CACHE_HOME = join(folder, "cache");
});
afterEach(() => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, before);
});

/** A program of a few lines, on a PATH that has nothing else. */
function program(name: string, script: string): string {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  process.env.PATH = folder;
  return file;
}

const refused = async (options: Parameters<typeof ensurePython>[0]) => {
  const error = await ensurePython(options).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(HoneError);
  const { message } = error as Error;
  expect(message).not.toContain("\n");
  return message;
};

describe("a Python that the user names", () => {
  it("must be there, and be a Python", async () => {
    expect(await refused({ python: join(folder, "none") })).toMatch(/--python .*none: there is no Python/);
    expect(await refused({ python: folder })).toMatch(/there is no Python/);
    expect(await refused({ python: program("cat", "echo hello") })).toMatch(/there is no Python/);
  });

  it("must be new enough", async () => {
    expect(await refused({ python: program("old", "echo 3 8") })).toMatch(
      /is Python 3\.8; learning needs 3\.10 to 3\.14/,
    );
  });

  it("must have the learner's packages; those that are missing are named, with the command that installs them", async () => {
    const python = program(
      "bare",
      'case "$2" in *version_info*) echo 3 12;; *) echo \'[["/p"], ["torch", "peft"]]\';; esac',
    );
    expect(await refused({ python })).toMatch(
      /bare lacks torch, peft: run .*bare -m pip install torch==\S+ peft==\S+, or leave --python out$/,
    );
  });

  it("must have the trackers that are asked for, in any version", async () => {
    const asking = `case "$2" in *version_info*) echo 3 12;; *)
  case "$*" in *wandb*) echo '[["/p"], ["wandb"]]';; *) echo '[["/p"], []]';; esac;; esac`;
    const python = program("untracked", asking);
    const tracked = (needs: string[]) => ({ python, extras: ["trackers" as const], needs });
    expect(await refused(tracked(["tensorboard", "wandb"]))).toMatch(
      /untracked lacks wandb: run .*untracked -m pip install wandb==\S+, or leave --python out$/,
    );
    expect(await ensurePython(tracked(["tensorboard"]))).toBe(python);
  });

  it("is used as it is", async () => {
    const python = program("good", 'case "$2" in *version_info*) echo 3 12;; *) echo \'[["/p"], []]\';; esac');
    expect(await ensurePython({ python })).toBe(python);
  });
});

describe("an environment of hone's own", () => {
  it("needs some Python to be made with", async () => {
    program("python3", "echo 3 7");
    const message = await refused({ cpu: true });
    expect(message).toMatch(/learning needs Python 3\.10 to 3\.14: python3 is 3\.7; install one \(or uv/);
    expect(madeEnvironments()).toEqual([]);
  });

  it("says which package of the system is missing when Python cannot make environments", async () => {
    program("python3", 'case "$1" in -c) echo 3 11;; *) echo "ensurepip is not available"; exit 1;; esac');
    expect(await refused({ cpu: true })).toMatch(/apt install python3-venv/);
  });

  it("is begun again when it was left half made", async () => {
    program("python3", 'case "$1" in -c) echo 3 11;; *) echo "no luck"; exit 1;; esac');
    expect(await refused({ cpu: true })).toMatch(/could not make an environment in .*: no luck/);
    expect(await refused({ cpu: true })).toMatch(/no luck/);
  });
});

describe("what pip and uv say when they fail", () => {
  it.each([
    [
      "a full disk",
      "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
      /the disk filled up while fetching Python packages: free some space/,
    ],
    [
      "no network (pip)",
      "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError(\"HTTPSConnection(host='pypi.org', port=443): Failed to establish a new connection: [Errno 101] Network is unreachable\")': /simple/torch/\nERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)\nERROR: No matching distribution found for torch==2.13.0",
      /the package index cannot be reached.*PIP_INDEX_URL or PIP_FIND_LINKS/,
    ],
    [
      "no network (uv)",
      "error: Failed to fetch: `https://pypi.org/simple/torch/`\n  Caused by: error sending request for url (https://pypi.org/simple/torch/)\n  Caused by: dns error: failed to lookup address information: Temporary failure in name resolution",
      /the package index cannot be reached/,
    ],
    [
      "a file that is not the tested one",
      "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.",
      /the package index, or a cache on the way to it, has another file of Python packages than/,
    ],
    [
      "anything else",
      "Collecting torch==9\nERROR: Could not find a version that satisfies the requirement torch==9 (from versions: 2.13.0)\nERROR: No matching distribution found for torch==9",
      /^Python packages could not be fetched: ERROR: Could not find a version that satisfies the requirement torch==9/,
    ],
  ])("%s becomes one line", (_, output, message) => {
    const line = whyNotFetched("Python packages", output);
    expect(line).toMatch(message);
    expect(line).not.toContain("\n");
  });
});
