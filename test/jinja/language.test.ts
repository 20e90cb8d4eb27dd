/** The template language itself, against transformers': the same text, or a refusal where hone lacks something. */
import { beforeAll, describe, expect, it } from "vitest";
import { ensureLearnerPython } from "../support/python.js";
import { ours, transformers } from "./support.js";

const variables = {
  text: "  Hello wörld\n it's\t ",
  commas: "a,b,,c",
  odd: "🙂x\u00a0\ufeff\u001c y\u0085",
  empty: "",
  html: `<a href="x">&'</a>`,
  quotes: `it's "q"`,
  number: " 12 ",
  decimal: "1.5",
  sharp: "straße",
  five: 5,
  zero: 0,
  minus: -7,
  big: 9007199254740991,
  half: 0.5,
  tiny: 1e-7,
  huge: 1.5e300,
  wide: 123456.75,
  yes: true,
  no: false,
  nothing: null,
  list: [3, 1, 2],
  words: ["b", "A", "c", "a"],
  mixed: [1, "a", null, true, 2.5],
  hollow: [],
  lists: [[1, 2], [3]],
  dict: { b: 1, a: "x", items: [1], n: null },
  bare: {},
  deep: { a: { b: [{ c: true }] } },
  rows: [
    { r: "u", n: 2, c: null },
    { r: "A", n: 1 },
    { r: "a", n: 3, c: { k: 5 } },
  ],
};
const names = [...Object.keys(variables), "missing"];

