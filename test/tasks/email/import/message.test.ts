import PostalMime from "postal-mime";
import { expect, test } from "vitest";
import { NoMail } from "../../../../src/email/import/body.js";
import { readMessage } from "../../../../src/email/import/message.js";
import { hasDerivedId } from "../../../../src/email/mail.js";
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

/** Bytes as text of Latin-1. */
const gbk = { 会议改到三点: "\xbb\xe1\xd2\xe9\xb8\xc4\xb5\xbd\xc8\xfd\xb5\xe3", 正文: "\xd5\xfd\xce\xc4" };
const latin1 = (text: string) => Buffer.from(text).toString("latin1");
const base64 = (text: string) => Buffer.from(text, "latin1").toString("base64");

test.each([
  ["'utf-8'", latin1("会议"), "会议"],
  ["utf8mb4", latin1("会议"), "会议"],
  ["CP65001", latin1("会议"), "会议"],
  ["cp65001", `${latin1("会议")}\xe4`, "会议\ufffd"],
  ["x-unknown", latin1("会议"), "会议"],
  ["_autodetect_all", latin1("会议"), "会议"],
  ["no-such-charset", latin1("会议"), "会议"],
  ["gb18030", latin1("会议会"), "会议会"],
  ["gb2312 (Chinese)", gbk.会议改到三点, "会议改到三点"],
  ['"gb2312', gbk.会议改到三点, "会议改到三点"],
  ["cp936", gbk.会议改到三点, "会议改到三点"],
  ["cn-gb", gbk.会议改到三点, "会议改到三点"],
  ["x-gbk", gbk.会议改到三点, "会议改到三点"],
  ["GB2312_CHARSET", gbk.会议改到三点, "会议改到三点"],
  ["''gb2312", gbk.会议改到三点, "会议改到三点"],
  ["cp932", "\x89\xef\x8bc", "会議"],
  ["x-ms-cp932", "\x89\xef\x8bc", "会議"],
  ["x-windows-949", "\xc8\xb8\xc0\xc7", "회의"],
  ["ks_c_5601-1987", "\xc8\xb8\xc0\xc7", "회의"],
  ["_iso-2022-jp$SIO", "\x1b$B2q5D\x1b(B", "会議"],
  ["", "\x1b$B2q5D\x1b(B", "会議"],
  ["cp-1251", "\xef\xf0\xe8", "при"],
  ["cp850", "caf\x82", "café"],
  ["unicode-1-1-utf-7", "caf+AOk-", "café"],
  ["unicode", "plain", "plain"],
])("a label of no standard, or one that lies: charset=%s", async (charset, bytes, text) => {
  const head = ["From: a@x.org", `Content-Type: text/plain; charset=${charset}`];
  expect((await read(...head, "", bytes)).body).toBe(text);
  expect((await read(...head, "Content-Transfer-Encoding: base64", "", base64(bytes))).body).toBe(text);
});

test.each(["<meta charset=gb2312>", '<META http-equiv="Content-Type" content="text/html; charset=gb2312">'])(
  "a page without a label is in the charset that it names itself: %s",
  async (meta) => {
    const page = `<html><head>${meta}</head><body>${gbk.会议改到三点}</body></html>`;
    const html = ["Content-Type: text/html", "", page];
    expect((await read("From: a@x.org", ...html)).body).toBe("会议改到三点");
    const coded = ["Content-Type: text/html; charset=us-ascii", "Content-Transfer-Encoding: base64", "", base64(page)];
    const mixed = ["Content-Type: multipart/alternative; boundary=B", "", "--B", ...coded, "--B--"];
    expect((await read("From: a@x.org", ...mixed)).body).toBe("会议改到三点");
  },
);

test("bytes in a header that are not ASCII are in the charset that the message names elsewhere", async () => {
  const head = ["From: a@x.org", `Subject: ${gbk.会议改到三点}`];
  const part = ["--B", 'Content-Type: text/plain; charset="gb2312"', "", gbk.正文, "--B--"];
  const html = `<meta content="text/html; charset=gb2312">${gbk.正文}`;
  for (const rest of [
    ["Content-Type: text/plain; charset=gb2312", "", gbk.正文],
    ["Content-Type: text/plain; charset='GBK'", "Content-Transfer-Encoding: base64", "", base64(gbk.正文)],
    ["Content-Type: multipart/mixed; boundary=B", "", ...part],
    ["Content-Type: text/html", "", html],
  ]) {
    const { subject, body } = await read(...head, ...rest);
    expect([subject, body]).toEqual(["会议改到三点", "正文"]);
  }
  const named = await read(`Subject: ${gbk.正文} - =?GBK?Q?test=B5=C4?=`, "", "x");
  expect(named.subject).toBe("正文 - test的");
  // UTF-8 where the bytes are, Windows-1252 where nothing else is named.
  const utf8 = await read(
    `Subject: ${latin1("会议")}`,
    `X-To: ${gbk.正文}`,
    "Content-Type: text/plain; charset=gbk",
    "",
    "x",
  );
  expect(utf8.subject).toBe("会议");
  expect((await read("Subject: caf\xe9", "Content-Type: text/plain; charset=utf-8", "", "x")).subject).toBe("café");
  expect((await read("Subject: \x1b$B2q5D\x1b(B", "", "x")).subject).toBe("会議");
});

