// The last run of a variant, where the page knows it.
import { data, make } from "./elements.mjs";

/** The last result of `package_` in `cell`; undefined if it is not known. */
export const lastOf = (cell, package_) => data.lasts[cell.last?.[package_]];

/** Whether a variant of `cell` failed when it was last built. */
export const hasFailed = (cell) => cell.packages.some((name) => lastOf(cell, name)?.result === "failed");

/** `build success, gpu-test failure, 21 November 2026`, with a link to the run. */
export function runOf({ stages, run, started }) {
  const ran = Object.entries(stages).map(([stage, result]) => `${stage} ${result.replaceAll("_", " ")}`);
  const day = started && new Date(started).toLocaleDateString("en", { dateStyle: "long", timeZone: "UTC" });
  return [`${ran.join(", ")} `, run ? make("a", { href: run, text: day || "run" }) : day];
}

/** The last result of a variant as a line of the answer; null if it is not known. */
export function lastRun(cell, package_) {
  const last = lastOf(cell, package_);
  if (!last) return null;
  const state = last.result === "passed" ? "good" : last.result === "failed" ? "doubt" : "";
  return make("p", { class: "run" }, make("strong", { class: state || false, text: `Last build ${last.result}: ` }), ...runOf(last));
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
