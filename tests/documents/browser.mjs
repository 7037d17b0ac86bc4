// A browser for Python: one JSON command a line on standard input, one JSON answer a line on standard output.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { chromium } = createRequire(new URL("../checkers/package.json", import.meta.url))("playwright-core");
const [executablePath, ...args] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args });
let page = null;
let seen = { console: [], requests: [] };

const commands = {
  /** A new page at `url`, alone in its context, with what it says and asks for on record. */
  async open({ url, width, height, scheme, touch }) {
    await page?.context().close();
    seen = { console: [], requests: [] };
    const viewport = { width, height };
    const context = await browser.newContext({ viewport, colorScheme: scheme, hasTouch: touch, isMobile: touch });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    page = await context.newPage();
    page.setDefaultTimeout(10_000);
    page.on("console", (message) => seen.console.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => seen.console.push(`uncaught: ${error.message}`));
    page.on("request", (request) => seen.requests.push(request.url()));
    await page.goto(url);
  },
  call: ({ method, given }) => page[method](...given),
  key: ({ method, given }) => page.keyboard[method](...given),
  seen: () => seen,
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command.do](command)) ?? null };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
