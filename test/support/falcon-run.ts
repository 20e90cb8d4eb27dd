/** A run of the tiny model with one checkpoint, whose adapter changes what it says: mail/falcon. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { sealCheckpoint } from "../../src/core/run/checkpoints.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { modelFingerprint } from "../../src/engine/models.js";
import { writeTinyAdapter } from "../engine/tiny-model.js";

export async function writeFalcon(home: string): Promise<void> {
  const tiny = join(packageRoot, "models/tiny/tiny.gguf");
  const folder = join(home, "mail/models/falcon");
  const checkpoint = join(folder, "checkpoints/0003");
  mkdirSync(checkpoint, { recursive: true });
  writeTinyAdapter(join(checkpoint, "adapter.gguf"), "falcon", 4, { layers: 2, linears: [["attn_q", 256, 256]] });
  const lora = { rank: 4, alpha: 8, targets: ["q_proj"] };
  const about = { run: "falcon", step: 3, model: modelFingerprint(tiny), lora };
  const { adapter } = await sealCheckpoint(checkpoint, about, ["adapter.gguf"]);
  const store = RunStore.open(join(folder, "run.sqlite"));
  const options = { model: tiny, task: "email", context: 1024 };
  const contents = { model: modelFingerprint(tiny) };
  store.begin({ name: "falcon", created: "2031-01-01T00:00:00Z", options, contents }, { checkpoint: 3, adapter });
  store.close();
}
