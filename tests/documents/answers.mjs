// What the page's own script answers, for Python to compare: {folder, data, questions} in, a list of answers out.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { folder, data, questions } = JSON.parse(readFileSync(0, "utf8"));
const [names, finder] = await Promise.all(
  ["names.mjs", "finder.mjs"].map((file) => import(pathToFileURL(join(folder, file)).href)),
);

/** The machine that has these names, made as the page makes it out of its fields. */
function machineOf({ gpu, cpu, driver }) {
  const device = names.gpuOf(data, gpu);
  const named = cpu === null || cpu === "unknown" ? null : names.cpuOf(data, cpu);
  const beside = named ?? (device ? names.cpuBeside(data, device) : null);
  return { gpu: device, cpu: beside, driver: finder.driverNumber(driver) };
}

/** The machine of a pasted text: {gpu, system, isas}, or why there is none. */
function machineIn(text) {
  const { gpus, cpu, problem } = names.read(data, text);
  if (problem) return { refused: problem };
  const gpu = gpus.length ? names.gpuOf(data, names.strongest(data, gpus)) : null;
  return { gpu: gpu?.sm ?? "none", system: cpu?.system ?? "", isas: cpu?.isas ?? [] };
}

function answer(question) {
  try {
    if ("names" in question) return finder.select(data, machineOf(question.names), question.wishes);
    if ("machine" in question) return finder.select(data, question.machine, question.wishes);
    if ("gpu" in question) return names.gpuOf(data, question.gpu);
    if ("cpu" in question) return names.cpuOf(data, question.cpu);
    if ("pasted" in question) return machineIn(question.pasted);
    return names.read(data, question.text);
  } catch (error) {
    if (error instanceof names.UnknownName) return { unknown: error.message, near: error.near };
    throw error;
  }
}

process.stdout.write(JSON.stringify(questions.map(answer)));
