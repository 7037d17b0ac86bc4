// The page of results over time: a row for each variant, which filters hide, and its results in a dialog.
import { byId, data, make, named, repository } from "./elements.mjs";
import { cellRows, drawResults, failingOf, failureOf, headline } from "./failures.mjs";
import { dayOf, expectationsOf, runOf, toneOf, unbroken } from "./runs.mjs";
import { offerThemes } from "./theme.mjs";
import { chart, durations, inWords, lasting, percentile } from "./trend.mjs";

const NEVER = "never";
const RESULTS = ["failed", "cancelled", "running", "passed", NEVER];

/** The results of a variant, the newest first: one object for each entry of its columns. */
function resultsOf(row) {
  return row.run.map((at, index) => {
    const letters = data.stages.map((_, stage) => row.ends[index * data.stages.length + stage]);
    const ran = data.stages.map((stage, number) => [stage, data.ends[letters[number]]]);
    return {
      number: data.runs.id[at],
      started: data.runs.started[at] * 1000,
      commit: data.runs.commit[at],
      result: data.results[row.result[index]],
      stages: Object.fromEntries(ran.filter(([, end]) => end)),
      built: !letters.includes("n"),
      total: Object.values(row.seconds).reduce((sum, seconds) => sum + seconds[index], 0),
      waited: row.waited[index],
      benchmark: unbroken(row.benchmarks?.[data.runs.id[at]] ?? ""),
    };
  });
}

const address = (one) => (repository ? `${repository}/actions/runs/${one.number}` : "");

// What a cell of the table shows.

function lastResult(variant) {
  const [last] = variant.results;
  if (!last) return make("span", { class: "quiet", text: "never built" });
  const day = dayOf(last.started);
  const where = address(last);
  return [
    make("strong", { class: toneOf(last.result) || false, text: last.result }),
    " ",
    where ? make("a", { href: where, text: day }) : make("span", { class: "quiet", text: day }),
    variant.failing ? make("p", { class: "quiet", text: `since ${dayOf(variant.failing.first.started)}` }) : null,
    ...expectationsOf(variant, variant.package).map((one) => make("p", { class: "expected" }, one)),
  ];
}

/** The button with the chart, which opens the results. */
function trendOf(variant) {
  if (!variant.results.length) return null;
  const label = `Results of ${variant.name} on ${variant.branch}: ${inWords(variant.results)}`;
  const button = make("button", { type: "button", class: "open", "aria-label": label, title: inWords(variant.results) });
  button.append(chart(variant.results));
  button.addEventListener("click", () => open(variant));
  return button;
}

const lastBenchmark = ({ results }) => results.find(({ benchmark }) => benchmark)?.benchmark ?? null;

const COLUMNS = [
  ["Branch", ({ branch }) => branch],
  ["GPU", ({ gpu }) => gpu],
  ["CPU", ({ isa }) => isa],
  ["Last result", lastResult, "result"],
  ["Duration", ({ results }) => (results[0]?.total ? lasting(results[0].total) : null), "number"],
  ["Trend", trendOf],
  ["Benchmark", lastBenchmark, "benchmark"],
  [`Cost in ${data.currency}`, ({ cost }) => cost, "number"],
];

const variants = data.variants.map((row) => {
  const variant = { ...row, results: resultsOf(row) };
  variant.failing = failingOf(variant);
  const words = [row.name, row.branch, row.package, row.gpu, row.isa, row.toolkit && `${row.family} ${row.toolkit}`].join(" ");
  const times = durations(variant.results);
  return {
    ...variant,
    words: words.toLowerCase(),
    last: variant.results[0]?.result ?? NEVER,
    median: times.length ? percentile(times, 0.5) : 0,
    failures: variant.results.filter(({ result }) => result === "failed").length,
  };
});

const SHOWN = COLUMNS.filter(([head]) => {
  if (head === "Benchmark") return variants.some((variant) => lastBenchmark(variant));
  return head.startsWith("Cost") ? data.currency : true;
});

const ORDERS = {
  spec: ["as in the spec", () => 0],
  slow: ["slowest at the median first", (one, other) => other.median - one.median],
  failed: ["most failures first", (one, other) => other.failures - one.failures],
  old: ["oldest result first", (one, other) => (one.results[0]?.started ?? 0) - (other.results[0]?.started ?? 0)],
};

// The table.

