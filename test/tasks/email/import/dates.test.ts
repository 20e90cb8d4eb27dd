import { expect, test } from "vitest";
import { dateReceived, readDate, storedDate } from "../../../../src/email/import/dates.js";

test.each([
  ["Tue, 27 Nov 2001 08:22:30 -0800 (PST)", "2001-11-27 16:22:30"],
  ["Tue, 27 Nov 2001 08:22:30 -0800 (PST (Pacific))", "2001-11-27 16:22:30"],
  ["Tue, 27 Nov 2001 08:22 +0100", "2001-11-27 07:22:00"],
  ["27 Nov 01 08:22:30 PST", "2001-11-27 16:22:30"],
  ["27 Nov 2001 08:22:30", "2001-11-27 08:22:30"],
  ["Tue, 27 Nov 2001 08:22:30 CEST", "2001-11-27 08:22:30"],
  ["Tue, 27 Nov 2001 08:22:30 GMT", "2001-11-27 08:22:30"],
  ["Tue Nov 27 08:22:30 2001", "2001-11-27 08:22:30"],
  ["Tue Nov 27 08:22:30 EST 2001", "2001-11-27 13:22:30"],
  ["Tue Nov 27 08:22:30 +0800 2001", "2001-11-27 00:22:30"],
  ["2001-11-27T08:22:30Z", "2001-11-27 08:22:30"],
  ["2001-11-27T08:22:30.123+08:00", "2001-11-27 00:22:30"],
  ["2001-11-27 08:22:30", "2001-11-27 08:22:30"],
  ["2001-11-27", "2001-11-27 00:00:00"],
  // What is no standard's, but mail programs'.
  ["2023-6-1 9:05:00", "2023-06-01 09:05:00"],
  ["2023/06/01 10:53:30 +0800", "2023-06-01 02:53:30"],
  ["2023.06.01 10:53", "2023-06-01 10:53:00"],
  ["Tue Feb 16 2016 17:23:34 GMT+0800", "2016-02-16 09:23:34"],
  ["Tue Feb 16 2016 17:23:34 GMT+0800 (China Standard Time)", "2016-02-16 09:23:34"],
  ["Thu, 1 Jun 2023 10:53:30 GMT+8", "2023-06-01 02:53:30"],
  ["Thu, 1 Jun 2023 10:53:30 UTC-05:30", "2023-06-01 16:23:30"],
  ["Fri, Dec 14 2001 16:05:48 -0800", "2001-12-15 00:05:48"],
  ["Thu, 6 Oct 2022 12:27:13 +08:00", "2022-10-06 04:27:13"],
  ["Thu, 6 Oct 2022 12:27:13 +0800 +0800", "2022-10-06 04:27:13"],
  ["Thu,6 Oct 2022 12:27:13 +0800", "2022-10-06 04:27:13"],
  ["Thu 6 Oct 2022 12:27:13 +0800", "2022-10-06 04:27:13"],
  ["Thu, 06-Oct-2022 12:27:13 GMT", "2022-10-06 12:27:13"],
  ["Thu, 06-Oct-22 12:27:13 GMT", "2022-10-06 12:27:13"],
  ["Thursday, October 6, 2022 3:07 PM", "2022-10-06 15:07:00"],
  ["Wed, 21 Dec 0001 22:31:43 -0800 (PST)", "2001-12-22 06:31:43"],
  ["6 Sept 2022 12:27:13 +0000", "2022-09-06 12:27:13"],
  ["6/1/2023 10:53:30 PM", "2023-06-01 22:53:30"],
  ["01.06.2023 10:53:30", "2023-06-01 10:53:30"],
  ["01-06-2023 10:53:30", "2023-06-01 10:53:30"],
  ['"Thu, 6 Oct 2022 12:27:13 +0800"', "2022-10-06 04:27:13"],
  ["1685588010", "2023-06-01 02:53:30"],
  ["1685588010000", "2023-06-01 02:53:30"],
  ["Do, 1 Jun 2023 10:53:30 +0200", "2023-06-01 08:53:30"],
  ["Thu, 1 Jun 2023 10:53:30 +0200 MET DST", "2023-06-01 08:53:30"],
  // No date, or none of a mail; the time of arrival then stands for it.
  ["1 Dez 2001 10:53:30 +0100", undefined],
  ["2023年6月1日 下午 3:05", undefined],
  ["13/06/2023 10:53", undefined],
  ["Mon, 31 Dec 1979 16:00:00 -0800 (PST)", undefined],
  ["Thu, 1 Jan 1970 00:00:00 +0000", undefined],
  ["Tue, 27 Nov 2001 25:22:30 -0800", undefined],
  ["2001-13-27 08:22:30", undefined],
  ["hello 1", undefined],
  ["12:30", undefined],
  ["see 27 November", undefined],
  ["", undefined],
  ["((((((", undefined],
  [`1 Jun 2023 ${"(".repeat(100_000)}`, undefined],
])("%s is %s", (text, date) => {
  expect(readDate(text)).toBe(date);
});

test("of the servers' dates the newest counts, which is the first that is one", () => {
  const received = [
    "from a by b; no date",
    "from b by c with SMTP id 1; Sat, 16 Dec 2000 08:45:05 +0100 (CET)",
    "from c by d; Sat, 16 Dec 2000 08:40:00 +0100",
  ];
  expect(dateReceived(received)).toBe("2000-12-16 07:45:05");
  expect(dateReceived(["from 10.1.2.2003 by x"])).toBeUndefined();
  expect(dateReceived()).toBeUndefined();
});

test("moments that are no date of a mail", () => {
  expect(storedDate(Number.NaN)).toBeUndefined();
  expect(storedDate(1e15)).toBeUndefined();
  expect(storedDate(1e17)).toBeUndefined();
  expect(storedDate(Date.UTC(2001, 0, 2))).toBe("2001-01-02 00:00:00");
});
