/** One process of the learner for all models of a test file: each start of one loads PyTorch anew, which takes ten seconds. */
import { join } from "node:path";
import { Learner } from "../../src/core/learn/learner.js";
import type { LearnerSettings } from "../../src/core/learn/types.js";
import { packageRoot } from "../../src/core/util/paths.js";

export class LiveLearner {
  #learner: Learner | undefined;

  /** As `startLearner`; the model before is let go. Python, threads and log are those of the first. */
  async open(settings: LearnerSettings): Promise<Learner> {
    const { python, logFile, ...model } = settings;
    this.#learner ??= new Learner(settings, [join(packageRoot, "test/learn/live_learner.py")]);
    await this.#learner.open(model);
    return this.#learner;
  }

  async close(): Promise<void> {
    await this.#learner?.close();
  }
}