function rowOf(variant) {
  const cells = SHOWN.map(([head, shown, kind]) => {
    const found = shown(variant);
    return make("td", { role: "cell", "data-head": head, class: kind ?? false }, ...[found ?? []].flat());
  });
  return make("tr", { role: "row" }, make("th", { role: "rowheader", scope: "row" }, named(variant.name)), cells);
}

function drawTable() {
  const heads = ["Variant", ...SHOWN.map(([head]) => head)];
  const row = make("tr", { role: "row" });
  row.append(...heads.map((text) => make("th", { role: "columnheader", scope: "col", text })));
  byId("variants").querySelector("thead").replaceChildren(row);
  for (const variant of variants) variant.row = rowOf(variant);
}

/** Shows the rows that the filters match, in the chosen order, and says how many there are. */
function show() {
  const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [result, order] = [byId("result").value, byId("order").value];
  const shown = variants
    .filter((one) => words.every((word) => one.words.includes(word)) && (!result || one.last === result))
    .sort(ORDERS[order][1]);
  byId("variants").querySelector("tbody").replaceChildren(...shown.map(({ row }) => row));
  const states = RESULTS.map((state) => [shown.filter(({ last }) => last === state).length, state]);
  const said = states.filter(([number]) => number).map(([number, state]) => `${number} ${state === NEVER ? "never built" : state}`);
  const of = shown.length === variants.length ? "" : ` of ${variants.length.toLocaleString("en")}`;
  byId("count").textContent = `${shown.length.toLocaleString("en")}${of} variants${said.length ? `: ${said.join(", ")}` : ""}`;
  if (words.length || result || order !== "spec") byId("all").open = true;
  remember(words, result, order);
}

// The filters are part of the address, so that the page can be shared.

function remember(words, result, order) {
  const chosen = { words: words.join(" "), result, order: order === "spec" ? "" : order };
  const given = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value)).toString();
  history.replaceState(null, "", given ? `#${given}` : location.pathname + location.search);
}

function takeFilters() {
  const given = new URLSearchParams(location.hash.slice(1));
  byId("words").value = given.get("words") ?? "";
  byId("result").value = RESULTS.includes(given.get("result")) ? given.get("result") : "";
  byId("order").value = Object.hasOwn(ORDERS, given.get("order")) ? given.get("order") : "spec";
}

// The results of a variant.

function open(variant) {
  const results = variant.results.map((one) => {
    const state = make("strong", { class: toneOf(one.result) || false, text: one.result });
    const took = one.total ? make("p", { text: `${lasting(one.total)}, and ${lasting(one.waited)} in the queue` }) : null;
    const extra = one.benchmark ? make("p", { class: "quiet", text: one.benchmark }) : null;
    const run = make("p", {}, ...runOf({ stages: one.stages, run: address(one), started: one.started }));
    return make("tr", {}, make("td", { class: "result" }, state), make("td", {}, run, took, extra));
  });
  const failure = variant.failing ? failureOf(variant, variants, address) : [];
  openDialog(named(variant.name), `${variant.branch}: ${inWords(variant.results)}`, failure, ["Result", "Stages and durations"], results);
}

/** The variants of a cell of the grids. */
const openCell = (title, here) => openDialog(title, "", [], ["Variant", "Last result"], cellRows(here, variants, address));

function openDialog(name, text, more, heads, rows) {
  const close = make("button", { type: "button", text: "Close", onclick: () => byId("opened").close() });
  const about = text ? make("p", { class: "quiet", text }) : null;
  const title = make("h2", { class: "name", id: "opened-title" }, name);
  const body = make("div", { class: "opened" });
  const head = heads.map((one) => make("th", { scope: "col", text: one }));
  body.append(
    make("div", { class: "title" }, make("div", {}, title, about, ...more), close),
    make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)),
  );
  byId("opened").replaceChildren(body);
  byId("opened").showModal();
}

function fillChoices() {
  const choice = ([value, text]) => make("option", { value, text });
  const states = RESULTS.map((state) => [state, state === NEVER ? "never built" : state]);
  byId("result").append(...[["", "any"], ...states].map(choice));
  byId("order").append(...Object.entries(ORDERS).map(([name, [text]]) => choice([name, text])));
}

offerThemes();
fillChoices();
byId("headline").textContent = headline(variants);
drawResults(variants, openCell);
drawTable();
takeFilters();
show();
if (repository) byId("source").append(" ", make("a", { href: repository, text: "Repository" }));
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", show);
byId("opened").addEventListener("click", (event) => {
  if (event.target === byId("opened")) byId("opened").close();
});
addEventListener("hashchange", () => {
  takeFilters();
  show();
});
