// The answer for a machine, looked up in the tables that ci-compile wrote: see documents/site/tables.py.

/** `text` with `values` in place of its placeholders. */
const fill = (text, values) => text.replace(/\{([a-z]+)\}/g, (all, name) => String(values[name] ?? all));

/** The major version of a driver; 0 if the text is not a version. */
export const driverNumber = (text) => Number(/^[0-9]{1,6}(?![0-9])/.exec(text)?.[0] ?? 0);

/** The key of a GPU ({sm}; null: none) in the tables, which list GPUs by strength. */
export function gpuKey({ machines }, gpu) {
  if (gpu === null) return "none";
  return machines.gpus.includes(gpu.sm) ? gpu.sm : "unknown";
}

/** The key of a CPU ({system, isas}) in the tables. */
const cpuKey = ({ system, isas }) => [system, ...isas].join(" ");

/** The instruction sets of a CPU that no other one of its instruction sets includes. */
export const highestIsas = (data, cpu) => data.machines.cpus[cpuKey(cpu)];

/** The entry of `table` for `machine` ({gpu, cpu, driver}; gpu null: none, driver 0: not known). */
function lookUp(data, table, { gpu, cpu }) {
  const { gpus, cpus } = data.machines;
  return table[gpus.indexOf(gpuKey(data, gpu))][Object.keys(cpus).indexOf(cpuKey(cpu))];
}

/** The cells that `machine` runs, each with the lowest driver that runs it. */
export function running(data, machine) {
  const steps = data.drivers[lookUp(data, data.running, machine)];
  const { driver } = machine;
  const passed = steps.filter(([from, , end]) => !driver || (from <= driver && (end === null || driver < end)));
  return new Map(passed.flatMap(([from, cells]) => cells.map((cell) => [cell, from])));
}

/** `machine`; with the CPU that stands for an unknown one. */
export function settled(data, machine, { package: package_, branch, python }) {
  if (machine.cpu) return machine;
  const { gpus, cpus } = data.machines;
  const row = data.portables[data.portable[data.groups[package_]][branch][python]];
  const [system, ...isas] = Object.keys(cpus)[row[gpus.indexOf(gpuKey(data, machine.gpu))]].split(" ");
  return { ...machine, cpu: { system, isas } };
}

/** The answer for the machine's driver. */
function stepOf(data, machine, { package: package_, branch, python, workload }) {
  const found = lookUp(data, data.found[data.groups[package_]][branch][python][workload], machine);
  const steps = data.answers[found].filter(([from]) => (machine.driver ? from !== null && from <= machine.driver : true));
  return data.steps[steps.at(-1)[1]];
}

/** A variant: `package_` of the cell with the number `at`. */
export function offerOf(data, at, package_) {
  const { branch, python, toolkit, target, isa, system, suffix, listed, driver, axes, versions: own } = data.cells[at];
  const { versions } = data.branches[branch];
  const name = listed || `${package_}-${suffix}`;
  return {
    at,
    name,
    package: package_,
    version: own?.[package_] ?? versions[package_] ?? "",
    branch,
    toolkit,
    python,
    target,
    isa,
    system,
    driver,
    ...(axes ? { axes } : {}),
  };
}

/** What is switched off in a variant, with the consequences. */
export const withoutOf = (data, offer) => data.without[data.cells[offer.at].without]?.[offer.package] ?? [];

/** The version of the library for neural networks in a variant; "" if it has none, or the version is not known. */
export const dnnOf = (data, offer) => data.dnn[data.cells[offer.at].dnn]?.[offer.package] ?? "";

/** What tests say of a variant, in a word and in sentences. */
export function proofOf({ cells, evidence }, { at, package: package_ }) {
  const own = cells[at].evidence;
  return evidence[own[package_] ?? own];
}

/** What tests say of what an offer installs, as `together` in reports/evidence.py. */
function proofOfAll(data, offer, everything) {
  const proofs = installed(data, offer, everything).map((name) => [name, proofOf(data, { ...offer, package: name })]);
  const first = proofOf(data, offer);
  const every = (key) => [
    ...first[key],
    ...proofs.flatMap(([name, one]) => one[key].filter((text) => !first[key].includes(text)).map((text) => `${name}: ${text}`)),
  ];
  const verdicts = new Set(proofs.map(([, one]) => one.tests));
  const tests = verdicts.has("failing") ? "failing" : verdicts.size === 1 ? first.tests : "tested in part";
  return { tests, tested: every("tested"), untested: every("untested") };
}

/** The packages that an offer installs. */
export const installed = (data, offer, everything) => (everything ? wholeOf(data.cells[offer.at]) : [offer.package]);

