/** Pages of which every number is of bench/results, or declared in the code. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { textOf } from "./blocks.js";
import { rowsOf } from "./figures.js";
import { gpu } from "./sources/card.js";
import { memory } from "./sources/memory.js";
import { measuredElsewhere } from "./sources/others.js";
import { scale } from "./sources/scale.js";
import { smallPages } from "./sources/small-pages.js";
import { proseOf, unsourced } from "./sources/source.js";
import { speed } from "./sources/speed.js";
import { readme, tinyModel } from "./sources/tiny.js";
import { training } from "./sources/training.js";

describe.each(
  [readme, speed, gpu, tinyModel, memory, scale, training, ...smallPages].map(
    (source) => [source.page, source] as const,
  ),
)("%s", (page, source) => {
  it.each(source.tables.map(({ header, rows }) => [header, rows] as const))(
    "has the table %j as measured",
    (header, rows) => {
      expect(rowsOf(page, header)).toEqual(rows);
    },
  );

  it.each(source.declared)("says %j, which %s declares", (_, file, declaration) => {
    expect(readFileSync(join(packageRoot, file), "utf8")).toContain(declaration);
  });

  it("has no other number", () => {
    expect(unsourced(source)).toEqual([]);
  });
});

describe("a page of few figures", () => {
  it.each(measuredElsewhere)("%s says as it was measured: %s", (page, phrase) => {
    expect(proseOf(page, [])).toContain(phrase);
  });
});

describe("README's models by card", () => {
  const [, list = ""] = /By hone's memory plan ([\s\S]*?) \(/.exec(textOf("README.md")) ?? [];
  const named = [...list.matchAll(/(\d+ GB)(?: train)?\s+`([^`]+)`/g)].map(([, card, model]) => [card, model]);
  const planned = rowsOf("docs/gpu.md", "card");

  it("are of all cards that are planned", () => {
    expect(named.map(([card]) => card)).toEqual(planned.map(([card]) => card));
  });

  it.each(named)("%s: %s trains as it is", (card, model) => {
    expect(planned.find(([name]) => name === card)?.[1]).toContain(`\`${model}\``);
  });
});
