// The answer on the page: the variant, the command, the reasons, better variants and other variants that run.
import { byId, command, copying, data, make, named, sentence } from "./elements.mjs";
import { installOf } from "./finder.mjs";

const EXAMPLES = [
  ["RTX 4090", "Ryzen 9 7950X"],
  ["H100", "Xeon Platinum 8480+"],
  ["DGX Spark", ""],
  ["GTX 1080 Ti", "Core i7-3770"],
  ["none", "Graviton4"],
];

function example(gpu, cpu, choose) {
  const text = [gpu === "none" ? "no GPU" : gpu, cpu].filter(Boolean).join(" + ");
  return make("button", { type: "button", text, onclick: () => choose(gpu, cpu) });
}

/** What to enter into the form next; `choose` receives the GPU and CPU of an example. */
export function emptyAnswer(choose) {
  const [gpu, cpu] = ["gpu", "cpu"].map((id) =>
    byId(id).getAttribute("aria-invalid") === "true" ? "wrong" : byId(id).value.trim() && "named",
  );
  const wrong = gpu === "wrong" ? "GPU" : cpu === "wrong" ? "CPU" : "";
  const missing = wrong
    ? `That ${wrong} is not known here`
    : gpu
      ? "Now name the CPU"
      : cpu
        ? "Now name the GPU, or none"
        : "Name your GPU and CPU";
  return make(
    "div",
    { class: "empty" },
    make("strong", { text: missing }),
    make("p", { text: "by product, architecture or instruction set, or paste what the machine prints. For example:" }),
    make(
      "div",
      { class: "examples" },
      EXAMPLES.map(([gpu, cpu]) => example(gpu, cpu, choose)),
    ),
  );
}

/** The elements that show the answer `choice`; null for a part that it does not have. */
export function shownAnswer(choice) {
  const { best } = choice;
  const problems = choice.problems.map((text) => make("p", { class: "problem", text: sentence(text) }));
  if (!best) return [eyebrow(choice), ...problems, betterOf(choice, choice.impossible ? "" : "Nearest")];
  return [
    make("div", {}, eyebrow(choice), make("h2", { class: "name" }, named(best.name))),
    ...problems,
    command(choice.install),
    factsOf(best, choice.cudnn),
    betterOf(choice, "Better"),
    make(
      "ul",
      { class: "why" },
      choice.why.map((text) => make("li", { text: sentence(text) })),
      choice.doubts.map((text) => make("li", { class: "doubt", text: sentence(text) })),
      choice.without.map((text) => make("li", { class: "without", text: sentence(`without ${text}`) })),
    ),
    othersOf(choice.runners_up),
  ];
}

function eyebrow({ best, impossible, doubts }) {
  const served = doubts.length ? "Best for your machine, if its driver runs it" : "Best for your machine";
  const title = best ? served : impossible ? "No such machine" : "Nothing serves this machine";
  const tag = !best
    ? null
    : best.gpu === "cpu"
      ? make("span", { class: "tag", text: "CPU build" })
      : make("span", { class: doubts.length ? "tag doubt" : "tag", text: "GPU build" });
  return make("p", { class: "eyebrow" }, make("span", { text: title }), tag);
}

function factsOf(offer, cudnn) {
  const rows = [
    ["Branch", offer.branch],
    [data.packages[offer.package].title, offer.version],
    ...(offer.gpu === "cpu" ? [] : [["CUDA", offer.cuda]]),
    ...(cudnn ? [["cuDNN", cudnn]] : []),
    ...(offer.driver ? [["Driver", `≥ ${offer.driver}`]] : []),
    ["Python", offer.python],
  ];
  return make(
    "dl",
    { class: "facts" },
    rows.map(([key, value]) => make("div", {}, make("dt", { text: key }), make("dd", { text: value }))),
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
      ` on ${one.branch}`,
    ),
  );
  return make("div", { class: "better" }, lines);
}

function othersOf(notes) {
  if (!notes.length) return null;
  const rows = notes.map((one) =>
    make(
      "li",
      {},
      make("code", {}, named(one.name)),
      make("span", { class: "note", text: `${one.branch} · ${one.note}` }),
      copying(installOf(data, one).join("\n")),
    ),
  );
  return make(
    "details",
    { class: "others" },
    make("summary", { text: `Also runs here (${notes.length})` }),
    make("ul", { class: "notes" }, rows),
  );
}
