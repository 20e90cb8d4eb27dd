/** The syntax tree that @huggingface/jinja parses a template to, as far as its package does not export its types. */
import type { parse, tokenize } from "@huggingface/jinja";

type Node<Type extends string, Fields = unknown> = { readonly type: Type } & Readonly<Fields>;

export type Name = Node<"Identifier", { value: string }>;
type NamedArgument = Node<"KeywordArgumentExpression", { key: Name; value: Expression }>;
export type Parameter = Name | NamedArgument;
export type Argument =
  | Expression
  | NamedArgument
  | Node<"SpreadExpression", { argument: Expression }>
  | Node<"KeywordSpreadExpression", { argument: Expression }>;

export type Call = Node<"CallExpression", { callee: Expression; args: readonly Argument[] }>;
type Slice = Node<"SliceExpression", { start?: Expression; stop?: Expression; step?: Expression }>;
/** `computed`: whether it is written in brackets. */
export type Member = Node<"MemberExpression", { object: Expression; property: Expression | Slice; computed: boolean }>;
export type TupleOf = Node<"TupleLiteral", { value: readonly Expression[] }>;

export type Expression =
  | Node<"IntegerLiteral" | "FloatLiteral", { value: number }>
  | Node<"StringLiteral", { value: string }>
  | Node<"ArrayLiteral", { value: readonly Expression[] }>
  | Node<"ObjectLiteral", { value: ReadonlyMap<Expression, Expression> }>
  | Node<"UnaryExpression", { operator: { readonly value: string }; argument: Expression }>
  | Node<"BinaryExpression", { operator: { readonly value: string }; left: Expression; right: Expression }>
  | Node<"TestExpression", { operand: Expression; negate: boolean; test: Name }>
  | Node<"FilterExpression", { operand: Expression; filter: Name | Call }>
  | Node<"SelectExpression", { lhs: Expression; test: Expression }>
  | Node<"Ternary", { condition: Expression; trueExpr: Expression; falseExpr: Expression }>
  | TupleOf
  | Name
  | Call
  | Member;

/** `defaultBlock` is its `else`. */
export type ForLoop = Node<"For", { loopvar: Name | TupleOf; iterable: Expression; body: Body; defaultBlock: Body }>;
/** `value` null: the text of the body is assigned. */
export type Assignment = Node<"Set", { assignee: Expression; value: Expression | null; body: Body }>;
export type MacroOf = Node<"Macro", { name: Name; args: readonly Parameter[]; body: Body }>;
type CallBlock = Node<"CallStatement", { call: Call; callerArgs: readonly Parameter[] | null; body: Body }>;

export type Statement =
  | Node<"Comment" | "Break" | "Continue">
  | Node<"If", { test: Expression; body: Body; alternate: Body }>
  | Node<"FilterStatement", { filter: Name | Call; body: Body }>
  | ForLoop
  | Assignment
  | MacroOf
  | CallBlock
  | Expression;

export type Body = readonly Statement[];

export const bodyOf = (program: ReturnType<typeof parse>): Body => program.body;

/** Words that end one operand of `and`, `or` and their kind, and begin another. */
const BETWEEN = ["and", "or", "not", "if", "elif", "else"];

/** Whether comparisons follow each other without brackets, as in `a < b < c`. */
export function hasChains(tokens: ReturnType<typeof tokenize>): boolean {
  /** Whether there was a comparison already, in each bracket that is open. */
  let open = [false];
  for (const [index, { type, value }] of tokens.entries()) {
    const before = tokens[index - 1];
    const isWord = type === "Identifier" && before?.type !== "Dot";
    if (/^Open(Statement|Expression)$/.test(type)) open = [false];
    else if (type.startsWith("Open")) open.push(false);
    else if (type.startsWith("Close")) open.pop();
    else if (type === "ComparisonBinaryOperator" || (isWord && value === "in")) {
      if (open.at(-1)) return true;
      open[open.length - 1] = true;
    } else if (["Comma", "Colon", "Equals"].includes(type) || (isWord && BETWEEN.includes(value))) {
      const isNotIn = value === "not" && tokens[index + 1]?.value === "in";
      if (!isNotIn) open[open.length - 1] = false;
    }
  }
  return false;
}
