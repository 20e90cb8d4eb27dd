/** The Python that has TensorBoard and W&B, and how their own readers see a run. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { BUILDS, interpreterIn, madeEnvironments } from "../../../src/engine/device/environment.js";

const python =
  process.env.HONE_TEST_TRACKER_PYTHON ?? interpreterIn(madeEnvironments(BUILDS, ["trackers"])[0] ?? "none");
const FIND = "import importlib.util as u, sys; sys.exit(any(u.find_spec(n) is None for n in ('tensorboard', 'wandb')))";

/** Why tests with the libraries cannot run, for their names; "" where they can. */
export const lack =
  existsSync(python) && spawnSync(python, ["-c", FIND]).status === 0
    ? ""
    : ` (skipped: ${python} lacks tensorboard or wandb, which scripts/test-ground.mjs installs where it can)`;

export { python as trackerPython };

export interface TensorBoardData {
  scalars: Record<string, [step: number, value: number][]>;
  texts: Record<string, [step: number, text: string][]>;
}

/** As TensorBoard itself loads a folder of event files. */
export function readTensorBoard(folder: string): TensorBoardData {
  const script = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
run.Reload()
tags = run.Tags()
scalars = {tag: [[e.step, e.value] for e in run.Scalars(tag)] for tag in tags["scalars"]}
texts = {tag: [[e.step, e.tensor_proto.string_val[0].decode()] for e in run.Tensors(tag) if e.tensor_proto.string_val] for tag in tags["tensors"]}
print(json.dumps({"scalars": scalars, "texts": texts}))
`;
  return JSON.parse(execFileSync(python, ["-c", script, folder], { encoding: "utf8", maxBuffer: 1 << 28 }));
}

/** Forty characters, as W&B wants a key. */
export const KEY = "0123456789".repeat(4);

/** W&B's own upload of what was recorded offline. */
export async function wandbSync(folders: readonly string[], url: string, home: string) {
  const wandb = join(python, "../wandb");
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    WANDB_BASE_URL: url,
    WANDB_API_KEY: KEY,
    WANDB_ERROR_REPORTING: "false",
  };
  const child = spawn(wandb, ["sync", ...folders], { cwd: home, env });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      said += chunk;
    });
  }
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { status, said };
}
