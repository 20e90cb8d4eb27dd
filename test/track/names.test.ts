import { expect, it } from "vitest";
import { readTrackers } from "../../src/track/names.js";
import { UsageError } from "../../src/util/errors.js";

it("--track takes the trackers that there are", () => {
  expect(readTrackers(undefined)).toEqual([]);
  expect(readTrackers(["wandb", "tensorboard", "wandb"])).toEqual(["wandb", "tensorboard"]);
  expect(() => readTrackers(["mlflow"])).toThrow(UsageError);
  expect(() => readTrackers(["mlflow"])).toThrow("--track mlflow: give tensorboard or wandb, or both");
});
