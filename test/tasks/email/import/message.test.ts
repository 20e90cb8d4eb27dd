import PostalMime from "postal-mime";
import { expect, test } from "vitest";
import { NoMail } from "../../../../src/tasks/email/import/body.js";
import { hasDerivedId, readMessage } from "../../../../src/tasks/email/import/message.js";
import { describeSample, maildirArchive, mboxArchive, rawMessages } from "../../../support/enron-sample.js";

const lines = (...text: string[]) => Buffer.from(text.join("\r\n"), "latin1");
const read = async (...text: string[]) => readMessage(lines(...text), "x");

test("a plain message, whole", async () => {
  const mail = await read(
    "Message-ID: <1@x>",
    "Date: Tue, 27 Nov 2001 08:22:30 -0800 (PST)",
    "From: Ann Lee <Ann.Lee@X.org>",
    "To: bob@y.org,",
    "\tCarl <carl@y.org>, bob@y.org",
    "Cc: dora@y.org",
    "Subject: Budget",
    "  2002",
    "",
    "It is 5.",
    "",
    "",
  );
  expect(mail).toEqual({
    messageId: "<1@x>",
    date: "2001-11-27 16:22:30",
    from: "ann.lee@x.org",
    to: ["bob@y.org", "carl@y.org"],
    cc: ["dora@y.org"],
    bcc: [],
    subject: "Budget 2002",
    body: "It is 5.",
    fileName: "x",
  });
});

test("Bcc is kept when it is not Cc again", async () => {
  const head = ["From: a@x.org", "Cc: c@x.org, d@x.org"];
  expect((await read(...head, "Bcc: c@x.org, d@x.org", "", "x")).bcc).toEqual([]);
  expect((await read(...head, "Bcc: e@x.org", "", "x")).bcc).toEqual(["e@x.org"]);
});

test("encoded words in subject and names", async () => {
  const mail = await read(
    "From: =?utf-8?Q?J=C3=B6rg_=28a=40b.c=29?= <joerg@x.org>",
    "Subject: =?iso-8859-1?Q?Gr=FC=DFe?= =?utf-8?B?IOKCrA==?=",
    "",
    "x",
  );
  expect([mail.from, mail.subject]).toEqual(["joerg@x.org", "Grüße €"]);
});

