/** A model whose template has no tools: requests with tools are not answered as if it knew them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { chatOf } from "../../src/chat/chat.js";
import type { ChatMessage } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ServedModel } from "../../src/serve/model.js";
import { withTemplate } from "../support/with-template.js";
import { serveTiny, tool } from "./support.js";

const withoutTools = readFileSync(join(packageRoot, "test/rollout/support/without-tools.jinja"), "utf8");
/** Writes calls, and lists no tools. */
const withCalls = withoutTools.replace(
  "{{ message.content }}",
  `{{ message.content }}{% for call in message.tool_calls or [] -%}
<tool_call>
{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}
</tool_call>
{%- endfor %}`,
);
const tools = [tool("search_inbox"), tool("read_email")];

let model: ServedModel;
let told: ServedModel;
beforeAll(async () => {
  const { engine } = await serveTiny();
  const bare = withTemplate(engine, withCalls);
  model = new ServedModel(["small"], bare, chatOf(bare));
  const named = withTemplate(engine, withoutTools);
  told = new ServedModel(["small"], named, chatOf(named, { toolFormat: "hermes" }));
});

const conversed = async (...messages: ChatMessage[]) => await model.converse(messages, tools);

it("tools that nothing says to the model are refused, with what to do", async () => {
  const user: ChatMessage = { role: "user", content: "Find my mail with search_inbox." };
  await expect(async () => await conversed(user)).rejects.toThrow(
    "the chat template of small shows no tools, and the system message does not name 'read_email': describe the tools and their calls there, or serve a model whose template has tools",
  );
});

it("tools of a model that writes no calls are refused, with what to do", async () => {
  const bare = withTemplate(model.engine, withoutTools);
  const silent = new ServedModel(["small"], bare, chatOf(bare));
  await expect(silent.converse([{ role: "user", content: "Find my mail." }], tools)).rejects.toThrow(
    /no format that hone reads: name one with --tool-format \(hermes, /,
  );
});

it("a tool's name in a question, or in another word, does not say what it is", async () => {
  const system: ChatMessage = { role: "system", content: "search_inboxes, read_email" };
  const user: ChatMessage = { role: "user", content: "search_inbox" };
  await expect(async () => await conversed(system, user)).rejects.toThrow("does not name 'search_inbox'");
});

it("tools that the system message describes are taken", async () => {
  const system: ChatMessage = { role: "system", content: "Write <tool_call>: search_inbox(keywords), read_email(id)." };
  const { length } = await conversed(system, { role: "user", content: "Find my mail." });
  expect(length).toBeGreaterThan(20);
});

it("tools are listed in the system message where --tool-format names how they are called", async () => {
  const user: ChatMessage = { role: "user", content: "Find my mail." };
  const { append } = await told.converse([user], tools);
  const text = told.engine.detokenize(append, { special: true });
  expect(text).toMatch(/# Tools\n.*"search_inbox".*"read_email".*Find my mail/s);
});
