/** One process of the learner for all models of a test file: each start of one loads PyTorch anew, which takes ten seconds. */
import { join } from "node:path";
import { Child } from "../../src/core/learn/child.js";
import { Learner } from "../../src/core/learn/learner.js";
import { type LearnerSettings, learnerInfo } from "../../src/core/learn/types.js";
import { packageRoot } from "../../src/core/util/paths.js";

export class LiveLearner {
  #child: Child | undefined;

  /** As `startLearner`; the model before is let go. Python, threads and log are those of the first. */
  async open({ python, threads, logFile, ...model }: LearnerSettings): Promise<Learner> {
    const module = [join(packageRoot, "test/learn/live_learner.py")];
    this.#child ??= new Child({ python, threads, logFile, module });
    return new Learner(this.#child, learnerInfo.parse(await this.#child.call("open", { ...model, threads })));
  }

  async close(): Promise<void> {
    await this.#child?.close();
  }
}
