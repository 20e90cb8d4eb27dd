/** Two published MCP servers, explored and asked about by a scripted model that plants faults. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Random } from "../../src/core/util/random.js";
import { serversSource } from "../../src/scenarios/sources/servers.js";
import { never } from "../judge/support/judging.js";
import { odd, oddServer, published, temporary } from "../mcp/support/servers.js";
import { generated, judgeAt, measure, type Planted } from "./support/measure.js";
import { type Fact, general, reworded, type Script, startModel, type Written } from "./support/model.js";

const unset = { mcpAllow: undefined, mcpDeny: undefined };

function sourceOf(folder: string, mcpServers: object, url: string, more: object = {}) {
  const mcp = join(folder, "servers.json");
  writeFileSync(mcp, JSON.stringify({ mcpServers }));
  const said: string[] = [];
  const config = { mcp, ...unset, ...more };
  const judge = judgeAt(url);
  const log = (line: string) => said.push(line);
  const source = serversSource({ config, logs: join(folder, "logs"), calls: 200, about: undefined, judge, log });
  return { source, judge, said };
}

const random = new Random("projects");
const words =
  "Amber Basalt Cobalt Dune Ember Flint Garnet Harbor Indigo Juniper Krypton Larch Marble Nimbus Onyx Pyrite Quartz Raven Sable Tundra Umber Velvet Willow Xenon Yarrow Zephyr".split(
    " ",
  );
const projects = words.map((name) => ({
  name,
  code: `${name.slice(0, 2).toUpperCase()}-${random.integer(1000, 9999)}`,
  lead: `${random.pick(["Ann", "Bo", "Cy", "Di"])} ${name.slice(1)}son`,
  city: random.pick(["Oslo", "Lima", "Kyiv", "Perth"]) + name.slice(-2),
}));

/** What is written of each project: three facts in three wordings each, and three faults. */
function scriptOf(textOf: (name: string) => RegExp) {
  const planted = new Map<string, Planted>();
  const facts = new Map<string, Fact>();
  const written = new Map<string, Written[]>();
  for (const [i, { name, code, lead, city }] of projects.entries()) {
    const list: Written[] = [];
    const add = (question: string, answer: string, what: Planted, fact?: Fact) => {
      list.push({ question, answer, quote: code });
      planted.set(question, what);
      if (fact) facts.set(question, fact);
    };
    const asked = [
      [`What is the access code of the project ${name}?`, code],
      [`Which person leads the project ${name}?`, lead],
      [`What city is the office of the project ${name} in?`, city],
    ] as const;
    for (const [question, answer] of asked) {
      const fact = { answer, isIn: (piece: string) => textOf(name).test(piece) };
      add(question, answer, { kind: "good", fact: question }, fact);
      add(reworded(question, random), answer, { kind: "copy", fact: question }, fact);
    }
    const other = projects[(i + 7) % projects.length] as (typeof projects)[number];
    const elsewhere = { answer: other.code, isIn: (piece: string) => textOf(other.name).test(piece) };
    add(
      `What is the code for access to ${other.name}, according to page ${i}?`,
      other.code,
      { kind: "unanswerable", fact: name },
      elsewhere,
    );
    add(
      `Who is it that leads ${name}?`,
      other.lead,
      { kind: "unanswerable", fact: name },
      { answer: lead, isIn: () => true },
    );
    const { question, answer } = general[i % general.length] as (typeof general)[number];
    add(
      `${question} (${name})`,
      answer,
      { kind: "unanswerable", fact: name },
      { answer, isIn: () => true, known: true },
    );
    written.set(name, list);
  }
  const script = (calls: NonNullable<Script["calls"]>): Script => ({
    // A listing of many projects answers nothing in particular.
    write: (piece) => {
      const about = projects.filter(({ name }) => textOf(name).test(piece));
      return about.length === 1 ? (written.get((about[0] as { name: string }).name) ?? []) : [];
    },
    factOf: (question) => facts.get(question),
    calls,
  });
  return { script, planted };
}

const goals = (measured: ReturnType<typeof measure>) => {
  expect(measured.copiesRemoved).toBeGreaterThanOrEqual(0.95);
  expect(measured.unanswerableRemoved).toBeGreaterThanOrEqual(0.8);
  expect(measured.goodLost).toBeLessThanOrEqual(0.05);
  expect(measured.acrossSplits).toBe(0);
};

