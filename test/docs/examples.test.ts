/** The gallery has every example, and every example has a test. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { textOf } from "./blocks.js";

const examples = readdirSync(join(packageRoot, "examples"));
const tests = readdirSync(join(packageRoot, "test/examples")).map((name) =>
  readFileSync(join(packageRoot, "test/examples", name), "utf8"),
);

it.each(examples)("%s is in docs/examples.md, and is run by a test", (name) => {
  expect(textOf("docs/examples.md")).toContain(`(../examples/${name}`);
  expect(tests.some((text) => text.includes(`examples/${name}`))).toBe(true);
});
