/** The gallery has every example, and every example has a test. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { textOf } from "./blocks.js";

const examples = readdirSync(join(packageRoot, "examples")).filter((name) => name !== "README.md");
const tests = readdirSync(join(packageRoot, "test/examples")).map((name) =>
  readFileSync(join(packageRoot, "test/examples", name), "utf8"),
);

it.each(examples)("%s is in examples/README.md, and is run by a test", (name) => {
  expect(textOf("examples/README.md")).toContain(`(${name}`);
  expect(tests.some((text) => text.includes(`examples/${name}`))).toBe(true);
});
