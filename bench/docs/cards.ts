/** Which models fit which cards with default settings, for the documentation. Planned; not run on CUDA. */
import type { ModelShape } from "../../src/engine/models.js";
import { catalogue, shapeOf } from "../../src/machine/models/catalogue.js";
import { defaultRun, fitOf, fitText, roomOfCard } from "../../src/machine/plan/by-default.js";

/** Of a card's memory, in GiB. */
const CARDS = [8, 12, 16, 24, 80];

/**
 * Bits a weight of llama.cpp's Q4_K_M, counted for the 7B: a fifth of its weights (the output layer, and in half of the layers
 * the values' and the last matrix) has 6.56 bits, the others 4.5.
 */
const Q4_K_M = 4.9;

/** The same model in 4 bits. */
const in4Bits = (shape: ModelShape): ModelShape => ({
  ...shape,
  weightType: "Q4_K",
  bytes: (shape.parameters * Q4_K_M) / 8,
});

/** Qwen2.5 in f16, by size ("0.5B"). */
export const qwen = (): [string, ModelShape][] =>
  [...catalogue()].flatMap(([name, entry]): [string, ModelShape][] =>
    "family" in entry && entry.family === "qwen2.5"
      ? [[name.replace(/^.*-/, "").toUpperCase(), shapeOf(entry, "f16")]]
      : [],
  );

/** "yes", the changes that hone makes by itself, the flags to give, or "no". */
export function onCard(shape: ModelShape, gibibytes: number): string {
  const fit = fitOf(defaultRun(shape, "cuda", 1), roomOfCard(gibibytes));
  return fit !== null && "flags" in fit ? `\`${fitText(fit)}\`` : fitText(fit);
}

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

/** The table in docs/gpu.md: the catalogue's models, each at the smallest card that trains it. */
export function modelsByCardTable(): string {
  const models = [...catalogue()].flatMap(([name, entry]): [string, ModelShape][] =>
    "path" in entry ? [] : [[name, shapeOf(entry, "f16")]],
  );
  const named = { asTheyAre: new Set<string>(), withOptions: new Set<string>() };
  const lines = CARDS.map((card) => {
    const fits = models.map(([name, shape]) => ({ name, fit: fitOf(defaultRun(shape, "cuda", 1), roomOfCard(card)) }));
    const cell = (column: keyof typeof named) => {
      const given = column === "withOptions";
      const fresh = fits.flatMap(({ name, fit }) =>
        fit !== null && "flags" in fit === given && !named[column].has(name) ? [name] : [],
      );
      for (const name of fresh) named[column].add(name);
      return fresh.map((name) => `\`${name}\``).join(", ") || "–";
    };
    return row([`${card} GB`, cell("asTheyAre"), cell("withOptions")]);
  });
  return `${[row(["card", "train as they are", "train with options"]), row(["---", "---", "---"]), ...lines].join("\n")}\n`;
}

/** The table in docs/memory.md: Qwen2.5 in 4 bits. */
export function cardsTable(): string {
  const models = qwen().map(([name, shape]) => [name, in4Bits(shape)] as const);
  return `${[
    row(["Q4_K_M", ...models.map(([name]) => name)]),
    row(["---", ...models.map(() => "---")]),
    ...CARDS.map((card) => row([`${card} GB`, ...models.map(([, shape]) => onCard(shape, card))])),
  ].join("\n")}\n`;
}
