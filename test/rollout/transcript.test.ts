import { describe, expect, it } from "vitest";
import { Transcript } from "../../src/core/rollout/transcript.js";

describe("Transcript", () => {
  it("keeps order, and says of each token whether it was sampled and how likely it was", () => {
    const transcript = new Transcript();
    transcript.given([1, 2]);
    transcript.sampled([3, 4], [-0.5, -1]);
    transcript.given([5]);
    expect(transcript.record()).toEqual({
      ids: [1, 2, 3, 4, 5],
      sampled: [0, 0, 1, 1, 0],
      logprobs: [0, 0, -0.5, -1, 0],
    });
  });

  it("hands out copies, so that what was recorded cannot change", () => {
    const transcript = new Transcript();
    transcript.given([1]);
    transcript.record().ids.push(99);
    expect(transcript.record().ids).toEqual([1]);
  });

  it.each([Number.NaN, Number.NEGATIVE_INFINITY, 0.1])("refuses %d as a log-probability", (logprob) => {
    expect(() => new Transcript().sampled([1], [logprob])).toThrow(RangeError);
  });

  it("refuses tokens without their log-probabilities", () => {
    expect(() => new Transcript().sampled([1, 2], [-1])).toThrow(RangeError);
  });

  it("takes a rounding above 0 for certainty", () => {
    const transcript = new Transcript();
    transcript.sampled([1], [1e-4]);
    expect(transcript.record().logprobs).toEqual([0]);
  });

  it("has what a grammar allowed at each place, each set once over all turns", () => {
    const transcript = new Transcript();
    transcript.given([1]);
    const turn = (sets: readonly string[], set: readonly number[]) =>
      transcript.add({
        ids: [2, 3],
        sampled: [1, 1],
        logprobs: [-1, -1],
        allowed: { sets, at: [0, 1].slice(-set.length), set },
      });
    turn(["x", "y"], [1, 0]);
    turn(["y"], [0]);
    expect(transcript.record().allowed).toEqual({ sets: ["y", "x"], at: [1, 2, 4], set: [0, 1, 0] });
  });
});
