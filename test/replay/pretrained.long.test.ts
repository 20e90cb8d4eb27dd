/** `hone replay` of a run of a pretrained model. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { runHone } from "../models/support/cli.js";
import { ensureLearnerPython } from "../support/python.js";
import { replayed, whole } from "./support/replayed.js";

const PRETRAINED = "smollm2-135m-q4_1";
const home = mkdtempSync(join(tmpdir(), "hone-replay-pretrained-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

// pip's own configuration, and the wheels that this user has already.
const pip = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => /^(PIP_|SSL_|REQUESTS_|https?_proxy$|no_proxy$|HOME$)/i.test(name)),
) as Record<string, string>;
const pulled = await runHone(home, ["models", "pull", PRETRAINED], pip);
const lack = pulled.stderr.includes("cannot be reached") ? " (skipped: the package index cannot be reached)" : "";

const words = ["--task", join(packageRoot, "examples/what-kind.ts"), "--max-tokens", "12", "--group-size", "8"];
// Else a step may have no update.
const ANY = ["--control", "random-reward"];

it.skipIf(lack !== "")(
  `both steps of a run of a pretrained model, whose own weights have 4 bits, bit for bit${lack}`,
  async () => {
    expect(pulled.status, pulled.stderr).toBe(0);
    const env = { ...pip, HONE_PYTHON: await ensureLearnerPython() };
    const options = ["--model", PRETRAINED, ...words, ...ANY, "--learning-rate", "5e-5"];
    expect(await replayed(home, env, "pretrained", options)).toEqual([whole, whole]);
  },
);
