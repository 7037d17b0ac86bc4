// The grids of GPUs by instruction sets with the last results, and what is said about each failure.
import { byId, count, data, make, named, repository, walking } from "./elements.mjs";
import { dayOf } from "./runs.mjs";

const SIGNS = { failed: "✗", cancelled: "○", running: "…", never: "–", passed: "✓" }; // the worst first

/** The failures of a variant up to now: the first and the last, and the result that passed before; null if it passes. */
export function failingOf({ results }) {
  if (results[0]?.result !== "failed") return null;
  const before = results.findIndex(({ result }) => result === "passed");
  const failed = (before < 0 ? results : results.slice(0, before)).filter(({ result }) => result === "failed");
  return { first: failed.at(-1), last: failed[0], good: results[before] ?? null };
}

const commitOf = ({ commit }) =>
  commit && repository ? make("a", { href: `${repository}/commit/${commit}`, class: "mono", text: commit }) : commit;

/** `since COMMIT, 21 November 2026; COMMIT passed`, with links. */
function sinceOf({ first, good }) {
  const since = [good ? "since " : "in all known results, since ", commitOf(first), first.commit && ", ", dayOf(first.started)];
  return good?.commit ? [...since, "; ", commitOf(good), " passed"] : since;
}

/** How many of a variant's neighbours fail, which differ from it in one axis alone. */
function neighboursOf(variant, variants) {
  const same = (one, axis) => one[axis] === variant[axis];
  const found = (other, own, text) => {
    const near = variants.filter(
      (one) => !same(one, other) && [own, "branch", "package", "toolkit", "python"].every((axis) => same(one, axis)),
    );
    const failed = near.filter(({ last }) => last === "failed").length;
    return near.length ? `${failed} of ${near.length} ${text}` : "";
  };
  const [gpu, isa] = [variant.gpu, variant.isa].map((name) => (name && name !== "cpu" ? ` with ${name}` : ""));
  const both = [found("isa", "gpu", `on other CPUs${gpu}`), found("gpu", "isa", `on other GPUs${isa}`)];
  return both.some(Boolean) ? `Also failing: ${both.filter(Boolean).join(", ")}.` : "";
}

/** What is said about a failure: since when, whether its neighbours fail, and where to reproduce it. */
export function failureOf(variant, variants, address) {
  const { first, last, good } = variant.failing;
  const run = address(last);
  return [
    make("p", {}, make("strong", { class: "doubt", text: "fails" }), " ", ...sinceOf({ first, good })),
    make("p", { class: "quiet", text: neighboursOf(variant, variants) }),
    make(
      "p",
      {},
      make("a", { href: data.guide, text: "Reproduce it" }),
      ...(run ? [" with the commands at the end of ", make("a", { href: run, text: "its run" })] : []),
    ),
  ];
}

/** What a morning begins with: how many variants fail, since when, and how many do so no longer. */
export function headline(variants) {
  const failing = variants.filter((one) => one.failing);
  const again = variants.filter(({ results: [last, before] }) => last?.result === "passed" && before?.result === "failed");
  const oldest = Math.min(...failing.map((one) => one.failing.first.started));
  const verb = failing.length === 1 ? "fails" : "fail";
  const first = failing.length ? `${count(failing.length, "variant")} ${verb}, the first since ${dayOf(oldest)}` : "No variant fails";
  return `${first}${again.length ? `; ${again.length} that failed before ${again.length === 1 ? "passes" : "pass"} again` : ""}.`;
}

/** The grids, one for each branch: the oldest failure comes first among the branches, and among the GPUs of one. */
export function drawResults(variants, openCell) {
  const age = (ones) => Math.min(...ones.map(({ failing }) => failing?.first.started ?? Infinity));
  const byAge = (groups) => [...groups].map((one) => [one, age(one[1])]).sort((a, b) => (a[1] === b[1] ? 0 : a[1] - b[1]));
  const grouped = (ones, key) => Map.groupBy?.(ones, key) ?? ones.reduce((all, one) => all.set(key(one), [...(all.get(key(one)) ?? []), one]), new Map());
  const panels = byAge(grouped(variants, ({ branch }) => branch)).map(([[branch, own]]) => {
    const isas = [...new Set(own.map(({ isa }) => isa))].sort((a, b) => data.isas.indexOf(a) - data.isas.indexOf(b));
    const rows = byAge(grouped(own, ({ gpu }) => gpu)).map(([[gpu, ones]]) => {
      const cells = isas.map((isa) => {
        const here = ones.filter((one) => one.isa === isa);
        return make("td", { role: "gridcell" }, here.length ? buttonOf(`${gpu} ${isa} on ${branch}`, here, openCell) : null);
      });
      return make("tr", { role: "row" }, make("th", { scope: "row", text: gpu || "any" }), cells);
    });
    const heads = isas.map((isa) => make("th", { scope: "col" }, make("span", { text: isa || "any" })));
    const label = { class: "grid", role: "grid", "aria-label": `Last results on ${branch}` };
    const table = make("table", label, make("thead", {}, make("tr", {}, make("td"), heads)), make("tbody", {}, rows));
    walking(table);
    return make("section", { class: "panel" }, make("h2", { class: "mono", text: branch }), table);
  });
  byId("grids").replaceChildren(...panels);
  const keys = Object.entries(SIGNS).map(([state, sign]) => {
    const sample = make("span", { class: `cell ${state}`, "aria-hidden": "true", text: sign });
    return make("li", {}, sample, state === "never" ? "never built" : state);
  });
  byId("signs").replaceChildren(...keys);
}

/** The button of a cell: the sign and colour of its worst last result, and in words how many of its variants have it. */
function buttonOf(title, here, openCell) {
  const worst = Object.keys(SIGNS).find((state) => here.some(({ last }) => last === state));
  const number = here.filter(({ last }) => last === worst).length;
  const oldest = here.filter(({ failing }) => failing).sort((a, b) => a.failing.first.started - b.failing.first.started)[0];
  const since = oldest ? `, since ${dayOf(oldest.failing.first.started)}` : "";
  const label = `${title}: ${number} of ${count(here.length, "variant")} ${worst === "never" ? "never built" : worst}${since}`;
  const button = make("button", { type: "button", class: `cell ${worst}`, "aria-label": label, title: label, text: SIGNS[worst] });
  button.addEventListener("click", () => openCell(title, here));
  return button;
}

/** The rows of a cell's dialog: each variant with its last result, those that fail first. */
export function cellRows(here, variants, address) {
  const ordered = [...here].sort((a, b) => Boolean(b.failing) - Boolean(a.failing));
  return ordered.map((one) => {
    const said = one.failing ? failureOf(one, variants, address) : [one.last === "never" ? "never built" : one.last];
    return make("tr", {}, make("th", { scope: "row", class: "mono" }, named(one.name)), make("td", {}, ...said));
  });
}
