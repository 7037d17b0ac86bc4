// The last run of a variant, where the page knows it.
import { data, make } from "./elements.mjs";

/** The last result of `package_` in `cell`; undefined if it is not known. */
export const lastOf = (cell, package_) => data.lasts[cell.last?.[package_]];

/** Whether a variant of `cell` failed when it was last built. */
export const hasFailed = (cell) => cell.packages.some((name) => lastOf(cell, name)?.result === "failed");

/** The class of a result, for its colour: `good`, `doubt` or none. */
export const toneOf = (result) => (result === "passed" ? "good" : result === "failed" ? "doubt" : "");

/** A day in words, UTC. */
export const dayOf = (started) => new Date(started).toLocaleDateString("en", { dateStyle: "long", timeZone: "UTC" });

/** `build success, gpu-test failure, 21 November 2026`, with a link to the run. */
export function runOf({ stages, run, started }) {
  const ran = Object.entries(stages).map(([stage, result]) => `${stage} ${result.replaceAll("_", " ")}`);
  return [`${ran.join(", ")} `, linkTo(run, started)];
}

/** The day of a run, with a link to it. */
function linkTo(run, started) {
  const day = started && dayOf(started);
  return run ? make("a", { href: run, class: "day", text: day || "run" }) : day;
}

/** The text of gains with each number on one line: `+0.4 % ± 0.6`. */
export const unbroken = (says) => says.replaceAll(" % ± ", "\u00a0%\u00a0±\u00a0");

/** `avx512 over avx2: +0.4 % ± 0.6, on AMD EPYC 9354, 21 November 2026`, with a link to the run. */
export function gainOf({ says, machine, run, started }) {
  return [`${unbroken(says)}${machine && `, on ${machine}`}, `, linkTo(run, started)];
}

/** What the last benchmark of a variant found, as a line of the answer; null if it is not known. */
export function lastGain(cell, package_) {
  const found = cell.measured?.[package_];
  return found ? make("p", { class: "run measured" }, make("strong", { text: "Measured: " }), ...gainOf(found)) : null;
}

/** A result in its colour, with the words before it. */
export const resultOf = ({ result }, words = "") =>
  make("strong", { class: toneOf(result) || false, text: `${words}${result}: ` });

/** The last result of a variant as a line of the answer, which names it as `title`; null if it is not known. */
export function lastRun(cell, package_, title) {
  const last = lastOf(cell, package_);
  if (!last) return null;
  return make("p", { class: "run" }, resultOf(last, `Last build ${title && `of ${title} `}`), ...runOf(last));
}

/** `gpu-test is expected to fail until 2027-03-31: REASON`, with a link to the issue, for each stage of a variant. */
export function expectationsOf(cell, package_) {
  const today = new Date().toISOString().slice(0, 10);
  return (cell.expected?.[package_] ?? []).map(({ stage, reason, until, issue }) => {
    const verb = until < today ? "was" : "is";
    const text = `${stage} ${verb} expected to fail until ${until}: ${reason} `;
    return make("span", {}, text, issue ? make("a", { href: issue, text: "issue" }) : null);
  });
}
