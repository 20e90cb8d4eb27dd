/**
 * Pieces of evidence: what a question is answered from. A piece belongs to an entity (a document, a thread of mails, a row, what
 * a tool was asked about), and entities whose texts were copied from each other are one: all of one is on the same side of the
 * split.
 */
import { createHash } from "node:crypto";
import { deriveSeed } from "../core/util/random.js";
import { shingles, stems } from "./words.js";

export interface Piece {
  /** Names it in the source: a message id, a path, a table and its row, a call. */
  readonly id: string;
  /** For people. */
  readonly title: string;
  readonly text: string;
  readonly entity: string;
  /** What the one who asks knows before any search, in a sentence; "" where there is nothing. */
  readonly known: string;
  /** Fields of the scenario that the task needs besides question and answer. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Explored pieces, and what was left out by reason. */
export interface Explored {
  readonly pieces: readonly Piece[];
  readonly skipped: Readonly<Record<string, number>>;
}

/** One more of those that have the key: a reason, mostly. */
export function count<K extends string>(of: Partial<Record<K, number>>, key: K): void {
  of[key] = (of[key] ?? 0) + 1;
}

export type SourceKind = "mail" | "documents" | "sql" | "mcp";

export interface Source {
  readonly kind: SourceKind;
  /** File, folder or servers, for provenance. */
  readonly name: string;
  /** What its pieces are called: "mails". */
  readonly unit: string;
  /**
   * Its pieces in an order drawn by the seed.
   * @param most pieces at most
   */
  explore(most: number, seed: number, signal: AbortSignal): Promise<Explored>;
}

/** A piece with its side and its words. */
export interface SplitPiece extends Piece {
  readonly split: "train" | "test";
  readonly words: ReadonlySet<string>;
  /** Its words in stretches that overlap: what is said of one thing stands together. */
  readonly stretches: readonly ReadonlySet<string>[];
  readonly sha256: string;
}

/** Words of a stretch: a paragraph. */
const STRETCH = 80;

function stretchesOf(words: readonly string[], title: readonly string[]): Set<string>[] {
  const starts = Math.max(1, Math.ceil((2 * words.length) / STRETCH) - 1);
  return Array.from({ length: starts }, (_, i) => {
    const start = (i * STRETCH) / 2;
    return new Set([...title, ...words.slice(start, start + STRETCH)]);
  });
}

/** Characters of a piece at most; longer ones are cut by their source. */
export const PIECE_CHARACTERS = 6000;
/** Characters below which nothing can be asked. */
export const FEWEST_CHARACTERS = 40;

/** Texts with a shingle in more pieces than this share it as a form letter does, not by copying one another. */
const FORM_LETTER = 12;
/** Share of the shorter text's shingles that were copied. */
const COPIED = 0.3;

/** Disjoint sets of names, by their representative. */
class Unions {
  readonly #parents = new Map<string, string>();

  find(name: string): string {
    let at = name;
    for (;;) {
      const parent = this.#parents.get(at) ?? at;
      if (parent === at) return at;
      at = parent;
    }
  }

  /** The smaller name represents both. */
  join(a: string, b: string): void {
    const [x, y] = [this.find(a), this.find(b)];
    if (x !== y) this.#parents.set(x < y ? y : x, x < y ? x : y);
  }
}

/** Joins the entities of pieces of which one was copied from the other: forwarded mail, quoted replies, versions of a document. */
function joinCopies(pieces: readonly Pick<Piece, "entity">[], words: readonly (readonly string[])[]): Unions {
  const unions = new Unions();
  const all = words.map((one) => shingles(one));
  const holders = new Map<string, number[]>();
  for (const [i, set] of all.entries()) {
    for (const shingle of set) {
      const list = holders.get(shingle);
      if (list) list.push(i);
      else holders.set(shingle, [i]);
    }
  }
  const own = all.map(() => 0);
  const common = new Map<string, number>();
  for (const list of holders.values()) {
    if (list.length > FORM_LETTER) continue;
    for (const [at, a] of list.entries()) {
      own[a] = (own[a] as number) + 1;
      for (const b of list.slice(at + 1)) common.set(`${a} ${b}`, (common.get(`${a} ${b}`) ?? 0) + 1);
    }
  }
  for (const [pair, count] of common) {
    const [a, b] = pair.split(" ").map(Number) as [number, number];
    const shorter = Math.min(own[a] as number, own[b] as number);
    if (count >= COPIED * shorter)
      unions.join((pieces[a] as Pick<Piece, "entity">).entity, (pieces[b] as Pick<Piece, "entity">).entity);
  }
  return unions;
}

/** Joins the entities of equal texts. */
function joinEqual(unions: Unions, entities: readonly string[], contents: readonly string[]): void {
  const first = new Map<string, string>();
  for (const [i, content] of contents.entries()) {
    const entity = entities[i] as string;
    unions.join(entity, first.get(content) ?? entity);
    first.set(content, entity);
  }
}

/**
 * The entity of each piece, and its side of the split.
 * @param testShare share of the entities that are for tests
 */
export function sidesOf(
  pieces: readonly Pick<Piece, "text" | "entity">[],
  testShare: number,
  seed: number,
): { readonly entity: string; readonly split: "train" | "test" }[] {
  const words = pieces.map(({ text }) => stems(text));
  const unions = joinCopies(pieces, words);
  joinEqual(
    unions,
    pieces.map(({ entity }) => entity),
    words.map((one) => one.join(" ")),
  );
  const entities = pieces.map(({ entity }) => unions.find(entity));
  const roots = [...new Set(entities)];
  const draws = new Map(roots.map((root) => [root, deriveSeed("split", seed, root) / 2 ** 53]));
  const tests = new Set(roots.filter((root) => (draws.get(root) as number) < testShare));
  // At least one entity on each side, where there are two; one alone is trained on.
  const drawn = [...roots].sort((a, b) => (draws.get(a) as number) - (draws.get(b) as number));
  if (roots.length > 1 && tests.size === 0) tests.add(drawn[0] as string);
  if (tests.size === roots.length) tests.delete(drawn.at(-1) as string);
  return entities.map((entity) => ({ entity, split: tests.has(entity) ? "test" : "train" }));
}

/** The pieces in their order with their sides, without those whose text occurred before. */
export function splitPieces(pieces: readonly Piece[], testShare: number, seed: number): SplitPiece[] {
  const sides = sidesOf(pieces, testShare, seed);
  const seen = new Set<string>();
  return pieces.flatMap((piece, i) => {
    const words = stems(piece.text);
    const content = words.join(" ");
    if (seen.has(content)) return [];
    seen.add(content);
    const title = stems(piece.title);
    const sha256 = createHash("sha256").update(piece.text).digest("hex");
    return [
      {
        ...piece,
        ...(sides[i] as (typeof sides)[number]),
        sha256,
        words: new Set([...words, ...title]),
        stretches: stretchesOf(words, title),
      },
    ];
  });
}
