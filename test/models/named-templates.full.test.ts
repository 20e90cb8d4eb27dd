/** Templates by name, from a model's folder through llama.cpp's converter to prompts, and back to a folder, as transformers has them. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { chatOf } from "../../src/chat/chat.js";
import { type ChatMessage, toolSchema } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelFolder } from "../../src/machine/models/folder.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import { huggingFace } from "../rollout/support/templates.js";
import { countingTask } from "../support/counting-task.js";
import { ensureLearnerPython } from "../support/python.js";

const home = mkdtempSync(join(tmpdir(), "hone-named-templates-"));
const plain = readFileSync(join(packageRoot, "test/rollout/support/without-tools.jinja"), "utf8");
const tools = countingTask.tools.map((tool) => toolSchema(tool));
const messages: ChatMessage[] = [{ role: "user", content: "How many?" }];
const io = { log: () => undefined, update: () => undefined };
let python: string;

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["published"], () => undefined);
}, 900_000);
afterAll(() => rmSync(home, { recursive: true }));

/** A published model's folder, its template for conversations with tools, and another for those without. */
function folderWith(
  name: string,
  write: (folder: string, tooled: string, config: (template?: unknown) => void) => void,
) {
  const folder = join(home, name);
  cpSync(modelPath("qwen2.5-small"), folder, { recursive: true });
  const file = join(folder, "tokenizer_config.json");
  const { chat_template: own, ...rest } = JSON.parse(readFileSync(file, "utf8"));
  const config = (chat_template?: unknown) => writeFileSync(file, JSON.stringify({ ...rest, chat_template }));
  config();
  const jinja = join(folder, "chat_template.jinja");
  const tooled = own ?? readFileSync(jinja, "utf8");
  rmSync(jinja, { force: true });
  write(folder, tooled, config);
  return folder;
}

it.each<[about: string, Parameters<typeof folderWith>[1]]>([
  [
    "files",
    (folder, tooled, config) => {
      // The file comes before it.
      config("{{ messages }}");
      writeFileSync(join(folder, "chat_template.jinja"), plain);
      mkdirSync(join(folder, "additional_chat_templates"));
      writeFileSync(join(folder, "additional_chat_templates/tool_use.jinja"), tooled);
    },
  ],
  [
    "configuration",
    (_, tooled, config) =>
      config([
        { name: "default", template: plain },
        { name: "tool_use", template: tooled },
      ]),
  ],
])("of a model's %s are taken as transformers does", async (name, write) => {
  const folder = folderWith(name, write);
  const config = { home, python, torchIndex: undefined, weights: undefined, hfEndpoint: undefined, hfHome: undefined };
  const file = await resolveModel(folder, config as unknown as Parameters<typeof resolveModel>[1], io);
  const back = await modelFolder(file, { home, python }, io);
  const about = { template: null, messages, generation: true };
  const theirs = huggingFace(
    python,
    [folder, back].flatMap((vocabulary) => [tools, []].map((tools) => ({ ...about, vocabulary, tools }))),
  );
  const engine = await loadEngine({ model: file, gpu: false, threads: 1, sequences: 1, contextPerSequence: 512 });
  try {
    const { template, format } = chatOf(engine);
    const ours = [tools, []].map((tools) => template.promptText(messages, tools));
    expect(ours[0]).toContain("<tools>");
    expect([...ours, ...ours]).toEqual(theirs.map(({ text }) => text));
    expect(template.prompt(messages, tools)).toEqual(theirs[0]?.ids);
    expect(format?.name).toBe("hermes");
  } finally {
    await engine.close();
  }
});
