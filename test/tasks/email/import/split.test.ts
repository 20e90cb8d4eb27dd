import fc from "fast-check";
import { expect, test } from "vitest";
import { type Found, MAX_MESSAGE_BYTES } from "../../../../src/email/import/found.js";
import { recognise } from "../../../../src/email/import/recognise.js";
import { type Sink, sinkFor } from "../../../../src/email/import/split.js";

const fromLine = "From MAILER-DAEMON Mon Apr 18 14:19:09 2022";

/** The items that a sink makes of a stream, in how many parts, and how many it skipped. */
function itemsOf(bytes: Buffer, sizes: readonly number[], open: (found: Found[]) => Sink) {
  const found: Found[] = [];
  const sink = open(found);
  const parts: Found[][] = [];
  let at = 0;
  for (let i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? bytes.length;
    sink.push(bytes.subarray(at, at + size));
    parts.push(found.splice(0));
    at += size;
  }
  sink.end();
  parts.push(found);
  const all = parts.flat();
  return {
    items: all.flatMap((one) => {
      if (one.kind === "message") return one.bytes.toString("latin1");
      return one.kind === "row" ? JSON.stringify(one.values) : [];
    }),
    skipped: all.filter(({ kind }) => kind === "skipped").length,
    parts: parts.filter(({ length }) => length > 0).length,
  };
}

test("an mbox is cut at its messages, wherever the pieces of the stream end", () => {
  const message = fc.record({
    header: fc.constantFrom("From: a@x.org\n\n", "Subject: x\r\n\r\n", "X-Y: z\n\n"),
    body: fc.array(fc.constantFrom("text\n", ">From me\n", ">>From me\n", "From me to you\n", "\n", "From \n"), {
      maxLength: 8,
    }),
  });
  fc.assert(
    fc.property(
      fc.array(message, { minLength: 1, maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1 }),
      (messages, sizes) => {
        const texts = messages.map(({ header, body }) => header + body.join(""));
        const bytes = Buffer.from(texts.map((text) => `${fromLine}\n${text}`).join(""));
        const { items } = itemsOf(bytes, sizes, (found) => sinkFor("x", found, "mbox"));
        expect(items).toEqual(texts.map((text) => text.replace(/^>(>*From )/gm, "$1")));
      },
    ),
  );
});

test("streams of many megabytes come in many parts that miss nothing", () => {
  const texts = Array.from({ length: 3000 }, (_, i) => `Subject: ${i}\n\n${"x".repeat((i * 7919) % 4000)}\n`);
  const mbox = Buffer.from(texts.map((text) => `${fromLine}\n${text}`).join(""));
  const cut = itemsOf(mbox, [65_536], (found) => sinkFor("x", found, "mbox"));
  expect(cut.items).toEqual(texts);
  expect(cut.parts).toBeGreaterThan(4);

  const rows = texts.map((text) => JSON.stringify({ text }));
  const lines = itemsOf(Buffer.from(rows.join("\n")), [65_536], (found) => sinkFor("x", found, "jsonl"));
  expect(lines.items).toEqual(rows);
  expect(lines.parts).toBeGreaterThan(4);
});

test("a message larger than any mail is counted and left out, its neighbours are not", () => {
  const huge = `Subject: huge\n\n${"x".repeat(MAX_MESSAGE_BYTES + 3_000_000)}\n`;
  const small = ["Subject: 1\n\na\n", "Subject: 2\n\nb\n", "Subject: 3\n\nc\n"];
  const mbox = [small[0], huge, small[1], small[2]].map((text) => `${fromLine}\n${text}`).join("");
  const { items, skipped } = itemsOf(Buffer.from(mbox), [1 << 20], (found) => sinkFor("x", found, "mbox"));
  expect(items).toEqual(small);
  expect(skipped).toBe(1);
  const single = itemsOf(Buffer.from(huge), [1 << 20], (found) => sinkFor("x", found, "message"));
  expect(single).toMatchObject({ items: [], skipped: 1 });
});

test("files of an archive are read by what they hold", () => {
  const read = (text: string, sizes = [10]) =>
    itemsOf(Buffer.from(text, "latin1"), sizes, (found) => sinkFor("x", found));
  expect(read("Subject: x\n\ny").items).toEqual(["Subject: x\n\ny"]);
  expect(read(`${fromLine}\nSubject: x\n\ny\n${fromLine}\nSubject: z\n\n`).items).toHaveLength(2);
  expect(read('{"body": "x"}\n{"body": "y"}\n').items).toHaveLength(2);
  expect(read("PAR1....").skipped).toBe(1);
  // Parsing looks at these: they are counted as not_mail or empty.
  expect(read("\x89PNG\r\n").items).toEqual(["\x89PNG\r\n"]);
  expect(read("").items).toEqual([""]);
});

test.each([
  [Buffer.from([0x1f, 0x8b, 8]), "gzip"],
  [Buffer.from("PAR1"), "parquet"],
  [Buffer.from(`${fromLine}\n`), "mbox"],
  [Buffer.from("Message-ID: <1@x>\n"), "message"],
  [Buffer.from("X-Mozilla-Status: 0001\r\nFrom: a@x.org"), "message"],
  [Buffer.from("From : a@x.org\nTo : b@x.org\n\n"), "message"],
  [Buffer.from("Return-Path: <>\n"), "message"],
  [Buffer.from('\ufeff{"message_id": "<1@x>"'), "jsonl"],
  [Buffer.from('{ "body": 1}'), "jsonl"],
  [Buffer.from("[1, 2]"), "unknown"],
  [Buffer.from("# Read me\n\nFrom: here"), "unknown"],
  [Buffer.from("http://example.org"), "unknown"],
  [Buffer.alloc(600), "unknown"],
  [Buffer.from(""), "unknown"],
])("%s is known by its first bytes", (head, kind) => {
  expect(recognise(head)).toBe(kind);
});
