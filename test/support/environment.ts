/** Runs before every test file: removes the variables of this shell that hone would read. */
import "../../src/hone/options.js";
import { afterAll } from "vitest";
import { endFile } from "./after-file.js";

for (const name of Object.keys(process.env)) {
  if (/^(HONE_(?!TEST_)|HF_|OPENAI_)/.test(name)) delete process.env[name];
}
afterAll(endFile);
