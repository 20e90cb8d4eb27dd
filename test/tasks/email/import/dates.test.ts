import { expect, test } from "vitest";
import { readDate, storedDate } from "../../../../src/tasks/email/import/dates.js";

test.each([
  ["Tue, 27 Nov 2001 08:22:30 -0800 (PST)", "2001-11-27 16:22:30"],
  ["Tue, 27 Nov 2001 08:22:30 -0800 (PST (Pacific))", undefined],
  ["Tue, 27 Nov 2001 08:22 +0100", "2001-11-27 07:22:00"],
  ["27 Nov 01 08:22:30 PST", "2001-11-27 16:22:30"],
  ["27 Nov 2001 08:22:30", "2001-11-27 08:22:30"],
  ["Tue, 27 Nov 2001 08:22:30 CEST", "2001-11-27 08:22:30"],
  ["Tue, 27 Nov 2001 08:22:30 GMT", "2001-11-27 08:22:30"],
  ["Tue Nov 27 08:22:30 2001", "2001-11-27 08:22:30"],
  ["Tue Nov 27 08:22:30 EST 2001", "2001-11-27 13:22:30"],
  ["2001-11-27T08:22:30Z", "2001-11-27 08:22:30"],
  ["2001-11-27T08:22:30.123+08:00", "2001-11-27 00:22:30"],
  ["2001-11-27 08:22:30", "2001-11-27 08:22:30"],
  ["2001-11-27", "2001-11-27 00:00:00"],
  ["Mon, 31 Dec 1979 16:00:00 -0800 (PST)", undefined],
  ["Thu, 1 Jan 1970 00:00:00 +0000", undefined],
  ["Tue, 27 Nov 2001 25:22:30 -0800", undefined],
  ["hello 1", undefined],
  ["", undefined],
  ["((((((", undefined],
])("%s is %s", (text, date) => {
  expect(readDate(text)).toBe(date);
});

test("moments that are no date of a mail", () => {
  expect(storedDate(Number.NaN)).toBeUndefined();
  expect(storedDate(1e15)).toBeUndefined();
  expect(storedDate(Date.UTC(2001, 0, 2))).toBe("2001-01-02 00:00:00");
});
