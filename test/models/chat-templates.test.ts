import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { aboutFiles, chatTemplateIn, filesOf } from "../../src/machine/models/source.js";

const home = mkdtempSync(join(tmpdir(), "hone-templates-"));
afterAll(() => rmSync(home, { recursive: true }));

const named = (...templates: [name: string, template: string][]) =>
  templates.map(([name, template]) => ({ name, template }));
const config = (chat_template?: unknown) => ({ "tokenizer_config.json": JSON.stringify({ chat_template }) });
const TOOL_USE = "additional_chat_templates/tool_use.jinja";

let folders = 0;
function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = join(home, String(folders++));
  mkdirSync(folder);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

describe("chat templates of a model's folder", () => {
  it.each<[about: string, files: Readonly<Record<string, string>>, found: unknown]>([
    ["one in the configuration", config("a"), "a"],
    [
      "a list in the configuration",
      config(named(["default", "a"], ["tool_use", "t"])),
      named(["default", "a"], ["tool_use", "t"]),
    ],
    ["a list of one", config(named(["default", "a"])), "a"],
    ["names in the configuration", config({ default: "a", rag: "r" }), named(["default", "a"], ["rag", "r"])],
    ["a file of its own", { ...config(), "chat_template.jinja": "f" }, "f"],
    [
      "a file, which comes before the configuration's",
      { ...config(named(["default", "a"], ["tool_use", "t"])), "chat_template.jinja": "f" },
      "f",
    ],
    [
      "files by name",
      { ...config(), "chat_template.jinja": "f", [TOOL_USE]: "t" },
      named(["default", "f"], ["tool_use", "t"]),
    ],
    [
      "a file by name beside the configuration's",
      { ...config("a"), [TOOL_USE]: "t" },
      named(["default", "a"], ["tool_use", "t"]),
    ],
    ["a processor's file", { "chat_template.json": JSON.stringify({ chat_template: "p" }) }, "p"],
    ["none", config(), undefined],
    ["an empty one", config(""), undefined],
    ["what is none", config([{ name: "default" }, 1, null]), undefined],
  ])("%s", (_, files, found) => {
    expect(chatTemplateIn(folderWith(files), "m")).toEqual(found);
  });

  it("are among the files that describe a model", () => {
    const folder = folderWith({ ...config("a"), [TOOL_USE]: "t", "additional_chat_templates/more/x.jinja": "x" });
    expect(aboutFiles(filesOf(folder))).toEqual(["tokenizer_config.json", TOOL_USE]);
  });
});
