/** `yarn hone models`: lists models (known by name, and downloaded), downloads and removes them. */
import { defineCommand } from "../config/command.js";
import { takeDevice, usesCuda } from "../device/device.js";
import { gpuMemory } from "../engine/load.js";
import { gpuChosen } from "../engine/options.js";
import { decodeThreads } from "../engine/threads.js";
import { sizeText } from "../hub/progress.js";
import { listModels, type ModelRow, removeModel, showModel } from "../models/installed.js";
import { linesTo } from "../models/io.js";
import { resolveModel } from "../models/resolve.js";
import { type Fit, fitHere, fitText, smallestCard } from "../plan/by-default.js";
import { gigabytes } from "../plan/fit.js";
import { mainMemory } from "../plan/machine.js";
import { ProgressLine } from "../report/progress-line.js";
import { HoneError } from "../util/errors.js";
import { hone } from "../util/program.js";

const parametersText = (count: number | null) =>
  count === null
    ? ""
    : count < 999.5e6
      ? `${Number((count / 1e6).toPrecision(3))} M`
      : `${Number((count / 1e9).toPrecision(3))} B`;

/** Pads each column to its widest cell. */
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

/** The devices that training uses by default. */
const DEFAULT_MACHINE = { gpu: "auto", device: undefined } as const;

/** The devices that training would use here. If the GPU cannot be used, logs why and reports the CPU alone. */
async function thisMachine(log: (text: string) => void) {
  const threads = decodeThreads(undefined);
  const host = mainMemory();
  try {
    const taken = takeDevice(DEFAULT_MACHINE);
    const { card, nvidia, hidden } = taken;
    if (nvidia.problem !== undefined && !hidden) throw new HoneError(nvidia.problem);
    // The driver reports the card's memory even if CUDA's libraries are not installed yet.
    if (usesCuda(DEFAULT_MACHINE, taken) && card?.memoryBytes !== undefined) {
      const { name, memoryBytes: total } = card;
      return { machine: { host, gpu: { name, total, available: total } }, kind: "cuda" as const, threads };
    }
    const gpu = await gpuMemory(gpuChosen(DEFAULT_MACHINE));
    const found = gpu && { name: gpu.name, total: gpu.total, available: gpu.free };
    return { machine: { host, gpu: found }, kind: gpu?.kind ?? (false as const), threads };
  } catch (error) {
    if (!(error instanceof HoneError)) throw error;
    log(error.message);
    return { machine: { host, gpu: null }, kind: false as const, threads };
  }
}

type Here = Awaited<ReturnType<typeof thisMachine>>;

/** The smallest NVIDIA card that trains the model with default settings, and whether this machine does. */
function plannedFor({ shape }: ModelRow, { machine, kind, threads }: Here) {
  if (!shape) return { smallest_gpu: null, fits: undefined };
  return { smallest_gpu: smallestCard(shape), fits: fitHere(shape, machine, kind, threads) };
}

const cardText = ({ shape }: ModelRow, size: number | null) =>
  shape === null ? "" : size === null ? "none" : `${size} GB`;

/** Short form for a table column. */
const shortText = (fit: Fit | undefined) =>
  fit === undefined ? "" : fit === null ? "no" : "flags" in fit ? "with options" : "yes";

/** One row of `--json`, with keys in snake_case as elsewhere. */
function jsonRow<Row extends ModelRow>(row: Row, here: Here) {
  const { shape: _, ...about } = row;
  const { smallest_gpu, fits } = plannedFor(row, here);
  return { ...about, smallest_gpu, fits: fits === undefined ? null : fitText(fits) };
}

const machineText = ({ machine: { host, gpu }, kind }: Here) =>
  gpu && kind === "cuda"
    ? `${gpu.name} (${gigabytes(gpu.total)}) and ${gigabytes(host.total)} of main memory`
    : gpu && kind
      ? `${gpu.name} (${gigabytes(gpu.total)}), and the CPU with ${gigabytes(host.total)}`
      : `the CPU with ${gigabytes(host.total)}`;

const hereText = ({ here, bytes }: ModelRow) => (here ? sizeText(bytes) : bytes > 0 ? `${sizeText(bytes)} of it` : "");

export const listCommand = defineCommand({
  name: "models",
  async run(config, io) {
    const rows = await listModels(config);
    const here = await thisMachine(io.log);
    io.log(
      table([
        ["name", "downloaded", "parameters", "smallest GPU", "trains here", "licence", "tool calls", "on the Hub"],
        ...rows.map((row) => {
          const { smallest_gpu, fits } = plannedFor(row, here);
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
    const progress = new ProgressLine(io.stream);
    const log = (text: string) => progress.log(text);
    const lines = linesTo(log, io.signal);
    const update = io.stream.isTTY ? (line: () => string) => progress.update(line) : lines.update;
    try {
      const file = await resolveModel(config.model, config, { ...lines, update }, { renew: true });
      progress.clear();
      io.log(file);
      return { name: config.model, file };
    } finally {
      progress.clear();
    }
  },
});

export const showCommand = defineCommand({
  name: "models show",
  required: ["model"],
  positional: "model",
  async run(config, io) {
    const about = await showModel(config.model, config);
    const here = await thisMachine(io.log);
    const { smallest_gpu, fits } = plannedFor(about, here);
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