it("server-filesystem: files are listed and read, nothing is written, and the filters hold", async () => {
  const folder = temporary();
  const files = join(folder, "files");
  mkdirSync(files);
  for (const { name, code, lead, city } of projects) {
    writeFileSync(
      join(files, `${name}.txt`),
      `The project ${name} is led by ${lead}. Its office is in ${city}.\nThe access code is ${code}.\n`,
    );
  }
  const before = readdirSync(files).map((name) => readFileSync(join(files, name), "utf8"));
  const { script, planted } = scriptOf((name) => new RegExp(`The project ${name} is led`));
  const model = await startModel(
    script((made) => {
      if (made.length === 0) return [{ tool: "list_directory", arguments: { path: files } }];
      const listed = [...(made[0]?.result.matchAll(/(\w+\.txt)/g) ?? [])].map(([name]) => name);
      const read = new Set(made.map((call) => (call.arguments as { path: string }).path));
      const next = listed.map((name) => join(files, name)).filter((path) => !read.has(path));
      // It also asks for what it may not.
      return [
        { tool: "write_file", arguments: { path: join(files, "Amber.txt"), content: "gone" } },
        ...next.slice(0, 7).map((path) => ({ tool: "read_text_file", arguments: { path } })),
      ];
    }),
  );
  try {
    const servers = { files: { command: process.execPath, args: [published("filesystem"), files] } };
    const { source, judge, said } = sourceOf(folder, servers, model.url);
    const { kept, summary } = await generated(source, judge, join(folder, "out.jsonl"));
    goals(measure(kept, planted));
    expect(summary).toMatchObject({ skipped: { call_failed: 1 } });
    expect(readdirSync(files).map((name) => readFileSync(join(files, name), "utf8"))).toEqual(before);
    expect(said.join("\n")).toMatch(/not called, since no server says that they only read: .*write_file/);
    expect(kept[0]?.evidence).toEqual([expect.stringMatching(/^read_text_file \{"path":".*\.txt"\}$/)]);
  } finally {
    await model.close();
  }
});

it("server-memory: nodes of a graph are opened by name, and the filters hold", async () => {
  const folder = temporary();
  const graph = join(folder, "memory.jsonl");
  const node = ({ name, code, lead, city }: (typeof projects)[number]) =>
    JSON.stringify({
      type: "entity",
      name,
      entityType: "project",
      observations: [`led by ${lead}`, `office in ${city}`, `access code ${code}`],
    });
  writeFileSync(graph, projects.map(node).join("\n"));
  const { script, planted } = scriptOf((name) => new RegExp(`"name":\\s*"${name}"`));
  const model = await startModel(
    script((made) =>
      projects
        .slice(made.length, made.length + 8)
        .map(({ name }) => ({ tool: "open_nodes", arguments: { names: [name] } })),
    ),
  );
  try {
    const servers = {
      memory: { command: process.execPath, args: [published("memory")], env: { MEMORY_FILE_PATH: graph } },
    };
    const { source, judge } = sourceOf(folder, servers, model.url, { mcpAllow: ["open_nodes"] });
    const { kept } = await generated(source, judge, join(folder, "out.jsonl"));
    goals(measure(kept, planted));
    expect(readFileSync(graph, "utf8")).toBe(projects.map(node).join("\n"));
  } finally {
    await model.close();
  }
});

it("tools that no server marks as read-only are called only where --mcp-allow names them", async () => {
  const folder = temporary();
  const model = await startModel({
    write: () => [],
    factOf: () => undefined,
    calls: (made) =>
      made.length === 0 ? [{ tool: "echo", arguments: { text: "a text that is long enough to ask about" } }] : [],
  });
  try {
    const { command } = odd() as { command: string };
    const servers = { odd: { command, args: [oddServer, "good"] } };
    const refused = sourceOf(folder, servers, model.url);
    await expect(refused.source.explore(10, 1, never)).rejects.toThrow(
      "no MCP server marks a tool as read-only; name those that only read with --mcp-allow",
    );
    const allowed = sourceOf(folder, servers, model.url, { mcpAllow: ["echo"] });
    const { pieces } = await allowed.source.explore(10, 1, never);
    expect(pieces.map(({ id, text }) => [id.slice(0, 4), text.slice(0, 11)])).toEqual([["echo", "echo a text"]]);
  } finally {
    await model.close();
  }
});
