// The answer on the page: the variant, the command, the reasons, better variants and other variants that run.
import { sbomsOf } from "./cell.mjs";
import { byId, command, copying, data, make, named, sentence } from "./elements.mjs";
import { installOf, installed } from "./finder.mjs";
import { expectationsOf, lastGain, lastOf, lastRun } from "./runs.mjs";

function example(gpu, cpu, choose) {
  const text = [gpu === "none" ? "no GPU" : gpu, cpu].filter(Boolean).join(" + ");
  return make("button", { type: "button", text, onclick: () => choose(gpu, cpu) });
}

/** What to enter into the form next; `choose` receives the GPU and CPU of one of `examples`. */
export function emptyAnswer(examples, choose) {
  const [gpu, cpu] = ["gpu", "cpu"].map((id) =>
    byId(id).getAttribute("aria-invalid") === "true" ? "wrong" : byId(id).value.trim() && "named",
  );
  const wrong = gpu === "wrong" ? "GPU" : cpu === "wrong" ? "CPU" : "";
  const missing = wrong
    ? `That ${wrong} is not known here`
    : cpu
      ? "Now name the GPU, or none"
      : "Name your GPU";
  return make(
    "div",
    { class: "empty" },
    make("strong", { text: missing }),
    make("p", { text: `by product or architecture, and the CPU if you know it.${examples.length ? " For example:" : ""}` }),
    make(
      "div",
      { class: "examples" },
      examples.map(([gpu, cpu]) => example(gpu, cpu, choose)),
    ),
  );
}

/** The elements that show the answer `choice`; null for a part that it does not have. */
export function shownAnswer(choice, { everything, cpu }) {
  const { best } = choice;
  const problems = choice.problems.map((text) => make("p", { class: "problem", text: sentence(text) }));
  if (!best) return [eyebrow(choice, cpu), ...problems, betterOf(choice, choice.impossible ? "" : "Nearest")];
  return [
    make("div", {}, eyebrow(choice, cpu), make("h2", { class: "name" }, named(best.name))),
    ...problems,
    make("div", { class: "commands" }, command(choice.install), about(), madeOf(best, everything), verification(choice.verify)),
    factsOf(choice, everything),
    ...runsOf(best, everything),
    lastGain(data.cells[best.at], best.package),
    betterOf(choice, "Better"),
    make(
      "ul",
      { class: "why" },
      choice.untested.filter(isFailure).map((text) => make("li", { class: "failing", text: sentence(text) })),
      choice.why.map((text) => make("li", { text: sentence(text) })),
      choice.tested.map((text) => make("li", { class: "tested", text: sentence(text) })),
      choice.untested.filter((text) => !isFailure(text)).map((text) => make("li", { class: "doubt", text: sentence(text) })),
      choice.doubts.map((text) => make("li", { class: "doubt", text: sentence(text) })),
      choice.without.map((text) => make("li", { class: "without", text: sentence(`without ${text}`) })),
    ),
    othersOf(choice.runners_up, everything),
  ];
}

/** Whether a sentence on a test says that it failed. */
const isFailure = (text) => / failed on \d/.test(text);

/** The last results of what is installed: that of the best variant, and those that differ from it; what is expected. */
function runsOf(best, everything) {
  const cell = data.cells[best.at];
  const result = lastOf(cell, best.package)?.result;
  return installed(data, best, everything).flatMap((name) => {
    const other = name === best.package ? "" : data.packages[name].title;
    const last = other && lastOf(cell, name)?.result === result ? null : lastRun(cell, name, other);
    const expected = expectationsOf(cell, name).map((text) => make("p", { class: "run" }, other && `${other}: `, text));
    return [last, ...expected];
  });
}

function eyebrow({ best, impossible, doubts, tests }, cpu) {
  const fit = cpu ? "Best for your machine" : "Safe on most CPUs";
  const proof = tests === "failing" ? make("strong", { text: tests }) : tests;
  const served = [fit, ...(tests === "tested" ? [] : [", ", proof]), doubts.length ? ", if the driver runs it" : ""];
  const title = best ? served : [impossible ? "No such machine" : "Nothing serves this machine"];
  const tag = !best
    ? null
    : best.target === "cpu"
      ? make("span", { class: "tag", text: "CPU build" })
      : make("span", { class: doubts.length ? "tag doubt" : "tag", text: "GPU build" });
  return make("p", { class: "eyebrow" }, make("span", {}, ...title), tag);
}

/** What the program is that installs, for those who do not have it. */
function about() {
  const { text, url } = data.about;
  if (!url) return null;
  return make("p", { class: "about" }, `${text}. `, make("a", { href: url, text: "Install it first" }), ".");
}

/** The software bills of materials of what is installed, where a release has them. */
function madeOf(best, everything) {
  const sboms = sbomsOf(data.cells[best.at], installed(data, best, everything));
  return sboms && make("p", { class: "about" }, "Software bill of materials: ", sboms);
}

function verification(lines) {
  if (!lines.length) return null;
  return make("details", { class: "verify" }, make("summary", { text: "Then verify that it works" }), command(lines));
}

function factsOf({ best: offer, dnn, doubts }, everything) {
  const { versions } = data.branches[offer.branch];
  const packages = everything ? data.cells[offer.at].packages : [offer.package];
  const rows = [
    ...packages.map((name) => [data.packages[name].title, versions[name] ?? ""]),
    ...(offer.target === "cpu" || offer.axes ? [] : [[data.family.toolkit, offer.toolkit]]),
    ...(dnn ? [[data.family.dnn, dnn]] : []),
    ...(offer.driver ? [["Driver", `≥ ${offer.driver}`, doubts.length ? "doubt" : ""]] : []),
    ...(offer.axes ? Object.entries(offer.axes) : [["Python", offer.python]]),
    ...(offer.axes ? [] : [["Git branch", offer.branch]]),
  ];
  return make(
    "dl",
    { class: "facts" },
    rows.map(([key, value, of]) =>
      make("div", {}, make("dt", { text: key }), make("dd", { class: of || false, text: value })),
    ),
  );
}

function betterOf({ better }, title) {
  if (!better.length) return null;
  const lines = better.map((one) =>
    make(
      "p",
      {},
      make("strong", { text: `${title} with ${one.note}: ` }),
      make("code", {}, named(one.name)),
      ` on ${one.branch}, ${one.tests}`,
    ),
  );
  return make("div", { class: "better" }, lines);
}

function othersOf(notes, everything) {
  if (!notes.length) return null;
  const rows = notes.map((one) =>
    make(
      "li",
      {},
      make("code", {}, named(one.name)),
      make("span", { class: "note", text: `${one.branch} · ${one.note} · ${one.tests}` }),
      copying(installOf(data, one, everything).join("\n")),
    ),
  );
  return make(
    "details",
    { class: "others" },
    make("summary", { text: `Also runs here (${notes.length})` }),
    make("ul", { class: "notes" }, rows),
  );
}
