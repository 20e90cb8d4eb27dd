import { describe, expect, it } from "vitest";
import { translated } from "../../src/chat/patterns.js";

/** Patterns with texts in which they are found, and such in which they are not. */
const dialects: [pattern: string, found: string[], not: string[]][] = [
  // Needless escapes, as JavaScript without its flag u, Python and Go take them.
  ["^https\\:\\/\\/", ["https://a"], ["http://a"]],
  ["^[\\w-.]+\\@\\w+$", ["a-b.c@d"], ["a b@c"]],
  ["^[a-\\d]\\:$", ["-:", "1:", "a:"], ["b:"]],
  ["^\\#[0-9a-f]{6}\\ ?$", ["#00ff00 "], ["00ff00"]],
  ["^{\\w+}$", ["{a}"], ["a"]],
  // Flags of the whole.
  ["(?i)^straße$", ["STRAßE", "straße"], ["strasse"]],
  ["(?s)^a.b$", ["a\nb"], ["ab"]],
  // Python's, Ruby's and .NET's beginnings and ends.
  ["\\A\\d+\\z", ["12"], ["12a", "12\n"]],
  ["\\A\\d+\\Z", ["12"], ["a12"]],
  // Named groups and references to them.
  ["^(?P<q>['\"]).*(?P=q)$", ["'a'", '"a"'], ["'a\""]],
  ["^(a)(b)\\2\\1\\:$", ["abba:"], ["abab:"]],
  // JavaScript's own stay as they are.
  ["^[^]\\u{1F600}$", ["\n😀"], ["😀"]],
];

describe("patterns of other dialects", () => {
  it.each(dialects)("%s is tested as its authors mean it", (pattern, found, not) => {
    const test = translated(pattern);
    for (const text of found) expect([text, test.test(text)]).toEqual([text, true]);
    for (const text of not) expect([text, test.test(text)]).toEqual([text, false]);
  });

  it.each([
    // Spaces in Perl and Java, digits in Ruby.
    ["^\\h+$", /whose meaning is certain/],
    ["^a{,2}\\:$", /certain/],
    ["^a++b$", /certain/],
    ["^[[:alpha:]_]+$", /certain/],
    // A literal ] elsewhere, the end of an empty class in JavaScript.
    ["^[]\\:a]+$", /certain/],
    ["^[a-z\\:&&[^b]]$", /certain/],
    ["^[a-z[0-9\\_]]$", /certain/],
    ["\\p{NoSuchScript}", /certain/],
    ["(?P<a>x)(?P=b)", /certain/],
    ["*.txt", /certain/],
    ["(", /certain/],
    ["a)\\:", /certain/],
    ["\\", /certain/],
    ["[a\\", /certain/],
    [`${"a".repeat(20_000)}\\:`, /too long/],
  ])("%s is not guessed", (pattern, why) => {
    expect(() => translated(pattern)).toThrow(why);
  });
});
