import { describe, expect, it } from "vitest";
import { checkLaunch } from "../../src/trainer/learner-options.js";

describe("a learner of several processes", () => {
  const launch = { learnerLaunch: "torchrun --nproc-per-node 2", learner: "auto", learnerLifetime: "step" } as const;

  it("is refused with what it cannot have, in one line that says what to give instead", () => {
    expect(() => checkLaunch({ ...launch, learner: "unsloth" })).toThrow(/^--learner-launch .*; use --learner peft$/);
    expect(() => checkLaunch({ ...launch, learnerLifetime: "offload" })).toThrow(
      /use --learner-lifetime step in place/,
    );
  });

  it("is nothing to refuse otherwise, and neither is one process", () => {
    checkLaunch(launch);
    checkLaunch({ learner: "peft" });
    checkLaunch({ learner: "unsloth", learnerLifetime: "offload" });
  });
});
