import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CommandLine } from "../../../support/command-line.js";
import { databaseOf, mail, scenario, temporaryFolder } from "../../../support/mails.js";

const folder = temporaryFolder();
const db = `${folder.path}/mail.db`;

const commandLine = new CommandLine();
async function hone(command: string, ...flags: string[]) {
  const said = await commandLine.run(folder.path, command, "--db", db, ...flags);
  return { ...said, json: () => JSON.parse(said.stdout.trim().split("\n").at(-1) ?? "") as unknown };
}

beforeAll(() => {
  databaseOf(
    db,
    [
      mail({ messageId: "<1@x>", subject: "Lunch", body: "Lunch is at noon.", date: "2001-02-03 12:00:00" }),
      mail({ messageId: "<2@x>", subject: "", body: "late lunch \u001b[31m", date: undefined }),
    ],
    [scenario({ id: "a", kind: "when" }), scenario({ id: "b", split: "test", how_realistic: 0.5 })],
  ).close();
});
afterAll(() => {
  commandLine.close();
  folder.remove();
});

describe("yarn hone search", () => {
  it("lists hits as JSON", async () => {
    const { status, json } = await hone("search", "--inbox", "bob@x.com", "--keywords", "lunch,noon", "--json");
    expect(status).toBe(0);
    expect(json()).toEqual({
      hits: [
        {
          message_id: "<1@x>",
          date: "2001-02-03 12:00:00",
          subject: "Lunch",
          snippet: "<b>Lunch</b> is at <b>noon</b>.",
        },
      ],
    });
  });

  it("lists hits for people, without what would move their cursor", async () => {
    const { stdout } = await hone("search", "--inbox", "bob@x.com", "--keywords", "lunch");
    expect(stdout).toBe(
      "2001-02-03 12:00  Lunch\n  Lunch\n  <1@x>\n\nno date           (no subject)\n  late lunch [31m\n  <2@x>\n",
    );
    expect((await hone("search", "--inbox", "bob@x.com", "--keywords", "supper")).stdout).toBe(
      "no mail of bob@x.com matches\n",
    );
  });

  it("takes every filter", async () => {
    const flags = [
      "--sent-before",
      "2001-02-03",
      "--sent-after",
      "2001-02-03",
      "--from-addr",
      "ann@x.com",
      "--to-addr",
      "bob@x.com",
    ];
    const { json } = await hone(
      "search",
      "--inbox",
      "bob@x.com",
      "--keywords",
      "lunch",
      ...flags,
      "--max-results",
      "1",
      "--rank",
      "bm25",
      "--json",
    );
    expect(json()).toMatchObject({ hits: [{ message_id: "<1@x>" }] });
  });

  it("refuses keywords without a word in one line", async () => {
    const { status, json, stderr } = await hone("search", "--inbox", "bob@x.com", "--keywords", "!?", "--json");
    expect(status).toBe(1);
    expect(json()).toEqual({ error: 'the keyword "!?" has no word in it' });
    expect(stderr).toBe('hone: the keyword "!?" has no word in it\n');
  });
});

describe("yarn hone read", () => {
  it("gives the mail as JSON, and as text", async () => {
    const { json } = await hone("read", "--inbox", "bob@x.com", "--id", "1@x", "--json");
    expect(json()).toEqual({
      message_id: "<1@x>",
      date: "2001-02-03 12:00:00",
      subject: "Lunch",
      from: "ann@x.com",
      to: ["bob@x.com"],
      cc: [],
      bcc: [],
      body: "Lunch is at noon.",
    });
    expect((await hone("read", "--inbox", "bob@x.com", "--id", "<2@x>")).stdout).toBe(
      "Date: unknown\nFrom: ann@x.com\nTo: bob@x.com\nSubject: \nMessage-ID: <2@x>\n\nlate lunch [31m\n",
    );
  });

  it("fails in one line when the person has no such mail", async () => {
    const { status, stderr } = await hone("read", "--inbox", "cy@x.com", "--id", "<1@x>");
    expect([status, stderr]).toEqual([1, "hone: cy@x.com has no mail with the id <1@x>\n"]);
  });
});

describe("yarn hone scenarios", () => {
  it("lists them as JSON", async () => {
    const { json } = await hone("scenarios", "--json");
    const { facts: _, ...a } = scenario({ id: "a", kind: "when" });
    expect(json()).toEqual({ scenarios: [a, scenario({ id: "b", split: "test", how_realistic: 0.5 })] });
  });

  it("chooses by split, number and id, and shows one with its evidence", async () => {
    expect((await hone("scenarios", "--split", "test", "--json")).json()).toMatchObject({ scenarios: [{ id: "b" }] });
    expect((await hone("scenarios", "--n", "1", "--json")).json()).toMatchObject({ scenarios: [{}] });
    const { stdout } = await hone("scenarios", "--scenario", "a", "--show");
    for (const part of ["How much?", "Answer: 5", "<1@x>", "Lunch is at noon."]) expect(stdout).toContain(part);
    expect((await hone("scenarios", "--scenario", "zzz")).status).toBe(2);
  });
});
