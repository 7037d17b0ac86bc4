// The dialog for a cell of the matrix: versions, recipes, pools and how to build it, or why it is left out.
import { byId, command, copying, data, link, make, named, repository, sentence } from "./elements.mjs";
import { dnnOf, installOf, offerOf, proofOf, withoutOf } from "./finder.mjs";
import { expectationsOf, gainOf, lastOf, resultOf, runOf } from "./runs.mjs";

/** Links to the software bills of materials of packages of a cell, as far as a release has them; null for none. */
export function sbomsOf(cell, packages) {
  const tags = Object.entries(cell.sboms ?? {}).filter(([name]) => repository && packages.includes(name));
  const links = tags.flatMap(([name, tag], at) => {
    const file = `${offerOf(data, data.cells.indexOf(cell), name).name}.cdx.json`;
    const href = `${repository}/releases/download/${encodeURIComponent(tag)}/${file}`;
    return [at ? ", " : "", make("a", { href, text: data.packages[name].title })];
  });
  return links.length ? make("span", {}, ...links) : null;
}

function openDialog(title, ...content) {
  const dialog = byId("opened");
  const close = make("button", { type: "button", text: "Close", onclick: () => dialog.close() });
  const heading = make("h2", { class: "name", id: "opened-title" }, title);
  dialog.replaceChildren(make("div", { class: "opened" }, make("div", { class: "title" }, heading, close), ...content));
  dialog.showModal();
  dialog.scrollTop = 0;
}

function table(heads_, rows) {
  const head =
    heads_ &&
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        heads_.map((text) => make("th", { scope: "col", text })),
      ),
    );
  const body = rows.map((cells) =>
    make(
      "tr",
      {},
      cells.map((cell, at) => make(at || heads_ ? "td" : "th", heads_ || at ? {} : { scope: "row" }, cell)),
    ),
  );
  return make("table", {}, head, make("tbody", {}, body));
}

export function openLeftOut(one) {
  openDialog(
    [one.opened ? Object.values(one.axes).join(" ") : `${one.target} ${one.isa} on ${one.branch}`],
    make("p", { class: "problem", text: sentence(`Left out: ${one.reason}`) }),
  );
}

export function openCell(cell) {
  const offers = cell.packages.map((name) => offerOf(data, data.cells.indexOf(cell), name));
  const gpu = data.gpus[cell.target];
  const own = [
    ["Branch", cell.branch + (cell.toolkit ? `, ${data.family.toolkit} ${cell.toolkit}` : "")],
    ["GPU", gpu ? `${gpu.architecture}: ${gpu.summary}` : "none"],
  ];
  const facts = [
    ...(cell.axes ? Object.entries(cell.axes) : own),
    ["CPU", `${data.isas[cell.isa].title}: ${data.isas[cell.isa].cpus}`],
    ["Driver", cell.driver ? `${cell.driver} or newer` : "none needed"],
  ];
  const dnn = offers.map((offer) => dnnOf(data, offer)).find(Boolean);
  if (dnn) facts.push([data.family.dnn, dnn]);
  const without = new Set(offers.flatMap((offer) => withoutOf(data, offer)));
  const sboms = sbomsOf(cell, cell.packages);
  if (sboms) facts.push(["Software bill of materials", sboms]);
  if (without.size) facts.push(["Without", [...without].join("; ")]);
  for (const [name, because] of Object.entries(cell.recalled ?? {})) facts.push(["Recalled", `${name}: ${because}`]);
  for (const name of cell.packages) {
    const last = lastOf(cell, name);
    if (last) facts.push([`Last ${name}`, make("span", { class: "run" }, resultOf(last), ...runOf(last))]);
    for (const text of expectationsOf(cell, name)) facts.push([`Expected of ${name}`, text]);
    const found = cell.measured?.[name];
    if (found) facts.push([`Measured ${name}`, make("span", {}, ...gainOf(found))]);
  }
  const file = `${cell.shard}.yml`;
  const dispatch = `gh workflow run ${file} --ref ${cell.branch} -f variant=${offers[0].name}`;
  openDialog(
    named(cell.suffix),
    table(null, facts),
    make(
      "section",
      {},
      make("h3", { text: "Packages" }),
      table(["recipe", "version", "tests", "install"], offers.map(packageRow)),
    ),
    make(
      "section",
      {},
      make("h3", { text: "Built and tested by" }),
      table(
        null,
        data.stages.flatMap((stage) => stageRow(cell, stage, offers)),
      ),
    ),
    make(
      "section",
      {},
      make("h3", { text: "Build it" }),
      make(
        "p",
        {},
        "Workflow ",
        link(file, `actions/workflows/${file}`),
        repository ? " (choose Run workflow there), or:" : ":",
      ),
      command([dispatch]),
    ),
  );
}

function packageRow(offer) {
  const { script } = data.packages[offer.package];
  const recipe = script ?? `${data.recipes}/${offer.name}.nix`;
  return [
    link(script ?? `${offer.name}.nix`, `blob/${offer.branch}/${recipe}`),
    offer.version,
    proofOf(data, offer).tests,
    copying(installOf(data, offer).join("\n")),
  ];
}

function stageRow(cell, stage, offers) {
  const where = data.routes[cell.route][stage];
  if (!where) return [];
  const only = offers.map((offer) => offer.package).filter((name) => importedOnly(name, stage));
  const note = only.length ? `; imported only: ${only.join(", ")}` : "";
  return [[stage, where.skipped ? `not run: ${where.skipped}` : `${where} (${data.pools[where]})${note}`]];
}

function importedOnly(name, stage) {
  return (data.packages[name].imported_only ?? []).includes(stage);
}
