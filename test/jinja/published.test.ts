/** Templates of published models: what transformers writes, hone writes, or it says what it cannot. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { llamaCppFiles } from "../support/bundle.js";
import { ensureLearnerPython } from "../support/python.js";
import { type Case, ours, transformers } from "./support.js";

const folder = join(llamaCppFiles(), "models/templates");
const files = [
  ...readdirSync(folder)
    .filter((name) => name.endsWith(".jinja"))
    .map((name) => join(folder, name)),
  join(packageRoot, "models/tiny/chat_template.jinja"),
  join(packageRoot, "test/rollout/support/without-tools.jinja"),
];

const described = (name: string, parameters: object) => ({
  type: "function",
  function: { name, description: `It can "${name}" <b>&'é.`, parameters: { type: "object", ...parameters } },
});
/** Constants that Python writes otherwise than JavaScript, and names of methods of Python's dict. */
const tools = [
  described("search", {
    properties: {
      query: { type: "string", description: "Words.", enum: ["a", 1, 2.5, true, null] },
      limit: { type: "integer", default: 10, minimum: 1, maximum: 1.5 },
      exact: { type: "boolean", default: false },
      when: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
      nested: { type: "object", properties: { x: { type: ["integer", "null"] } }, additionalProperties: false },
      items: { type: "array", items: { type: "number" } },
      keys: { type: "string" },
    },
    required: ["query", "items"],
  }),
  described("nothing", { properties: {} }),
];
const call = (name: string, args: object, id = "abcDEF123") => ({
  type: "function",
  id,
  function: { name, arguments: args },
});
const result = (name: string, content: string, id = "abcDEF123") => ({
  role: "tool",
  name,
  content,
  tool_call_id: id,
});
const user = (content: string) => ({ role: "user", content });
const args = {
  query: `it's "q" <x>`,
  limit: 5,
  score: 0.25,
  small: 1e-7,
  exact: false,
  when: null,
  tags: ["a", 1, null, true, { k: false }],
  nested: { x: null, y: true },
  none: {},
  text: "line\n  line  \n",
};
const conversations = [
  [user("hi")],
  [{ role: "system", content: "  You help.\n\n" }, user("  what? \n\n x\t"), assistant("\n  well  \n"), user(" then ")],
  [user("Grüße 🙂 \u2028 \u00a0x\u0085 ß"), assistant("🙂🙂"), user("\ufeffx\u00a0")],
  [
    user("q"),
    assistant("<think>\n hmm \n</think>\n\n  answer "),
    user("q2"),
    assistant("a", "  so\nit is "),
    user("q3"),
  ],
  [
    user("find"),
    called("", call("search", args)),
    result("search", '{"found": [1, true]}'),
    assistant("Done."),
    user("?"),
  ],
  [user("find"), called(null, call("search", { exact: true })), result("search", "  []  ")],
  [
    user("find"),
    { ...called("let me ", call("search", args), call("nothing", {}, "xyzXYZ789")), reasoning_content: "why" },
    result("search", "one"),
    result("nothing", "two\n", "xyzXYZ789"),
    assistant("ok"),
    user("q"),
  ],
  [user("a"), user("b"), assistant("c"), assistant("d"), user("e")],
];

function assistant(content: string | null, reasoning_content?: string) {
  return { role: "assistant", content, ...(reasoning_content === undefined ? {} : { reasoning_content }) };
}
function called(content: string | null, ...tool_calls: object[]) {
  return { ...assistant(content), tool_calls };
}

const cases: (Case & { readonly file: string })[] = files.flatMap((file) => {
  const source = readFileSync(file, "utf8");
  return conversations.flatMap((messages) =>
    [null, tools].flatMap((tools) =>
      [{}, { enable_thinking: false }].map((more) => ({
        file,
        source,
        variables: {
          messages,
          tools,
          documents: null,
          add_generation_prompt: messages.at(-1)?.role !== "assistant",
          bos_token: "<s>",
          eos_token: "</s>",
          date_string: "26 Jul 2024",
          ...more,
        },
      })),
    ),
  );
});

let theirs: (string | null)[];
beforeAll(async () => {
  theirs = transformers(await ensureLearnerPython(), cases);
});

it.each(files.map((file) => [file.split("/").at(-1) as string, file]))("%s", (name, file) => {
  for (const [index, one] of cases.entries()) {
    if (one.file !== file) continue;
    const [expected, found] = [theirs[index], ours(one)];
    if (name === "tencent-Hy3.jinja") {
      expect(found).toEqual({
        refused: "it uses the method format of a text, which hone does not render",
        unsupported: true,
      });
    } else if (expected === null) expect(found).toMatchObject({ unsupported: false });
    else expect(found).toEqual({ text: expected });
  }
});
