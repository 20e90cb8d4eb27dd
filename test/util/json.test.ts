import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copied, hasBigint, mapBigints, parseJson, toJson, withDigits, withMarks } from "../../src/core/util/json.js";

/** JSON data with integers of any size. */
const data = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(null, true, 0.1234567890123456, 1e300, -5e-324),
    fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
    fc.maxSafeInteger(),
    fc.string(),
    fc.constantFrom("1234567890123456789", 'a"12345678901234567', "\\", '\\"', "__proto__"),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.string(), fc.constant("12345678901234567890")), tie("value"), { maxKeys: 4 }),
  ),
})).value;
/** Integers that a number holds are read as numbers. */
const asRead = (value: unknown) =>
  mapBigints(value, (integer) => (Number.isSafeInteger(Number(integer)) ? Number(integer) : integer));

test("a copy is of lists and plain objects; what else is in them is the same", () => {
  fc.assert(
    fc.property(data, (value) => {
      expect(copied(value)).toEqual(value);
    }),
  );
  const when = new Date(0);
  const given = { list: [{ when }], none: undefined };
  const copy = copied(given);
  expect(copy).toEqual(given);
  expect(copy.list[0]).not.toBe(given.list[0]);
  expect(copy.list[0]?.when).toBe(when);
});

describe("JSON with exact integers", () => {
  test("comes back as it was written, whatever stands around them", () => {
    fc.assert(
      fc.property(data, fc.constantFrom(undefined, 2), (value, indent) => {
        expect(parseJson(toJson(value, indent))).toEqual(asRead(value));
      }),
    );
  });

  test("has integers that a number would round as bigints, and everything else as JSON.parse", () => {
    const floats = ["12345678901234567e0", "1.2345678901234567890", "1e-1234567890123456789"];
    const text = `{"a":1234567890123456789,"b":[-9007199254740993,9007199254740991,${floats}]}`;
    expect(parseJson(text)).toEqual({
      a: 1234567890123456789n,
      b: [-9007199254740993n, 9007199254740991, ...floats.map(Number)],
    });
    expect(toJson(parseJson('{"id": 1234567890123456789}'))).toBe('{"id":1234567890123456789}');
    const inTexts = String.raw`{"12345678901234567890":"x 12345678901234567890 \" 12345678901234567890 \\"}`;
    expect(toJson(parseJson(inTexts))).toBe(inTexts);
  });

  test("is refused where JSON.parse refuses it", () => {
    for (const text of [
      "{12345678901234567890: 1}",
      "012345678901234567890",
      '[12345678901234567890"a"]',
      "-",
      "12345678901234567.",
    ]) {
      expect(() => parseJson(text)).toThrow(SyntaxError);
    }
    expect(() => parseJson("9".repeat(5000))).toThrow("more than 4300 digits");
    const circle: unknown[] = [1n];
    circle.push(circle);
    expect(() => toJson(circle)).toThrow();
  });

  test("passes through a library that writes JSON by itself", () => {
    const value = { a: [{ b: 12345678901234567890n }], c: "x" };
    expect(withDigits(JSON.stringify(withMarks(value)))).toBe('{"a":[{"b":12345678901234567890}],"c":"x"}');
    const without = { a: 1 };
    expect(withMarks(without)).toBe(without);
    expect([hasBigint(value), hasBigint(without)]).toEqual([true, false]);
  });
});
