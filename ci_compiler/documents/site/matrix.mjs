// The matrix: one grid per branch. Arrow keys move the focus, filters dim cells, and the answer highlights cells.
import { openCell, openLeftOut } from "./cell.mjs";
import { byId, count, data, make, walking } from "./elements.mjs";
import { hasFailed } from "./runs.mjs";

const buttons = []; // {element, cell, words}
const pythonShown = () => byId("shown-python").value;

/** How a cell is tested: `full` on the hardware that it is built for, `part` on a CPU only, or `none`. */
function reach(cell) {
  if (cell.tested.includes(cell.target === "cpu" ? "cpu-test" : "gpu-test")) return "full";
  return cell.tested.length ? "part" : "none";
}

const REACH = { full: "tested", part: "tested on a CPU only", none: "not tested" };

const tested = (cell) => REACH[reach(cell)] + (hasFailed(cell) ? ", failed when it was last built" : "");

export function drawGrids() {
  buttons.length = 0;
  const isas = Object.keys(data.isas).filter((isa) => data.cells.some((cell) => cell.isa === isa));
  byId("grids").replaceChildren(...data.branch_order.flatMap((branch) => panels(branch, isas)));
}

/** The panel of a branch, or one for each toolkit of a branch that has several, and one for what needs none. */
function panels(branch, isas) {
  const { toolkits } = data.branches[branch];
  if (toolkits.length < 2) return [panel(branch, isas, toolkits, () => true)];
  return [...toolkits, ""].map((toolkit) => panel(branch, isas, [toolkit], (one) => one.toolkit === toolkit));
}

function panel(branch, isas, toolkits, here) {
  const own = (one) => one.branch === branch && here(one);
  const cells = data.cells.filter(
    (cell) => own(cell) && (cell.listed || [pythonShown(), cell.axes ? "" : pythonShown()].includes(cell.python)),
  );
  const out = data.left_out.filter((one) => own(one) && ["", pythonShown()].includes(one.python));
  const variants = cells.reduce((sum, cell) => sum + cell.packages.length, 0);
  const short = (one) => !one.listed && !isOpen(one);
  const at = new Map([...out, ...cells].filter(short).map((one) => [`${one.target} ${one.isa}`, one]));
  const about = [
    ...toolkits.map((toolkit) => (toolkit ? `${data.family.toolkit} ${toolkit}` : "CPU")),
    ...Object.entries(data.branches[branch].versions).map((pair) => pair.join(" ")),
  ].join(" · ");
  const listed = cells.filter((cell) => cell.listed);
  const body = [
    ...(at.size ? data.axis.map((gpu) => row(gpu, isas, (isa) => at.get(`${gpu} ${isa}`))) : []),
    ...openRows([...out, ...cells].filter(isOpen), isas),
    ...listed.map((cell) => row(cell.listed, isas, (isa) => (isa === cell.isa ? cell : undefined))),
  ];
  const table = make(
    "table",
    { class: "grid", role: "grid", "aria-label": `Variants on ${branch}` },
    heads(isas),
    make("tbody", {}, body),
  );
  walking(table);
  const title = make("h3", {}, make("span", { class: "mono", text: branch }));
  return make(
    "section",
    { class: "panel" },
    title,
    make("p", { text: about }),
    make("p", { text: `${count(variants, "variant")} in ${count(cells.length, "cell")}` }),
    table,
  );
}

const isOpen = (one) => Boolean("suffix" in one ? one.axes : one.opened);

/** A row for all cells of open matrices that differ only in what divides the columns: the platform or the ISA. */
function openRows(ones, isas) {
  const rows = new Map();
  for (const one of ones) {
    const apart = Object.entries(one.axes).filter(
      ([axis]) => axis !== "branch" && axis !== "isa" && (axis !== "platform" || one.axes.isa),
    );
    const label = apart.map(([, value]) => value).join(" ") || "any";
    rows.set(label, (rows.get(label) ?? new Map()).set(one.isa, one));
  }
  return [...rows].map(([label, at]) => row(label, isas, (isa) => at.get(isa)));
}

