// The durations of a variant over time: as a small chart, and in words.

export const MINUTE = 60;

/** A length of time in words, as the commands print it: `40 s`, `12 min`, `3 h 5 min`. */
export function lasting(seconds) {
  if (Math.round(seconds) < 2 * MINUTE) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / MINUTE);
  const parts = [
    [Math.floor(minutes / 60), "h"],
    [minutes % 60, "min"],
  ];
  return parts
    .filter(([number]) => number)
    .map((part) => part.join(" "))
    .join(" ");
}

/** The value at a part of sorted numbers, on the line between two of them. */
export function percentile(sorted, part) {
  const at = (sorted.length - 1) * part;
  const below = sorted[Math.floor(at)];
  return below + (sorted[Math.ceil(at)] - below) * (at % 1);
}

/** The durations of the results that passed and were built, the shortest first. */
export const durations = (results) =>
  results
    .filter(isWhole)
    .map(({ total }) => total)
    .sort((one, other) => one - other);

/** `24 results, 22 passed; 2 h 5 min at the median, 1 h 50 min to 2 h 30 min`. */
export function inWords(results) {
  const passed = results.filter(({ result }) => result === "passed").length;
  const times = durations(results);
  const counted = `${results.length} ${results.length === 1 ? "result" : "results"}, ${passed} passed`;
  if (!times.length) return counted;
  const [low, middle, high] = [0.1, 0.5, 0.9].map((part) => lasting(percentile(times, part)));
  return `${counted}; ${middle} at the median${low === high ? "" : `, ${low} to ${high}`}`;
}

/** The result takes part in the line. */
const isWhole = ({ result, built, total }) => result === "passed" && built && total > 0;

const [WIDTH, HEIGHT, EDGE] = [120, 28, 3];

function drawn(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/**
 * The chart: a step for each result, a line through the durations of what passed, and a mark for what failed. The highest
 * and the lowest point are at least a fifth of the median apart, so that small differences look small.
 */
export function chart(results) {
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "trend", "aria-hidden": "true" });
  const times = durations(results);
  const x = (one) => WIDTH - EDGE - ((WIDTH - 2 * EDGE) * results.indexOf(one)) / Math.max(results.length - 1, 1);
  if (times.length) {
    const middle = percentile(times, 0.5);
    const low = Math.min(times[0], 0.9 * middle);
    const high = Math.max(times.at(-1), 1.1 * middle);
    const y = (one) => HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * (one.total - low)) / (high - low);
    const points = results.filter(isWhole).map((one) => `${x(one).toFixed(1)},${y(one).toFixed(1)}`);
    if (points.length > 1) svg.append(drawn("polyline", { points: points.join(" ") }));
    const [cx, cy] = points[0].split(",");
    svg.append(drawn("circle", { cx, cy, r: 2 }));
  }
  for (const one of results.filter(({ result }) => result === "failed"))
    svg.append(drawn("path", { d: `M${x(one).toFixed(1)} ${HEIGHT - 8}v8`, class: "failed" }));
  return svg;
}
