/** `yarn hone models`: lists models (known by name, and downloaded), downloads and removes them. */

import { hone } from "../../core/util/program.js";
import { tableText } from "../../core/util/text.js";
import { listModels, type ModelRow, removeModel, showModel } from "../../machine/models/installed.js";
import { resolveModel } from "../../machine/models/resolve.js";
import { type Fit, fitText } from "../../machine/plan/by-default.js";
import { type Here, machineText, plannedFor, thisMachine } from "../../machine/plan/here.js";
import { sizeText } from "../../machine/plan/machine.js";
import { defineCommand } from "../command.js";

const parametersText = (count: number | null) =>
  count === null
    ? ""
    : count < 999.5e6
      ? `${Number((count / 1e6).toPrecision(3))} M`
      : `${Number((count / 1e9).toPrecision(3))} B`;

const cardText = ({ shape }: ModelRow, size: number | null) =>
  shape === null ? "" : size === null ? "none" : `${size} GB`;

/** Short form for a table column. */
const shortText = (fit: Fit | undefined) =>
  fit === undefined ? "" : fit === null ? "no" : "flags" in fit ? "with options" : "yes";

/** One row of `--json`, with keys in snake_case as elsewhere. */
function jsonRow<Row extends ModelRow>(row: Row, here: Here) {
  const { shape: _, ...about } = row;
  const { smallest_gpu, fits } = plannedFor(row.shape, here);
  return { ...about, smallest_gpu, fits: fits === undefined ? null : fitText(fits) };
}

const hereText = ({ here, bytes }: ModelRow) => (here ? sizeText(bytes) : bytes > 0 ? `${sizeText(bytes)} of it` : "");

export const listCommand = defineCommand({
  name: "models",
  async run(config, io) {
    const rows = await listModels(config);
    const here = await thisMachine(io.log);
    io.log(
      tableText([
        ["name", "downloaded", "parameters", "smallest GPU", "trains here", "licence", "tool calls", "on the Hub"],
        ...rows.map((row) => {
          const { smallest_gpu, fits } = plannedFor(row.shape, here);
          return [
            row.name,
            hereText(row),
            parametersText(row.parameters),
            cardText(row, smallest_gpu),
            shortText(fits),
            `${row.licence ?? ""}${row.gated ? " (gated)" : ""}`,
            row.tool_calls ?? "",
            row.repository ?? "",
          ];
        }),
      ]),
    );
    io.log(
      `planned for default settings, not tried; here is ${machineText(here)}; \`${hone("models")} show NAME\` lists the options`,
    );
    return rows.map((row) => jsonRow(row, here));
  },
});

export const pullCommand = defineCommand({
  name: "models pull",
  required: ["model"],
  positional: "model",
  async run(config, io) {
    const update = io.stream.isTTY ? (line: () => string) => io.progress.update(line) : undefined;
    const file = await resolveModel(config.model, config, { ...io, update }, { renew: true });
    io.log(file);
    return { name: config.model, file };
  },
});

export const showCommand = defineCommand({
  name: "models show",
  required: ["model"],
  positional: "model",
  async run(config, io) {
    const about = await showModel(config.model, config);
    const here = await thisMachine(io.log);
    const { smallest_gpu, fits } = plannedFor(about.shape, here);
    const lines: [string, string | null][] = [
      ["", about.description],
      ["on the Hub", about.repository],
      ["parameters", parametersText(about.parameters) || null],
      [
        "licence",
        about.licence && `${about.licence}${about.gated ? "; gated: its conditions are accepted on the Hub" : ""}`,
      ],
      ["tool calls", about.tool_calls],
      ["smallest GPU", cardText(about, smallest_gpu) || null],
      ["trains here", fits === undefined ? null : `${fitText(fits)} (planned, on ${machineText(here)})`],
      ["tested", about.tested],
      ["downloaded", hereText(about) || "no"],
      ...about.files.map((file): [string, string] => ["file", file]),
    ];
    io.log([about.name, ...lines.flatMap(([key, value]) => (value ? [`  ${key.padEnd(14)}${value}`] : []))].join("\n"));
    return jsonRow(about, here);
  },
});

export const removeCommand = defineCommand({
  name: "models remove",
  required: ["model"],
  positional: "model",
  async run(config, io) {
    const done = removeModel(config.model, config);
    io.log(`${done.name}: ${sizeText(done.bytes)} freed\n${done.removed.map((path) => `  ${path}`).join("\n")}`);
    return done;
  },
});
