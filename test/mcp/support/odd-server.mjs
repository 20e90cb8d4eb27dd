// An MCP server in plain JavaScript that misbehaves as it is told: `node odd-server.mjs MODE`.
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [mode = "good", file = ""] = process.argv.slice(2);
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const text = (words) => ({ content: [{ type: "text", text: words }] });
const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required });

let calls = 0;
const tools = {
  echo: [
    object({ text: { type: "string", minLength: 1 } }),
    ({ text: words }) => text(`echo ${words} from ${process.pid}`),
  ],
  count: [object({}), () => text(`call ${++calls}`)],
  big: [object({ bytes: { type: "integer" } }), ({ bytes }) => text("é".repeat(bytes / 2))],
  picture: [
    object({}),
    () => ({
      content: [
        { type: "text", text: "a picture:" },
        { type: "image", mimeType: "image/png", data: "AAAA".repeat(100) },
      ],
    }),
  ],
  refuse: [object({}), () => ({ ...text("there is no such thing"), isError: true })],
  die: [
    object({}),
    () => {
      console.error("out of paper");
      process.exit(7);
    },
  ],
  hang: [object({}), () => undefined],
  flood: [
    object({}),
    () => {
      const part = "x".repeat(1 << 20);
      const more = () => {
        while (process.stdout.write(part));
        process.stdout.once("drain", more);
      };
      more();
    },
  ],
  env: [object({ name: { type: "string" } }), ({ name }) => text(`${process.env[name]}`)],
  where: [object({}), () => text(process.cwd())],
  heard: [object({ order: { type: "integer" } }), (_, line) => text(line)],
  nonsense: [object({}), () => ({ content: "not a list" })],
};
const faulty = [
  { name: "echo", description: "Does echo.", inputSchema: tools.echo[0] },
  { name: "bare", inputSchema: object({ x: { type: "string", description: "x" }, y: true }, []) },
  { name: "list", description: "Lists.", inputSchema: { type: "object", allOf: [{ $ref: "#/nowhere" }] } },
  { name: "array", description: "Is no object's.", inputSchema: { type: "array", items: {} } },
  { name: "none", description: 5, inputSchema: null },
  { description: "Has no name.", inputSchema: { type: "object" } },
  null,
  { name: "echo", description: "Another.", inputSchema: { type: "object" } },
];
const all = () =>
  Object.entries(tools).map(([name, [inputSchema]]) => ({
    name,
    // Differs from one life to the next, when told so.
    description: mode === "changing" && existsSync(file) ? `Now something else: ${name}.` : `Does ${name}.`,
    inputSchema,
  }));

const listed = () => (mode === "faulty" ? faulty : mode === "empty" ? [] : all());

if (mode === "crash") {
  console.error("no licence file");
  process.exit(3);
}
if (mode === "silent") setInterval(() => undefined, 1000);
if (mode === "deaf") process.on("SIGTERM", () => undefined);
if (mode === "family") {
  spawn("sleep", [file], { stdio: "inherit" });
  spawn("sleep", [file], { stdio: "ignore", detached: true }).unref();
}
if (mode === "greeting") process.stdout.write('Welcome to the odd server!\n{"not": "a message"}\n');

createInterface({ input: process.stdin })
  .on("line", (line) => {
    if (mode === "silent") return;
    if (mode === "chatter") return void setInterval(() => console.log("almost there"), 20);
    if (mode === "babble") return void process.stdout.write("I do not speak JSON\n");
    const { id, method, params } = JSON.parse(line);
    if (method === "initialize") {
      const { protocolVersion } = params;
      send({
        id,
        result: {
          protocolVersion,
          capabilities: { tools: { listChanged: true } },
          serverInfo: { name: "odd", version: "1.2" },
        },
      });
    } else if (method === "tools/list") {
      send({ id, result: { tools: listed() } });
      if (mode === "changing" && file) writeFileSync(file, "");
    } else if (method === "tools/call") {
      const result = tools[params.name]?.[1](params.arguments ?? {}, line);
      if (mode === "greeting") console.log("At work.");
      if (!tools[params.name]) send({ id, error: { code: -32602, message: `Unknown tool: ${params.name}` } });
      else if (result) send({ id, result });
    } else if (method === "ping" && mode !== "deaf") send({ id, result: {} });
  })
  .on("close", () => {
    if (mode !== "deaf" && mode !== "silent" && mode !== "family") process.exit(0);
    // These heed no end of their input.
    setInterval(() => undefined, 1000);
  });
