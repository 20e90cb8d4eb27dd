import { expect, it } from "vitest";
import { UsageError } from "../../src/core/util/errors.js";
import { readTrackers } from "../../src/insight/track/names.js";

it("--track takes the trackers that there are", () => {
  expect(readTrackers(undefined)).toEqual([]);
  expect(readTrackers(["wandb", "tensorboard", "wandb"])).toEqual(["wandb", "tensorboard"]);
  expect(() => readTrackers(["mlflow"])).toThrow(UsageError);
  expect(() => readTrackers(["mlflow"])).toThrow("--track mlflow: give tensorboard or wandb, or both");
});
