/** `yarn hone models`: which models hone knows by name, which are on this machine; downloads and removes them. */
import { type Command, defineCommand } from "../config/index.js";
import { sizeText } from "../hub/index.js";
import {
  linesTo,
  listModels,
  type ModelRow,
  modelOptions,
  removeModel,
  resolveModel,
  showModel,
} from "../models/index.js";
import { ProgressLine } from "../report/index.js";

const parametersText = (count: number | null) =>
  count === null
    ? ""
    : count < 1e8
      ? `${Number((count / 1e6).toPrecision(3))} M`
      : `${Number((count / 1e9).toPrecision(3))} B`;

/** Columns as wide as their widest cell. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] as number))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

const hereText = ({ here, bytes }: ModelRow) => (here ? sizeText(bytes) : bytes > 0 ? `${sizeText(bytes)} of it` : "");

const listCommand = defineCommand({
  name: "models",
  summary: "List the models that have a name, and those on this machine with the room they take.",
  example: "yarn hone models",
  options: ["home", ...modelOptions],
  async run(config, io) {
    const rows = listModels(config);
    io.say(
      table([
        ["name", "here", "parameters", "licence", "tool calls", "on the Hub"],
        ...rows.map((row) => [
          row.name,
          hereText(row),
          parametersText(row.parameters),
          `${row.licence ?? ""}${row.gated ? " (gated)" : ""}`,
          row.tool_calls ?? "",
          row.repository ?? "",
        ]),
      ]),
    );
    return rows;
  },
});

const pullCommand = defineCommand({
  name: "models pull",
  summary: "Download a model and make its GGUF file, or bring it to the newest state of its repository.",
  example: "yarn hone models pull Qwen/Qwen2.5-0.5B-Instruct",
  options: ["model", "home", "python", "torchIndex", ...modelOptions],
  required: ["model"],
  positional: "model",
  async run(config, io) {
    const progress = new ProgressLine(io.stream);
    const say = (text: string) => progress.say(text);
    const lines = linesTo(say, io.signal);
    const update = io.stream.isTTY ? (line: () => string) => progress.update(line) : lines.update;
    try {
      const file = await resolveModel(config.model, config, { ...lines, update }, { renew: true });
      progress.clear();
      io.say(file);
      return { name: config.model, file };
    } finally {
      progress.clear();
    }
  },
});

const showCommand = defineCommand({
  name: "models show",
  summary: "Show what is known of a model without asking anybody: where it is from, its licence, its files here.",
  example: "yarn hone models show qwen2.5-0.5b",
  options: ["model", "home", ...modelOptions],
  required: ["model"],
  positional: "model",
  async run(config, io) {
    const about = showModel(config.model, config);
    const lines: [string, string | null][] = [
      ["", about.description],
      ["on the Hub", about.repository],
      ["parameters", parametersText(about.parameters) || null],
      [
        "licence",
        about.licence && `${about.licence}${about.gated ? "; gated: its conditions are accepted on the Hub" : ""}`,
      ],
      ["tool calls", about.tool_calls],
      ["here", hereText(about) || "no"],
      ...about.files.map((file): [string, string] => ["file", file]),
    ];
    io.say([about.name, ...lines.flatMap(([key, value]) => (value ? [`  ${key.padEnd(12)}${value}`] : []))].join("\n"));
    return about;
  },
});

const removeCommand = defineCommand({
  name: "models remove",
  summary: "Remove what was downloaded of a model (for all programs that share the cache), and what was made of it.",
  example: "yarn hone models remove qwen2.5-0.5b",
  options: ["model", "home", ...modelOptions],
  required: ["model"],
  positional: "model",
  async run(config, io) {
    const done = removeModel(config.model, config);
    io.say(`${done.name}: ${sizeText(done.bytes)} freed\n${done.removed.map((path) => `  ${path}`).join("\n")}`);
    return done;
  },
});

export const modelsCommands: readonly Command[] = [listCommand, pullCommand, showCommand, removeCommand];