const filters = [
  "abs",
  "capitalize",
  "count",
  "length",
  "default('D')",
  "default('D', true)",
  "dictsort",
  "dictsort(by='value')",
  "dictsort(reverse=true)",
  "first",
  "float",
  "float(9)",
  "int",
  "int(9)",
  "items | list",
  "join",
  "join(', ')",
  "last",
  "list",
  "lower",
  "max",
  "min",
  "reverse | list",
  "sort",
  "sort(reverse=true)",
  "sort(case_sensitive=true)",
  "sort(attribute='n')",
  "string",
  "title",
  "tojson",
  "tojson(indent=2)",
  "tojson(indent=0)",
  "trim",
  "trim('ab ')",
  "tojson(ensure_ascii=true)",
  "tojson(sort_keys=true)",
  "tojson(separators=(',', ':'))",
  "unique | list",
  "upper",
  "unique(attribute='r') | list",
  "map('upper') | list",
  "map(attribute='n') | list",
  "select | list",
  "map(attribute='c.k', default='Z') | list",
  "reject('none') | list",
  "selectattr('c') | list",
  "selectattr('c', 'defined') | list",
  "selectattr('r', 'equalto', 'A') | list",
  "rejectattr('n', 'gt', 1) | list",
  "selectattr('c', 'none') | list | length",
  "replace('a', 'X')",
  "replace('l', 'L', 1)",
  "safe ~ '<'",
  "safe + '<'",
];
const indents = ["indent", "indent(2, true)", "indent(first=true, blank=true)"];
const methods = [
  "upper()",
  "lower()",
  "title()",
  "capitalize()",
  "strip()",
  "lstrip()",
  "rstrip()",
  "strip('\\n ')",
  "rstrip('c')",
  "lstrip('a,')",
  "split()",
  "split(',')",
  "split(',', 1)",
  "rsplit(',', 1)",
  "split(None, 1)",
  "rsplit(None, 1)",
  "splitlines()",
  "replace('l', 'L')",
  "replace('l', 'L', 1)",
  "startswith('a')",
  "endswith(('c', 'x'))",
  "find('l')",
  "rfind('l')",
  "count('l')",
  "isdigit()",
  "isalpha()",
  "isspace()",
  "isalnum()",
  "join(['1', '2'])",
  "removeprefix('a')",
  "removesuffix('c')",
  "items() | list",
  "keys() | list",
  "values() | list",
  "get('a')",
  "get('zz')",
  "get('zz', 3)",
  "copy()",
  "index(1)",
  "count(1)",
  "append(1)",
  "update({})",
  "pop()",
  "a",
  "b",
  "n",
  "items[0]",
];
const places = [
  "[0]",
  "[-1]",
  "[9]",
  "['a']",
  "['items']",
  "['upper']",
  "[1:]",
  "[:-1]",
  "[::-1]",
  "[::2]",
  "[-2:]",
  "[none]",
  "[true]",
  "[missing]",
  "[1.0]",
  "[5:1:-1]",
  "[:0]",
];
const tests = [
  "defined",
  "undefined",
  "none",
  "string",
  "number",
  "integer",
  "float",
  "boolean",
  "mapping",
  "sequence",
  "iterable",
  "callable",
  "true",
  "false",
  "odd",
  "even",
  "lower",
  "upper",
  "escaped",
  "not string",
];
const operands = [
  "commas",
  "number",
  "empty",
  "five",
  "minus",
  "half",
  "wide",
  "yes",
  "nothing",
  "list",
  "words",
  "hollow",
  "lists",
  "dict",
  "missing",
];
const operators = ["+", "-", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"];
const wrapped = [
  "-x",
  "+x",
  "not x",
  "x if x else 'no'",
  "(1 if x)",
  "x",
  "[x]",
  "{'k': x}",
  "(x, 1)",
  "x * 2",
  "x * yes",
];
const expressions = [
  "1.0",
  "10 // 3",
  "-10 // 3",
  "-10 % 3",
  "10 % -3",
  "7.5 // 2",
  "-7.5 % 2",
  "2 ** 10",
  "1 / 3",
  "10 / 2",
  "(1 < 2) == true",
  "(1 == 2) != (3 == 4)",
  "true + 1",
  "range(3) | list",
  "range(5, 1, -2) | list",
  "range(3)",
  "namespace(a=1).a",
  "dict(a=1)",
  "'a' 'b'",
  "{1: 2}[1]",
  "[1, 2] in [[1, 2]]",
  "'\\u2028\\x7f' | tojson",
  "['\\x7f\\n\\t\\\\\\'\\u00ad\\u2028']",
  "0.1 + 0.2",
  "123456789012345680.0",
  "-5 | abs",
  "none.x",
  "none['x']",
  "missing.x",
  "missing['x']",
  "missing()",
  "text()",
  "raise_exception('oops')",
  "missing == none",
  "loop",
];
const statements = [
  "{% for x in list %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }},{% endfor %}",
  "{% for x in list %}a{% if x == 1 %}b{% continue %}{% endif %}c{% endfor %}",
  "{% for x in list %}a{% if x == 1 %}b{% break %}{% endif %}c{% else %}E{% endfor %}",
  "{% for x in list %}{% continue %}{% else %}E{% endfor %}{% for x in missing %}{% else %}E{% endfor %}",
  "{% for x in nothing %}{% endfor %}",
  "{% for x in list %}{{ y is defined }}{% set y = x %}{{ y }}{% endfor %}{{ y is defined }}",
  "{% set y = 0 %}{% for x in list %}{% set y = y + x %}{{ y }} {% endfor %}{{ y }}",
  "{% set ns = namespace(a=0) %}{% for x in list %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}",
  "{% set dict.x = 1 %}",
  "{% macro m(a, b='B') %}{{ a }}{{ b }}{{ q }}{% endmacro %}{% for q in list %}{{ m(q) }}{% endfor %}{{ m(1, b=2) }}{{ m() }}",
  "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
  "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}",
  "{% macro m() %}[{{ caller(3) }}]{% endmacro %}{% call(x) m() %}in{{ x }}{% endcall %}",
  "{% set y = 5 %}{% macro m() %}{{ y }}{% endmacro %}{% set y = 6 %}{{ m() }}",
  "{% filter upper %}abc{{ commas }}{% endfilter %}{% set x | trim %} a{{ five }} {% endset %}[{{ x }}]",
  "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}",
  "{% set a, b = list %}",
  "{% for one in odd %}{{ one }}|{% endfor %}{% for k in dict %}{{ k }}{% endfor %}",
  "{% for x in rows if x.c %}{{ loop.index }}{{ loop.length }}{{ x.r }}{% endfor %}",
  "{% set g = rows | selectattr('n', 'gt', 1) %}{{ g | list | length }}{{ g | list | length }}{% if g %}y{% endif %}",
  "  {% if true %}\n  x\n  {% endif %}\ny",
  "a\r\n{% if true %}\r\nb{% endif %}\r\n",
  "{%- if true -%}  x  {%- endif %}  y a {#- c -#} b\n  {# c #}\nd\n\n",
  "  {-x-}\n{{ five }}\n",
  "{% generation %}x{% endgeneration %}\ny",
  "{% for x in list %}{% for y in list %}{{ loop.index }}{% endfor %}{{ loop.cycle('a', 'b') }}{{ loop.revindex0 }}{% endfor %}",
  "{{ deep.a.b[0].c }}{{ deep['a']['b'][0]['c'] }}{{ dict['items'] }}",
  "{% if 'a' in commas and 'z' not in commas %}y{% elif true %}n{% endif %}{{ messages is defined }}",
];

/**
 * Each of some with each of the others; where not all slower tests run, with a quarter of them, so that each has its turns: that
 * many templates take transformers half a minute.
 */
const across = <A, B>(some: readonly A[], others: readonly B[], template: (one: A, other: B) => string): string[] =>
  some.flatMap((one, i) =>
    others.filter((_, j) => process.env.TEST_FULL || (i + j) % 4 === 0).map((other) => template(one, other)),
  );

const groups: Readonly<Record<string, readonly string[]>> = {
  filters: [
    ...across(names, filters, (name, filter) => `{{ ${name} | ${filter} }}`),
    ...names.map((name) => `{{ '%s, 100%%' | format(${name}) }}`),
    ...["format", "format()", "format(1, 2)", "format(1)"].map((filter) => `{{ '%s%%' | ${filter} }}`),
    // Jinja appends to a list that it is to indent.
    ...names
      .filter((name) => !Array.isArray(variables[name as keyof typeof variables]))
      .flatMap((name) => indents.map((filter) => `{{ ${name} | ${filter} }}`)),
  ],
  "attributes and items": [
    ...across(names, methods, (name, method) => `{{ ${name}.${method} }}`),
    ...across(names, places, (name, place) => `{{ ${name}${place} }}`),
  ],
  tests: across(names, tests, (name, test) => `{{ ${name} is ${test} }}`),
  operators: across(
    operands.flatMap((a) => operands.map((b) => [a, b] as const)),
    operators,
    ([a, b], operator) => `{{ ${a} ${operator} ${b} }}`,
  ),
  "values in their places": across(names, wrapped, (name, one) => `{{ ${one.replace(/\bx\b/g, name)} }}`),
  expressions: expressions.map((one) => `{{ ${one} }}`),
  statements,
};

let theirs: ReadonlyMap<string, string | null>;
beforeAll(async () => {
  const sources = Object.values(groups).flat();
  const rendered = transformers(
    await ensureLearnerPython(),
    sources.map((source) => ({ source, variables })),
  );
  theirs = new Map(sources.map((source, index) => [source, rendered[index] ?? null]));
});

describe.each(Object.entries(groups))("%s", (_, sources) => {
  it("are rendered as in transformers, or refused", () => {
    let same = 0;
    for (const source of sources) {
      const [expected, found] = [theirs.get(source), ours({ source, variables })];
      if ("text" in found) {
        expect([source, found.text]).toEqual([source, expected]);
        same++;
      } else if (expected !== null) expect([source, found]).toEqual([source, { ...found, unsupported: true }]);
    }
    expect(same).toBeGreaterThan(sources.length / 4);
  });
});

describe("what hone lacks is refused by its name", () => {
  it.each([
    ["{{ five | round }}", "it uses the filter round, which hone does not render"],
    ["{{ rows | groupby('r') }}", "it uses the filter groupby, which hone does not render"],
    ["{{ '%d' | format(five) }}", "it uses %d in the filter format, which hone does not render"],
    ["{{ text.format(1) }}", "it uses the method format of a text, which hone does not render"],
    ["{{ '%s' % five }}", "it uses the formatting of a text by %, which hone does not render"],
    ["{{ 1 < five < 9 }}", "it uses a chain of comparisons, which hone does not render"],
    ["{{ list | map('upper') }}", "it uses the text of a generator, which hone does not render"],
    ["{{ range(3)[1] }}", "it uses an item of a range, which hone does not render"],
    ["{{ cycler('a') }}", "it uses cycler, which hone does not render"],
    ["{% macro m() %}{{ varargs }}{% endmacro %}{{ m() }}", "it uses varargs of a macro, which hone does not render"],
  ])("%s", (source, refused) => {
    expect(ours({ source, variables })).toEqual({ refused, unsupported: true });
  });
});
