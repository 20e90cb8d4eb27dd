/** A base model without training on the email task, and settings that keep what it learns: see docs/tiny-model.md. */
import { join } from "node:path";
import { packageRoot } from "../../util/index.js";

export const untaught = {
  model: join(packageRoot, "models/untaught/untaught.gguf"),
  settings: { steps: 10, groupsPerStep: 16, learningRate: 1e-3, finalLearningRate: 3e-4, onToolError: "stop" },
} as const;
