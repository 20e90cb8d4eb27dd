import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { nameOf, readReference } from "../../src/machine/models/reference.js";

const folder = mkdtempSync(join(tmpdir(), "hone-reference-"));
const hub = (repository: string, revision = "main", file?: string) => ({ kind: "hub", repository, revision, file });
const before = process.cwd();

beforeAll(() => {
  process.chdir(folder);
  mkdirSync("mine");
  mkdirSync("qwen2.5-0.5b");
  mkdirSync("Org/Here", { recursive: true });
  writeFileSync("mine.gguf", "");
});
afterAll(() => {
  process.chdir(before);
  rmSync(folder, { recursive: true });
});

describe("what --model names", () => {
  it.each([
    ["tiny", { kind: "file", path: join(packageRoot, "models/tiny/tiny.gguf") }],
    ["qwen2.5-0.5b", hub("Qwen/Qwen2.5-0.5B-Instruct")],
    ["Qwen/Qwen2.5-0.5B-Instruct", hub("Qwen/Qwen2.5-0.5B-Instruct")],
    ["Qwen/Qwen2.5-0.5B-Instruct@v1.0", hub("Qwen/Qwen2.5-0.5B-Instruct", "v1.0")],
    ["Qwen/Qwen2.5-0.5B-Instruct@refs/pr/3", hub("Qwen/Qwen2.5-0.5B-Instruct", "refs/pr/3")],
    ["hf:Qwen/Name-GGUF:name-q8_0.gguf", hub("Qwen/Name-GGUF", "main", "name-q8_0.gguf")],
    ["hf:Qwen/Name-GGUF@abc:sub/name.gguf", hub("Qwen/Name-GGUF", "abc", "sub/name.gguf")],
    ["hf:Qwen/Name", hub("Qwen/Name")],
    ["./qwen2.5-0.5b", { kind: "folder", path: join(folder, "qwen2.5-0.5b") }],
    ["mine", { kind: "folder", path: join(folder, "mine") }],
    ["mine.gguf", { kind: "file", path: join(folder, "mine.gguf") }],
    ["Org/Here", { kind: "folder", path: join(folder, "Org/Here") }],
  ])("%s", (reference, expected) => {
    expect(readReference(reference, "f16")).toEqual(expected);
  });

  it("a short name is the maker's own file where that has the wanted weights", () => {
    const file = "qwen2.5-0.5b-instruct-q8_0.gguf";
    expect(readReference("qwen2.5-0.5b", "q8_0")).toEqual(hub("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "main", file));
    expect(readReference("llama3.2-1b", "q8_0")).toEqual(hub("meta-llama/Llama-3.2-1B-Instruct"));
  });

  it.each([
    ["quen2.5-0.5b", /^--model: there is no model quen2\.5-0\.5b; did you mean qwen2\.5-0\.5b\?/],
    ["nothing-like-it-at-all", /^--model: there is no model nothing-like-it-at-all; `yarn hone models` lists/],
    ["other.gguf", /^--model: there is no file .*other\.gguf/],
    ["models/other.gguf", /^--model: there is no file /],
    ["./nowhere", /^--model: there is no file /],
    ["a/b/c", /a model on the Hub is written ORGANISATION\/NAME/],
    ["a/b@../../x", /a model on the Hub is written/],
    ["a/b@", /a model on the Hub is written/],
    ["a/..", /a model on the Hub is written/],
    ["hf:Qwen/Name:readme.md", /give hf:REPOSITORY:FILE\.gguf/],
    ["hf:Qwen/Name:../x.gguf", /give hf:REPOSITORY:FILE\.gguf/],
  ])("%s is refused in one line", (reference, message) => {
    expect(() => readReference(reference, "f16")).toThrow(message);
  });

  it("names for files are those of the repository, the folder or the file", () => {
    const name = (reference: string) => nameOf(readReference(reference, "f16"));
    expect(name("Qwen/Qwen2.5-0.5B-Instruct@main")).toBe("Qwen2.5-0.5B-Instruct");
    expect(name("mine")).toBe("mine");
    expect(name("mine.gguf")).toBe("mine");
  });
});
