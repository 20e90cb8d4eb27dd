import { describe, expect, it } from "vitest";
import { translated } from "../../src/chat/patterns.js";

/** Patterns with texts in which they are found, and such in which they are not. */
const dialects: [pattern: string, found: string[], not: string[]][] = [
  // Needless escapes, as JavaScript without its flag u, Python and Go take them.
  ["^https\\:\\/\\/", ["https://a"], ["http://a"]],
  ["^[\\w-.]+\\@\\w+$", ["a-b.c@d"], ["a b@c"]],
  ["^\\#[0-9a-f]{6}\\ ?$", ["#00ff00 "], ["00ff00"]],
  ["^{\\w+}$", ["{a}"], ["a"]],
  // Flags, where they concern the whole.
  ["(?i)^straße$", ["STRAßE", "straße"], ["strasse"]],
  ["^(?i:get|put)$", ["GET", "put"], ["post"]],
  ["(?s)^a.b$", ["a\nb"], ["ab"]],
  ["(?m)^b$", ["a\nb\nc"], ["ab"]],
  ["(?x) ^ \\d {2} # two digits\n $", ["12"], ["1", "1 2"]],
  ["(?im-s)^A$", ["b\na"], ["ba"]],
  // Python's, Ruby's and .NET's beginnings and ends.
  ["\\A\\d+\\z", ["12"], ["12a", "12\n"]],
  ["\\A\\d+\\Z", ["12"], ["a12"]],
  // Named groups and references to them.
  ["^(?P<q>['\"]).*(?P=q)$", ["'a'", '"a"'], ["'a\""]],
  ["^(?'q'['\"]).*\\k'q'\\:$", ["'a':"], ["'a\":"]],
  ["^(a)(b)\\2\\1\\:$", ["abba:"], ["abab:"]],
  // Groups and repetitions that give nothing back.
  ["^a++b$", ["aab"], ["b"]],
  ["^a*+ab$", [], ["aab"]],
  ["^(?>a|ab)c$", ["ac"], ["abc"]],
  ["^a{,2}\\:$", [":", "aa:"], ["aaa:"]],
  // Classes of POSIX and properties of Unicode.
  ["^[[:alpha:]_]+$", ["a_B"], ["a1"]],
  ["^[[:xdigit:][:space:]]+$", ["a F0"], ["g"]],
  ["^\\pL+\\:$", ["äb:"], ["a1:"]],
  ["^\\p{Greek}+\\p{IsAlphabetic}$", ["αβx"], ["aβ"]],
  ["^\\p{^Lu}\\:$", ["a:"], ["A:"]],
  // Characters by their numbers.
  ["^\\x{1F600}\\U0001F601\\o{101}\\e\\07\\cA$", ["😀😁A\x1b\x07\x01"], ["😀"]],
  ["^\\Qa.b\\E\\R$", ["a.b\r\n", "a.b\n"], ["axb\n"]],
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
    ["^\\h+$", /^\\h is another dialect's, or means different things/],
    ["^(?i:a)b$", /only a part of it ignores the case/],
    ["^(?<a>x)|(?&a)$", /\(\?&/],
    ["^(a)?(?(1)b|c)$", /\(\?\(/],
    ["(*UTF8)a", /\(\*VERB\)/],
    // A literal ] elsewhere, the end of an empty class in JavaScript.
    ["^[]\\:a]+$", /\] at the beginning/],
    ["^[a-z&&[^b]]$", /&&/],
    ["^[a-z[0-9\\_]]$", /\[ within a \[class\]/],
    ["[[=a=]]", /collating/],
    ["\\p{NoSuchScript}", /\\p\{NoSuchScript\}/],
    ["(?P<a>x)(?P=b)", /a reference to the group b/],
    ["*.txt", /it is no regular expression/],
    ["(", /it is no regular expression/],
    ["a)\\:", /it is no regular expression/],
    ["\\", /it is no regular expression/],
    ["[a\\", /\[class\]/],
    [`${"a".repeat(20_000)}\\:`, /too long/],
  ])("%s is not guessed", (pattern, why) => {
    expect(() => translated(pattern)).toThrow(why);
  });
});