/** Whether there is a gap before an instruction set, because it belongs to another system than the previous one. */
const apart = (isas, at) => at > 0 && data.isas[isas[at]].system !== data.isas[isas[at - 1]].system;

function heads(isas) {
  const cells = isas.flatMap((isa, at) => [
    apart(isas, at) ? make("td", { class: "gap" }) : null,
    make("th", { scope: "col", title: `${data.isas[isa].title}: ${data.isas[isa].cpus}` }, make("span", { text: isa })),
  ]);
  return make("thead", {}, make("tr", {}, make("td"), cells));
}

function row(gpu, isas, cellOf) {
  const about = data.gpus[gpu] ? `${data.gpus[gpu].architecture}: ${data.gpus[gpu].summary}` : "no GPU";
  const cells = isas.flatMap((isa, at) => [
    apart(isas, at) ? make("td", { class: "gap" }) : null,
    make("td", { role: "gridcell" }, drawn(cellOf(isa))),
  ]);
  return make("tr", { role: "row" }, make("th", { scope: "row", title: about, text: gpu }), cells);
}

/** The button of a cell: the fill shows how it is tested, a dot that it is left out. Null if it is not selected. */
function drawn(cell) {
  if (!cell) return null;
  const held = "suffix" in cell;
  const what = isOpen(cell) ? Object.values(cell.axes).slice(1).join(" ") : `${cell.target} ${cell.isa}`;
  const says = `${what} on ${cell.branch}: ${held ? tested(cell) : `left out, ${cell.reason}`}`;
  const element = make("button", {
    type: "button",
    class: `cell ${held ? reach(cell) : "out"}${held && hasFailed(cell) ? " failed" : ""}`,
    title: says,
    "aria-label": says,
  });
  element.addEventListener("click", () => (held ? openCell(cell) : openLeftOut(cell)));
  if (held) buttons.push({ element, cell, words: wordsOf(cell) });
  else buttons.push({ element, cell: null, words: `${what} ${cell.branch}`.toLowerCase() });
  return element;
}

function wordsOf(cell) {
  const { summary = "", architecture = "" } = data.gpus[cell.target] ?? {};
  const pools = Object.values(data.routes[cell.route]).filter((where) => !where.skipped);
  const words = [
    cell.suffix,
    cell.branch,
    cell.toolkit,
    cell.target,
    summary,
    architecture,
    ...cell.packages,
    ...pools,
  ];
  return words.join(" ").toLowerCase();
}

/** Dims the cells that no filter matches, and marks those that the machine runs (`answer`: {best, running} or null). */
export function filter(answer) {
  const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const system = byId("system").value;
  const tested = byId("tested").value;
  const mine = byId("mine").checked && answer !== null;
  document.body.classList.toggle("filtered", Boolean(words.length || system || tested));
  let cells = 0;
  let variants = 0;
  for (const { element, cell, words: own } of buttons) {
    const runs = cell !== null && answer !== null && answer.running.has(data.cells.indexOf(cell));
    const best = runs && answer.best !== null && data.cells[answer.best.at] === cell;
    element.classList.toggle("runs", runs && !best);
    element.classList.toggle("best", best);
    const matches =
      words.every((word) => own.includes(word)) &&
      (!system || (cell !== null && data.isas[cell.isa].system === system)) &&
      (!tested || (cell !== null && reach(cell) === tested)) &&
      (!mine || runs);
    element.classList.toggle("dim", !matches);
    if (matches && cell) {
      cells += 1;
      variants += cell.packages.length;
    }
  }
  const all = buttons.filter(({ cell }) => cell !== null);
  const total = all.reduce((sum, { cell }) => sum + cell.packages.length, 0);
  byId("count").textContent =
    cells === all.length
      ? `${count(cells, "cell")}, ${count(total, "variant")}`
      : `${cells} of ${count(all.length, "cell")}, ${variants} of ${count(total, "variant")}`;
}
