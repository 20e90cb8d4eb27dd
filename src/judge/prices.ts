/** The cost of a judge's tokens: a price table that the user can replace, and the sum. */
import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import { messageOf, UsageError } from "../core/util/errors.js";

/** Dollars per million tokens. */
const priceSchema = z.strictObject({ prompt: z.number().nonnegative(), completion: z.number().nonnegative() });
const tableSchema = z.record(z.string(), priceSchema);

export type Price = z.output<typeof priceSchema>;
export type PriceTable = Readonly<Record<string, Price>>;

/**
 * OpenAI's list prices of November 2026 (developers.openai.com/api/docs/pricing), without discounts for cached prompts and without
 * the surcharge above 272,000 prompt tokens; those of older models as they were announced. `--prices` replaces them.
 */
const listPrices: PriceTable = {
  "gpt-6.1-sol": { prompt: 2, completion: 10 },
  "gpt-6.1-terra": { prompt: 1, completion: 5 },
  "gpt-6-luna": { prompt: 0.1, completion: 0.5 },
  "gpt-5.6-terra": { prompt: 2, completion: 12 },
  "gpt-5": { prompt: 1.25, completion: 10 },
  "gpt-5-mini": { prompt: 0.25, completion: 2 },
  "gpt-5-nano": { prompt: 0.05, completion: 0.4 },
  o3: { prompt: 2, completion: 8 },
  "gpt-4.1": { prompt: 2, completion: 8 },
  "gpt-4.1-mini": { prompt: 0.4, completion: 1.6 },
  "gpt-4o": { prompt: 2.5, completion: 10 },
  "gpt-4o-mini": { prompt: 0.15, completion: 0.6 },
};

/**
 * @param flag the option that named the file
 * @throws UsageError when the file is no price table
 */
export function readPrices(file: string): PriceTable {
  if (!existsSync(file)) throw new UsageError(`--prices: there is no file ${file}`);
  try {
    return tableSchema.parse(JSON.parse(readFileSync(file, "utf8").trim()));
  } catch (error) {
    const [first] = error instanceof z.ZodError ? error.issues : [];
    const why = first ? `${first.path.join(".") || "the table"}: ${first.message}` : messageOf(error);
    throw new UsageError(
      `--prices ${file}: ${why}; expected dollars per million tokens, {"MODEL": {"prompt": 1.1, "completion": 4.4}}`,
    );
  }
}

/** Price of a model: the user's, else the listed one. A name with a vendor or a date counts as the model itself. */
export function priceOf(model: string, own: PriceTable = {}): Price | null {
  const bare = model.replace(/^.*\//, "").replace(/-\d{4}-\d{2}-\d{2}$/, "");
  return own[model] ?? own[bare] ?? listPrices[model] ?? listPrices[bare] ?? null;
}

/** Dollars. */
export function costOf(price: Price, promptTokens: number, completionTokens: number): number {
  return (price.prompt * promptTokens + price.completion * completionTokens) / 1e6;
}
