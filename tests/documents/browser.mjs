// A browser for Python: one JSON command a line on standard input, one JSON answer a line on standard output.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { chromium } = createRequire(new URL("../checkers/package.json", import.meta.url))("playwright-core");
const [executablePath, ...args] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args, timeout: 600_000 });
let page = null;
let touched = null;
let seen = { console: [], requests: [] };

/** A page of a new context, which takes a process of its own and most of the time of a test. */
async function newPage(viewport, touch) {
  await page?.context().close();
  const context = await browser.newContext({ viewport, hasTouch: touch, isMobile: touch });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  page = await context.newPage();
  page.setDefaultTimeout(600_000);
  page.on("console", (message) => seen.console.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => seen.console.push(`uncaught: ${error.message}`));
  page.on("request", (request) => seen.requests.push(request.url()));
  touched = touch;
}

const commands = {
  /** A fresh document at `url` in an empty storage, with what it says and asks for on record. */
  async open({ url, width, height, scheme, touch }) {
    if (touch === touched) {
      await page.evaluate(() => location.protocol === "about:" || localStorage.clear());
      await page.goto("about:blank");
      await page.setViewportSize({ width, height });
    } else await newPage({ width, height }, touch);
    await page.emulateMedia({ colorScheme: scheme });
    seen = { console: [], requests: [] };
    await page.goto(url);
  },
  call: ({ method, given }) => page[method](...given),
  key: ({ method, given }) => page.keyboard[method](...given),
  seen: () => seen,
  async seconds() {
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    const { metrics } = await session.send("Performance.getMetrics");
    await session.detach();
    return metrics.find(({ name }) => name === "ProcessTime").value;
  },
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
