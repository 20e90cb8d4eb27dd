/** Where a message of an mbox begins, whoever wrote it. */
import { expect, test } from "vitest";
import type { Found } from "../../../../src/email/import/found.js";
import { beginsMessage, isMbox } from "../../../../src/email/import/mbox.js";
import { recognise } from "../../../../src/email/import/recognise.js";
import { sinkFor } from "../../../../src/email/import/split.js";

const message = (n: number, body = `body ${n}\n`) => `Message-ID: <${n}@x>\nSubject: s${n}\n\n${body}\n`;

/** The messages of a file, which comes in pieces. */
function messagesOf(file: string | Buffer, piece = 65_536): string[] {
  const bytes = Buffer.from(file);
  expect(recognise(bytes)).toBe("mbox");
  const found: Found[] = [];
  const sink = sinkFor("x", found, "mbox");
  for (let at = 0; at < bytes.length; at += piece) sink.push(bytes.subarray(at, at + piece));
  sink.end();
  return found.flatMap((one) => (one.kind === "message" ? `${one.bytes}` : []));
}

const idsOf = (file: string, piece?: number) =>
  messagesOf(file, piece).map((message) => /<(.*)@x>/.exec(message)?.[1] ?? "none");

const threeWith = (...fromLines: string[]) =>
  [0, 1, 2].map((n) => `${fromLines[n % fromLines.length]}\n${message(n)}`).join("");

test.each([
  ["of RFC 4155", ["From a@x.org Thu Jun  1 10:53:30 2023"]],
  ["bare, as Thunderbird's", ["From "]],
  ["bare and dated ones", ["From - Thu Jun  1 10:53:30 2023", "From ", "From "]],
  ["in Chinese", ["From a@example.cn 周四 6月  1 10:53:30 2023"]],
  ["in French", ["From a@x.org jeu. juin  1 10:53:30 2023"]],
  ["in German, without a year", ["From - Do 1. Jun 10:53"]],
  ["with the sender alone", ["From a@x.org"]],
  ["Eudora's", ["From ???@??? Thu Jun 01 10:53:30 2023"]],
])("From lines %s", (_, fromLines) => {
  const file = threeWith(...fromLines);
  expect(idsOf(file)).toEqual(["0", "1", "2"]);
  expect(idsOf(`\ufeff${file}`)).toEqual(["0", "1", "2"]);
  expect(idsOf(`\n\r\n${file}`)).toEqual(["0", "1", "2"]);
  expect(idsOf(file.replaceAll("\n", "\r\n"))).toEqual(["0", "1", "2"]);
  expect(idsOf(file.replaceAll("\n", "\r"))).toEqual(["0", "1", "2"]);
});

test.each([
  "From now on we meet at nine.\n",
  "\nFrom \nhere to there\n",
  "\nFrom Monday on:\nNote: no coffee.\n",
  "\nFrom Monday on:\nDate: open\nwe shall see\n",
  "\nFrom ann@x.org Tue Nov 27 08:22:30 2001\nI quote her here.\n",
  "\nFrom Ann\n\nSubject: is below the line\n",
  "From Ann\nSubject: stands at once under it, in a paragraph\n\n",
  "\nFrom : Ann <ann@x.org>\nTo : Bob\nSubject : what I forward\n\n",
  "From Mon to Fri 10:00 we work.\nBye\n",
])("a line of the text begins no message: %j", (body) => {
  for (const fromLine of ["From ", "From a@x.org Thu Jun  1 10:53:30 2023"]) {
    const file = `${fromLine}\n${message(0, `text\n${body}`)}${fromLine}\n${message(1)}`;
    expect(idsOf(file)).toEqual(["0", "1"]);
    expect(messagesOf(file)[0]).toContain(body);
  }
});

test("a message with a long first header, a folded one, and one forwarded with its From line", () => {
  const long = `From \nReceived: ${"x".repeat(3000)}\nMessage-ID: <0@x>\n\nb\n\n`;
  const folded = "From \nReceived: from a\n\tby b;\n Thu, 1 Jun 2023 10:53:30 +0800\nMessage-ID: <1@x>\n\nb\n\n";
  const forwarded =
    "From b@x.org Thu Jun  1 10:53:30 2023\n>From a@x.org Thu Jun  1 10:53:29 2023\nMessage-ID: <2@x>\n\nb\n\n";
  expect(idsOf(long + folded + forwarded)).toEqual(["0", "1", "2"]);
});

test("the first line of a file may stand alone; a sentence that begins with From makes no mbox", () => {
  expect(isMbox(Buffer.from("From 1721@xxx Mon Apr 18 14:19:09 +0000 2022\n"))).toBe(true);
  expect(isMbox(Buffer.from("From - Mon Apr 18 14:19:09 2022\r\n"))).toBe(true);
  expect(isMbox(Buffer.from("From ann@x.org Fri Jul  8 12:08 2011"))).toBe(true);
  expect(isMbox(Buffer.from("From Monday on we meet at 9:30\n"))).toBe(false);
  expect(isMbox(Buffer.from("From: ann@x.org\n"))).toBe(false);
  expect(beginsMessage(Buffer.from("From "), 0)).toBe(false);
});

test("a file of megabytes is cut at the same places, wherever its parts and pieces end", () => {
  const text = `\nFrom Monday on:\nNote: no coffee.\n\nFrom \n${"here and there ".repeat(40)}\n`;
  const numbers = Array.from({ length: 1000 }, (_, n) => n);
  const file = numbers.map((n) => `From \n${message(n, text.repeat(1 + (n % 7)))}`).join("");
  expect(file.length).toBeGreaterThan(2 << 20);
  for (const piece of [70_001, 1 << 20]) expect(idsOf(file, piece)).toEqual(numbers.map(String));
});