test.each([
  ["=?gb2312?B?u+HS6bg=?=\r\n =?gb2312?B?xLW9yP214w==?=", "会议改到三点"],
  ["=?gb18030?B?u+HS6bjEtQ==?= =?GB18030?B?vcj9teM=?=", "会议改到三点"],
  ["=?utf-8?Q?=E4=BC=9A=E8?= =?utf-8?Q?=AE=AE?=", "会议"],
  ["=?utf-8?Q?=E4=BC?= =?utf-8*en?B?mg==?=", "会"],
  ["=?utf-8?B?5Lya?= =?gb2312?B?0uk=?= now", "会议 now"],
  ["a =?utf-8?Q?b_c?= d =?utf-8?Q?=E?= e", "a b c d =E e"],
  ["=?utf-8?Q?really??= =?utf-8?Q??=", "really?"],
  ["=?no-such-charset?B?5Lya?=", "会"],
  ["=?utf-8?B?5Lya", "=?utf-8?B?5Lya"],
  ["=?ISO-2022-JP?B?GyRCMnEbKEI=?= =?ISO-2022-JP?B?GyRCNUQbKEI=?=", "会議"],
])("encoded words are joined as bytes: %s", async (subject, text) => {
  expect((await read(`Subject: ${subject}`, "", "x")).subject).toBe(text);
});

test("lines may end with CR alone or CR CR LF, and a message may begin with a byte order mark or blank lines", async () => {
  const text = ["From: a@x.org", "Subject: s", "", "one", "two"];
  for (const bytes of [
    text.join("\r"),
    text.join("\r\r\n"),
    `\xef\xbb\xbf${text.join("\n")}`,
    `\r\n\n${text.join("\r\n")}`,
  ]) {
    const { from, subject, body } = await readMessage(Buffer.from(bytes, "latin1"), "x");
    expect([from, subject, body]).toEqual(["a@x.org", "s", "one\ntwo"]);
  }
  const part = ["Content-Type: multipart/mixed; boundary=B", "", "--B", "", "one", "--B--"];
  expect((await readMessage(Buffer.from(["From: a@x.org", ...part].join("\r")), "x")).body).toBe("one");
});

test("without a date that can be read the newest Received counts", async () => {
  const received = [
    "Received: from a by b;",
    "\tSat, 16 Dec 2000 08:45:05 +0100",
    "Received: from c by a; Sat, 16 Dec 2000 07:00:00 +0100",
  ];
  expect((await read(...received, "From: a@x.org", "", "x")).date).toBe("2000-12-16 07:45:05");
  expect((await read("Date: soon", ...received, "", "x")).date).toBe("2000-12-16 07:45:05");
  expect((await read("Date: Mon, 31 Dec 1979 16:00:00 -0800", ...received, "", "x")).date).toBe("2000-12-16 07:45:05");
  expect((await read("Date: 2001-01-02 03:04:05", ...received, "", "x")).date).toBe("2001-01-02 03:04:05");
  expect((await read("From: a@x.org", "", "x")).date).toBeUndefined();
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

test.each([
  [
    "a reply before the page that it quotes",
    "<p>yes</p><blockquote><html><body>go?</body></html></blockquote>",
    "yes\n\n> go?",
  ],
  ["what was added behind the page", "<html><body><p>Hello</p></body></html><p>scanned</p>", "Hello\n\nscanned"],
  ["a table's cells apart, a row in a line", "<table><tr><th>Rent<td>$5<tr><td>Fee<td>$6</table>", "Rent $5\nFee $6"],
  ["lines that are no paragraphs", "<dl><dt>Rent<dd>$5</dl><center>Ann</center>Lee", "Rent\n$5\nAnn\nLee"],
  ["a heading as it is written", "<h1>Größe: iPad</h1>Hello", "Größe: iPad\n\nHello"],
  ["no title", "<html><head><title>Untitled</title></head><body>Hello</body></html>", "Hello"],
  ["what follows inlined pictures", `<img src="data:,${"A".repeat(17_000_000)}"><p>Hello</p>`, "Hello"],
])("text of HTML: %s", async (_, html, text) => {
  expect((await read("From: a@x.org", "Content-Type: text/html", "", html)).body).toBe(text);
});

test.each(["text/calendar; method=REQUEST", "text/enriched", "text/", "plain", "us-ascii; charset=utf-8", ";"])(
  "a message is text if it is of no other kind: Content-Type: %s",
  async (type) => {
    expect((await read("From: a@x.org", `Content-Type: ${type}`, "", "At noon")).body).toBe("At noon");
    const encoded = ["Content-Transfer-Encoding: base64", "", "QXQg", "bm9vbg=="];
    expect((await read("From: a@x.org", `Content-Type: ${type}`, ...encoded)).body).toBe("At noon");
  },
);

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

test("what is no mail is named", async () => {
  const reason = (bytes: Buffer) =>
    readMessage(bytes, "x").then(
      () => undefined,
      (error: unknown) => error instanceof NoMail && error.reason,
    );
  expect(await reason(Buffer.from(""))).toBe("empty");
  expect(await reason(Buffer.from("\r\n \n"))).toBe("empty");
  expect(await reason(Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0]))).toBe("not_mail");
  expect(await reason(Buffer.from("just: text\n\nwith a colon"))).toBe("not_mail");
});

test("MIME nested without end is bad_mime, not a crash", async () => {
  const nested = Array.from({ length: 400 }, (_, i) => [
    `Content-Type: multipart/mixed; boundary=B${i}`,
    "",
    `--B${i}`,
  ]).flat();
  await expect(read("From: a@x.org", ...nested, "", "x")).rejects.toMatchObject({ reason: "bad_mime" });
});

test("HTML whose elements are never closed is bad_mime, not a crash", async () => {
  const html = read("From: a@x.org", "Content-Type: text/html", "", "<font>x".repeat(20_000));
  await expect(html).rejects.toMatchObject({ reason: "bad_mime" });
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