test.each([
  ["us-ascii", "caf\xe9", "café"],
  ["us-ascii", "caf\xc3\xa9", "café"],
  ["iso-8859-1", "caf\xe9", "café"],
  ["utf-8", "caf\xc3\xa9", "café"],
  ["koi8-r", "\xd0\xd2\xc9", "при"],
  ["gb2312", "\xc4\xe3\xba\xc3", "你好"],
  ['"UTF-8"', "caf\xc3\xa9", "café"],
  ["x-mac-croatian-of-nobody", "plain", "plain"],
])("charset %s", async (charset, bytes, text) => {
  expect((await read("From: a@x.org", `Content-Type: text/plain; charset=${charset}`, "", bytes)).body).toBe(text);
  const quoted = bytes.replace(/[^ -~]/g, (c) => `=${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const head = [`Content-Type: text/plain; charset=${charset}`, "Content-Transfer-Encoding: quoted-printable"];
  expect((await read("From: a@x.org", ...head, "", `${quoted}=`, "=3D=zz")).body).toBe(`${text}==zz`);
  const base64 = Buffer.from(bytes, "latin1").toString("base64");
  const encoded = [`Content-Type: text/plain; charset=${charset}`, "Content-Transfer-Encoding: base64"];
  if (charset !== "us-ascii") expect((await read("From: a@x.org", ...encoded, "", base64)).body).toBe(text);
});

test("of alternatives the text is taken, of HTML alone its text, of attachments nothing", async () => {
  const multipart = (kind: string, ...parts: string[][]) => [
    "From: a@x.org",
    `Content-Type: multipart/${kind}; boundary=B`,
    "",
    ...parts.flatMap((part) => ["--B", ...part]),
    "--B--",
    "",
  ];
  const plain = ["Content-Type: text/plain", "", "Hello"];
  const html = ["Content-Type: text/html", "", "<p>Hello</p><p>big <b>world</b></p><style>p {}</style>"];
  const file = [
    "Content-Type: text/plain; name=a.txt",
    "Content-Disposition: attachment; filename=a.txt",
    "",
    "secret",
  ];
  expect((await read(...multipart("alternative", plain, html))).body).toBe("Hello");
  expect((await read(...multipart("mixed", plain, file))).body).toBe("Hello");
  expect((await read("From: a@x.org", ...html)).body).toBe("Hello\n\nbig world");
  expect((await read("From: a@x.org", ...file)).body).toBe("");
});

test("format=flowed is joined to paragraphs", async () => {
  const head = ["From: a@x.org", "Content-Type: text/plain; format=flowed", ""];
  expect((await read(...head, "one ", "two", "three")).body).toBe("one two\nthree");
});

test("a mail without an id gets one that depends on its content", async () => {
  const [one, again, other] = [
    await read("From: a@x.org", "", "x"),
    await read("From: a@x.org", "X-Seen: yes", "", "x"),
    await read("From: a@x.org", "", "y"),
  ];
  expect(hasDerivedId(one)).toBe(true);
  expect(one.messageId).toBe(again.messageId);
  expect(one.messageId).not.toBe(other.messageId);
});

test("what stands around is passed over: an mbox line, lines that are no header, NULs", async () => {
  const mail = await read(
    "From a@x.org Tue Nov 27 08:22:30 2001",
    "From: a@x.org",
    "no header",
    "Subject: s\0t",
    "",
    "u\0v",
  );
  expect([mail.from, mail.subject, mail.body]).toEqual(["a@x.org", "st", "uv"]);
});

test("the sender stands in for a missing From", async () => {
  expect((await read("Sender: s@x.org", "Subject: x", "", "x")).from).toBe("s@x.org");
});

test("what is no mail is named", () => {
  const reason = (bytes: Buffer) => {
    try {
      readMessage(bytes, "x");
    } catch (error) {
      return error instanceof NoMail && error.reason;
    }
    return undefined;
  };
  expect(reason(Buffer.from(""))).toBe("empty");
  expect(reason(Buffer.from("\r\n \n"))).toBe("empty");
  expect(reason(Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0]))).toBe("not_mail");
  expect(reason(Buffer.from("just: text\n\nwith a colon"))).toBe("not_mail");
});

test("MIME nested without end is bad_mime, not a crash", async () => {
  const nested = Array.from({ length: 400 }, (_, i) => [
    `Content-Type: multipart/mixed; boundary=B${i}`,
    "",
    `--B${i}`,
  ]).flat();
  await expect(read("From: a@x.org", ...nested, "", "x")).rejects.toMatchObject({ reason: "bad_mime" });
});

test("a megabyte of spaces does not make any field take forever", async () => {
  const spaces = " ".repeat(1_000_000);
  const head = [`From: a@x.org${spaces}x`, `To: ${"<".repeat(100_000)}`, `Date: ${"(".repeat(100_000)}`];
  // Whoever looks at every pair of spaces is at it for hours: the test's own time limit ends that.
  await read(...head, `Subject: a${spaces}b`, "Content-Transfer-Encoding: quoted-printable", "", `a${spaces}b`);
});

describeSample("plain mail is read as postal-mime reads it", () => {
  test("a fifteenth of the sample, and all that is quoted-printable in the maildirs", async () => {
    const raw = [...rawMessages(maildirArchive), ...rawMessages(mboxArchive)];
    const chosen = raw.filter(({ header }, index) => index % 15 === 0 || (index < 8586 && header.includes("quoted-p")));
    expect(chosen.length).toBeGreaterThan(1400);
    const oneLine = (text = "") => text.replace(/\s+/g, " ").trim();
    for (const { text, path } of chosen) {
      const bytes = Buffer.from(text, "latin1");
      const [mail, theirs] = [await readMessage(bytes, path), await PostalMime.parse(bytes)];
      expect(mail.messageId).toBe(theirs.messageId);
      expect(mail.subject).toBe(oneLine(theirs.subject));
      expect(mail.body).toBe((theirs.text ?? "").replace(/\n+$/, ""));
      expect(mail.from).toBe(theirs.from?.address?.toLowerCase());
      const date = theirs.date?.slice(0, 19).replace("T", " ");
      expect(mail.date).toBe(date === "1980-01-01 00:00:00" ? undefined : date);
      const to = new Set((theirs.to ?? []).map(({ address = "" }) => address.toLowerCase()));
      if (theirs.to && !/["']/.test([...to].join())) expect(mail.to).toEqual([...to]);
    }
  });
});
