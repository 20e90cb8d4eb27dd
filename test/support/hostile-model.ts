/** Calls that a confused or malicious model might make: seeded, so that a failure can be repeated. */
import type { ToolCall } from "../../src/core/task/task.js";
import type { Random } from "../../src/core/util/random.js";

/** Values from the database, so that calls come close to its content. */
export interface Knowledge {
  readonly words: readonly string[];
  readonly addresses: readonly string[];
  /** Of any mail: foreign, later, undated. */
  readonly messageIds: readonly string[];
}

const syntax = [
  '"',
  '""',
  "'",
  "''",
  "`",
  "(",
  ")",
  "((",
  "*",
  "^",
  "+",
  "-",
  ":",
  "{",
  "}",
  "[",
  "]",
  "\\",
  "/",
  "%",
  "_",
  "?",
  ";",
  ",",
  "|",
  "--",
  "/*",
  "AND",
  "OR",
  "NOT",
  "NEAR",
  "NEAR(",
  "NEAR(a b, 5)",
  "body:",
  "people:",
  "{people}:",
  "people : t1",
  "f1",
  "t1",
  "emails_fts",
  "rank",
  "rowid",
  "' OR 1=1 --",
  '" OR "',
  '") OR people:("t1',
  "'; DROP TABLE emails; --",
  "SELECT * FROM emails",
  "\0",
  "a\0b",
  "\0\0",
  "\n",
  "\t",
  "\r\n",
  "\u001b[31m",
  "\u200b",
  "\ufeff",
  "\ud800",
  "\udfff",
  "👍",
  "👩‍👩‍👧‍👦",
  "e\u0301",
  "ß",
  "İ",
  "日本語",
  "ا",
  "\u202e",
  "<b>",
  "</b>",
  " ... ",
  "null",
  "undefined",
  "NaN",
  "{}",
  "%00",
  "",
  " ",
  "$1",
  "?1",
  ":id",
  "@x",
] as const;

const wrongTypes: readonly unknown[] = [
  null,
  undefined,
  true,
  0,
  -1,
  1.5,
  1e308,
  {},
  [],
  [[]],
  [null],
  { $gt: "" },
  "",
  "x",
  [1, 2],
  { length: 1 },
  [{}],
];

const days = [
  "2001-05-05",
  "1999-01-01",
  "9999-12-31",
  "0000-00-00",
  "2001-02-30",
  "2001-13-01",
  "2001-5-5",
  "yesterday",
  "2001-05-05T10:00:00",
  "' OR date > '",
  "-2001-01-01",
  "+010000-01-01",
  "２００１-01-01",
];

const MEGABYTE = 1 << 20;

export class HostileModel {
  constructor(
    readonly known: Knowledge,
    readonly random: Random,
  ) {}

  call(): ToolCall {
    const { random } = this;
    const name = random.weighted([
      ["search_inbox", 7],
      ["read_email", 4],
      ["return_final_answer", 1],
    ] as const);
    const args = this.#maybeBroken(
      { search_inbox: this.#search, read_email: this.#read, return_final_answer: this.#answer }[name].call(this),
    );
    return { name, arguments: args };
  }

  #search(): Record<string, unknown> {
    const { random } = this;
    const count = random.weighted([
      [0, 1],
      [1, 14],
      [2, 5],
      [3, 2],
      [8, 1],
      [40, 1],
    ]);
    return {
      keywords: Array.from({ length: count }, () => this.#text()),
      ...(random.chance(0.1) ? { from_addr: this.#address() } : {}),
      ...(random.chance(0.1) ? { to_addr: this.#address() } : {}),
      ...(random.chance(0.1) ? { sent_after: random.pick(days) } : {}),
      ...(random.chance(0.15) ? { sent_before: random.pick(days) } : {}),
      ...(random.chance(0.15) ? { max_results: random.pick([1, 5, 10, 11, 0, -1, 2.5, 1e9, Number.MAX_VALUE]) } : {}),
    };
  }

  #read(): Record<string, unknown> {
    return { message_id: this.#messageId() };
  }

  #answer(): Record<string, unknown> {
    return { answer: this.#text(), reference_message_ids: [this.#messageId(), this.#messageId()] };
  }

  /** Mostly words of the mail, so that searches find something to leak. */
  #text(): string {
    const { random } = this;
    if (random.chance(0.002)) return random.pick(["x", "the ", '"', "\0", "👍", "a b "]).repeat(MEGABYTE);
    const part = () => (random.chance(0.8) ? random.pick(this.known.words) : random.pick(syntax));
    const separator = random.pick(["", " ", " ", '"', '" "', "\0"]);
    return Array.from(
      {
        length: random.weighted([
          [1, 10],
          [2, 3],
          [5, 1],
        ]),
      },
      part,
    ).join(separator);
  }

  #address(): string {
    return this.random.chance(0.7) ? this.random.pick(this.known.addresses) : this.#text();
  }

  #messageId(): string {
    const { random } = this;
    const id = random.pick(this.known.messageIds);
    return random.weighted<() => string>([
      [() => id, 6],
      [() => id.replace(/[<>]/g, ""), 1],
      [() => id.toUpperCase(), 1],
      [() => `${id}${random.pick(syntax)}`, 1],
      [() => this.#text(), 2],
    ])();
  }

  #maybeBroken(args: Record<string, unknown>): Record<string, unknown> {
    const { random } = this;
    if (!random.chance(0.15)) return args;
    const key = random.pick([
      ...Object.keys(args),
      "message_ids",
      "toolbench_rapid_search",
      "__proto__",
      "rank",
      "inbox",
    ]);
    return { ...args, [key]: random.pick(wrongTypes) };
  }
}
