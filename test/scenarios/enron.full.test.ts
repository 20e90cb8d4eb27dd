/**
 * The filters on real mail: 125 questions of people over Enron's mail, among them faults that a scripted model plants. This
 * measures the filters, not how well a model writes questions.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Random } from "../../src/core/util/random.js";
import { openMailDatabase } from "../../src/email/reader.js";
import type { Piece, Source } from "../../src/scenarios/pieces.js";
import { mailSource } from "../../src/scenarios/sources/mail.js";
import { coveredQuestions, describeSample } from "../support/enron-sample.js";
import { temporaryFolder } from "../support/mails.js";
import { buildSample } from "../support/sample.js";
import { generated, judgeAt, measure, type Planted } from "./support/measure.js";
import { type Fact, general, reworded, startModel, type Written } from "./support/model.js";

interface Asked {
  readonly id: number;
  readonly question: string;
  readonly answer: string;
  readonly message_ids: readonly string[];
  readonly inbox_address: string;
}

describeSample("questions over real mail, with planted faults", () => {
  const folder = temporaryFolder();
  const db = `${folder.path}/sample.db`;
  beforeAll(() => buildSample(db));
  afterAll(() => folder.remove());

  it("of leaks and duplicates 95 %, of unanswerable questions 80 % are removed, and at most 5 % of good ones", async () => {
    const random = new Random("enron");
    const mail = openMailDatabase(db);
    const asked = readFileSync(coveredQuestions, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Asked);
    const pieces: Piece[] = [];
    const byPiece = new Map<string, Written[]>();
    const facts = new Map<string, Fact>();
    const planted = new Map<string, Planted>();
    const add = (piece: Piece, written: Omit<Written, "quote">, what: Planted, fact: Fact | undefined) => {
      const lines = piece.text.split("\n").filter((line) => line.trim().length > 10);
      const quote = random.pick(lines);
      const list = byPiece.get(piece.text) ?? [];
      byPiece.set(piece.text, [...list, { ...written, quote }]);
      planted.set(written.question, what);
      if (fact) facts.set(written.question, fact);
    };
    const pieceOf = (id: string, entity: string, text: string): Piece => {
      const piece = { id, title: entity, text: text.slice(0, 6000), entity, known: "", fields: {} };
      pieces.push(piece);
      return piece;
    };
    for (const [i, { question, answer, message_ids, inbox_address }] of asked.entries()) {
      const [id = ""] = message_ids;
      const found = mail.read({ inbox: inbox_address }, id);
      if (!found) throw new Error(`no mail ${id}`);
      const head = `From: ${found.from}\nDate: ${found.date}\nSubject: ${found.subject}\n\n`;
      const text = `${head}${found.body}`.slice(0, 6000);
      const own = pieces.find((one) => one.text === text) ?? pieceOf(id, found.subject || id, text);
      // Another mail about the same: a copy that is sent on under another subject, or a short one in other words.
      const forwarded = `From: someone@enron.com\nSubject: have a look (${i})\n\nSee below.\n\n> ${found.body.slice(0, 4000).replaceAll("\n", "\n> ")}`;
      const short = `From: someone@enron.com\nSubject: as we said (${i})\n\nYou asked me on the phone. ${question.replace("?", "")} - my notes have this: ${answer}`;
      const isIn = (piece: string) => [own.text, forwarded.slice(0, 6000), short].includes(piece);
      const fact = { answer, isIn };
      const name = String(i);
      add(own, { question, answer }, { kind: "good", fact: name }, fact);
      const again = reworded(question, random);
      const style = i % 3;
      const elsewhere = style === 0 ? own : pieceOf(`copy ${i}`, `copy ${i}`, style === 1 ? forwarded : short);
      add(elsewhere, { question: again, answer }, { kind: "copy", fact: name }, fact);
      // Answered by another mail than the one named, with another answer than the right one, or by anybody.
      const other = asked[(i + 40) % asked.length] as Asked;
      const wrong = [
        {
          question: `${other.question} (asked of ${i})`,
          answer: other.answer,
          fact: { answer: other.answer, isIn: () => false },
        },
        { question: `Please say: ${question}`, answer: other.answer, fact },
        {
          question: `${general[i % general.length]?.question} (${i})`,
          answer: general[i % general.length]?.answer ?? "",
          fact: { answer: general[i % general.length]?.answer ?? "", isIn: () => true, known: true },
        },
      ][i % 3] as { question: string; answer: string; fact: Fact };
      add(own, wrong, { kind: "unanswerable", fact: name }, wrong.fact);
    }
    mail.close();
    const model = await startModel({
      write: (piece) => byPiece.get(piece) ?? [],
      factOf: (question) => facts.get(question),
    });
    const source: Source = {
      kind: "mail",
      name: "sample",
      unit: "mail",
      explore: async (_, seed) => ({ pieces: new Random("order", seed).shuffle([...pieces]), skipped: {} }),
    };
    try {
      const { kept, dropped, summary } = await generated(source, judgeAt(model.url), `${folder.path}/enron.jsonl`);
      const measured = measure(kept, planted);
      expect(kept.length + dropped.length).toBe(summary.candidates);
      expect(measured.copiesRemoved).toBeGreaterThanOrEqual(0.95);
      expect(measured.unanswerableRemoved).toBeGreaterThanOrEqual(0.8);
      expect(measured.goodLost).toBeLessThanOrEqual(0.05);
      expect(measured.acrossSplits).toBe(0);
      expect(summary.test).toBeGreaterThan(10);
    } finally {
      await model.close();
    }
  });

  it("mail that is asked about is dated, of several people, and never later than the day of asking", async () => {
    const { pieces, skipped } = await mailSource(db, undefined).explore(300, 1, new AbortController().signal);
    expect(pieces.length).toBe(300);
    expect(Object.keys(skipped).sort()).toEqual(
      ["too_short", "without_date", "without_people"].filter((one) => skipped[one]),
    );
    const mail = openMailDatabase(db);
    for (const { id, fields, text } of pieces) {
      const { inbox_address: inbox, query_date: today } = fields as { inbox_address: string; query_date: string };
      const seen = mail.read({ inbox, today }, id);
      expect(seen && text.includes(seen.body.trim().slice(0, 100))).toBe(true);
    }
    mail.close();
    expect(new Set(pieces.map(({ fields }) => fields.inbox_address)).size).toBeGreaterThan(3);
  });
});
