// GitHub's own expressions: [{expression, contexts, condition}] in, [{value} or {error}] out.
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";
import { ensureStatusFunction } from "@actions/workflow-parser/model/converter/if-condition";
import { answer } from "./stdio.mjs";

const STATUS = "status()"; // no context can have this name

/** The state that the status functions ask for: the one given, else what the results of `needs` come to. */
function statusOf(contexts) {
  if (STATUS in contexts) return contexts[STATUS];
  const results = Object.values(contexts.needs ?? {}).map(({ result }) => result);
  if (results.includes("failure")) return "failure";
  return results.every((result) => result === "success") ? "success" : "skipped";
}

function statusFunctions(contexts) {
  const status = statusOf(contexts);
  const states = { success: status === "success", failure: status === "failure", cancelled: status === "cancelled" };
  return Object.entries({ ...states, always: true }).map(([name, holds]) => {
    return { name, minArgs: 0, maxArgs: 0, call: () => new data.BooleanData(holds) };
  });
}

/** The text between `${{` and `}}` where these stand around the whole; more than one expression is no expression. */
function inner(text) {
  const marked = /^\$\{\{([^]*)\}\}$/.exec(text.trim());
  const bare = marked ? marked[1] : text;
  if (bare.includes("${{")) throw new Error("text and ${{ }} mixed: no single expression");
  return bare.trim();
}

const trees = new Map();

/** The tree of an expression where the contexts `names` exist; each is parsed once. */
function parsed(expression, condition, names, functions) {
  const key = JSON.stringify([expression, condition, names]);
  if (!trees.has(key)) {
    let text = inner(expression);
    if (condition) {
      const allowedContext = [...names, ...functions.map(({ name }) => `${name}(0,0)`)];
      text = text ? ensureStatusFunction(text, { allowedContext }) : "success()";
    }
    trees.set(key, new Parser(new Lexer(text).lex().tokens, names, functions).parse());
  }
  return trees.get(key);
}

function valueOf({ expression, contexts, condition }) {
  const { [STATUS]: _, ...named } = contexts;
  const names = Object.keys(named);
  const functions = statusFunctions(contexts);
  const tree = parsed(expression, condition, names, functions);
  const values = JSON.parse(JSON.stringify(named), data.reviver);
  const result = new Evaluator(tree, values, new Map(functions.map((f) => [f.name, f]))).evaluate();
  const value = JSON.parse(JSON.stringify(result, data.replacer));
  return condition ? Boolean(value) : value; // GitHub's falsy values are JavaScript's: false, 0, '', null
}

answer((cases) =>
  cases.map((one) => {
    try {
      return { value: valueOf(one) };
    } catch (error) {
      return { error: error.message };
    }
  }),
);