/** The commands that install a variant and its dependencies; `everything`: all packages of its cell. */
export function installOf(data, offer, everything) {
  const { install, suffix } = data.cells[offer.at];
  return data.installs[install][everything ? "" : offer.package].replaceAll("{suffix}", suffix).split("\n");
}

/** The packages of a cell that are not recalled. */
const wholeOf = (cell) => cell.packages.filter((name) => !(name in (cell.recalled ?? {})));

/** `a, b and c`. */
function listed({ sentences }, words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${sentences.and} ${words.at(-1)}`;
}

/**
 * The answer for `asked` ({gpu, cpu, driver}; cpu null: unknown) and `wishes` ({package, everything, workload, branch,
 * python}), as in `ci-compile select --json`.
 */
export function select(data, asked_, wishes) {
  const { sentences } = data;
  const machine = settled(data, asked_, wishes);
  const runs = running(data, machine);
  const step = stepOf(data, machine, wishes);
  const anywhere = stepOf(data, machine, { ...wishes, branch: "", python: "" });
  const where = ["branch", "python"].map((axis) => (wishes[axis] ? fill(sentences[`where-${axis}`], wishes) : ""));
  const facts = {
    own: machine.gpu?.sm,
    device: machine.gpu?.name,
    driver: machine.driver,
    package: wishes.package,
    where: where.join(""),
  };
  const offer = (at, driver = runs.get(at)) => ({ ...offerOf(data, at, wishes.package), driver });
  const said = (row, about) =>
    (data.said[row] ?? []).map((text) => fill(text, { ...about, needed: about?.driver, ...facts }));
  const proof = (one) => proofOfAll(data, one, wishes.everything);
  const noted = (one, note) => ({ ...one, note: fill(note, { ...one, needed: one.driver }), tests: proof(one).tests });
  const instead = (one) =>
    ["branch", "python"]
      .filter((axis) => wishes[axis] && wishes[axis] !== one[axis])
      .map((axis) => fill(sentences[`need-${axis}`], { ...one, asked: wishes[axis] }));

  const best = step.best === undefined ? null : offer(step.best);
  const better = (step.better ?? []).map(([at, driver, row]) => noted(offer(at, driver), data.said[row][0]));
  if (anywhere.best !== undefined && anywhere.best !== step.best) {
    const one = offer(anywhere.best);
    better.push({ ...one, note: instead(one).join(` ${sentences.and} `), tests: proof(one).tests });
  }
  if (!better.length && step.nearest !== undefined) better.push(noted(offer(step.nearest), sentences["need-isa"]));
  const why = asked_.cpu || best === null ? said(step.why, best) : portable(data, said(step.why, best), best);
  const alike = best === null ? [] : data.alternatives[data.groups[wishes.package]][best.at];
  const asked = ({ branch, python }) => [branch, ""].includes(wishes.branch) && [python, ""].includes(wishes.python);
  return {
    best,
    impossible: step.impossible === true,
    problems: said(step.problems),
    why,
    doubts: said(step.doubts, best),
    ...(best === null ? { tests: "", tested: [], untested: [] } : proof(best)),
    without: best === null ? [] : [...withoutOf(data, best), ...leftOut(data, best, wishes)],
    dnn: best === null ? "" : dnnOf(data, best),
    runners_up: alike
      .filter(([at]) => runs.has(at) && asked(data.cells[at]))
      .map(([at, row]) => ({ ...offer(at), note: said(row, offer(at))[0], tests: proof(offer(at)).tests })),
    better,
    install: best === null ? [] : installOf(data, best, wishes.everything),
    verify: best === null ? [] : verifyOf(data, best, wishes.everything),
  };
}

/** The commands that prove that an installed variant works; [] if one line cannot. */
function verifyOf(data, offer, everything) {
  const { verify, suffix } = data.cells[offer.at];
  const found = data.verify[verify][everything ? "" : offer.package];
  return found ? found.replaceAll("{suffix}", suffix).split("\n") : [];
}

/** `why`, with the reason for the instruction set of an unknown CPU, if there is one, in place of its last sentence. */
function portable({ sentences, isas, undecided }, why, best) {
  if (best.axes && !best.axes.isa) return why;
  const said = sentences[undecided.includes(best.isa) ? "isa-undecided" : "isa-portable"];
  return [...why.slice(0, -1), fill(said, { isa: best.isa, cpus: isas[best.isa].cpus })];
}

/** Which packages the line that installs everything leaves out. */
function leftOut(data, best, { everything }) {
  const has = wholeOf(data.cells[best.at]);
  const missing = Object.keys(data.packages).filter((name) => data.packages[name].here && !has.includes(name));
  return everything && missing.length ? [fill(data.sentences["whole-lacks"], { missing: listed(data, missing) })] : [];
}
