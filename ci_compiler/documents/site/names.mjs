// Looks up the names that people and tools use for GPUs and CPUs, in the tables of `names.as_data` (Python).

/** `text` without noise words, case, blanks and punctuation: the key in a table of names. */
function keyOf(names, text) {
  let plain = text.toLowerCase();
  for (const pattern of names.noise) plain = plain.replace(new RegExp(pattern, "g"), " ");
  return plain.replace(/[^a-z0-9+]/g, "");
}

function find(names, text) {
  const key = keyOf(names, text);
  const exact = names.rows.find(([, keys]) => keys.includes(key));
  const found = exact ?? names.rows.find(([, , patterns]) => patterns.some((one) => new RegExp(one).test(key)));
  return found?.[0];
}

/** A typed name that matches nothing; `near` are similar names, `foreign`: it is a GPU of another vendor. */
export class UnknownName extends Error {
  constructor(message, near, foreign = false) {
    super(message);
    this.near = near;
    this.foreign = foreign;
  }
}

/** The GPU that `text` names ({name, sm}); null if it says that there is none. Throws UnknownName. */
export function gpuOf(data, text) {
  const name = text.trim();
  if (data.names.none.includes(name.toLowerCase())) return null;
  const target = targetOf(data, name);
  if (target !== undefined) return { name, sm: target.split(":")[0] };
  const found = find(data.names.gpu, name);
  if (found !== undefined) return { name, sm: `sm${found.replace(".", "")}` };
  const written = new RegExp(`^(?:${data.names.sm})$`).exec(name.toLowerCase());
  const sm = written && `sm${written[1]}${written[2]}`;
  if (sm && Object.hasOwn(data.gpus, sm)) return { name, sm };
  const key = keyOf(data.names.gpu, name);
  if (data.names.foreign.some((pattern) => new RegExp(pattern).test(key)))
    throw new UnknownName(`${name} is not one of ${data.names.vendor}'s GPUs`, ["none"], true);
  throw new UnknownName(`No GPU called ${name} is known`, nearest(data.names.gpu, name, Object.keys(data.gpus)));
}

/** The target of the GPU that `name` names, of a family without compute capabilities. */
function targetOf({ names }, name) {
  const lower = name.toLowerCase();
  if (Object.hasOwn(names.named, lower)) return names.named[lower];
  const found = names.families.map(({ targets, gpu }) => (matches(`^(?:${targets})$`, lower) ? lower : find(gpu, name)));
  return found.find((one) => one !== undefined);
}

/** The CPU that `text` names: a model, a family, or its instruction sets. Throws UnknownName. */
export function cpuOf(data, text) {
  const wanted = text.trim();
  const found = find(data.names.cpu, wanted);
  if (found !== undefined) return { name: found, ...data.names.cpus[found] };
  const words = wanted.toLowerCase().split(/[,\s]+/);
  const known = (word) => Object.hasOwn(data.isas, word);
  if (words.some((word) => known(word) || Object.hasOwn(data.aliases, word))) {
    const wrong = words.find((word) => !known(word));
    if (wrong !== undefined)
      throw new UnknownName(
        `No instruction set is called ${wrong}`,
        [data.aliases[wrong] ?? Object.keys(data.isas)].flat(),
      );
    const systems = [...new Set(words.map((word) => data.isas[word].system))];
    if (systems.length > 1) throw new UnknownName(`${wanted}: a CPU has instruction sets of one system`, words);
    return { name: wanted, system: systems[0], isas: withIncluded(data, words), note: "" };
  }
  throw new UnknownName(`No CPU called ${wanted} is known`, nearest(data.names.cpu, wanted, Object.keys(data.isas)));
}

/** The CPU that a GPU always comes with; null if there are several. */
export function cpuBeside({ names }, gpu) {
  const name = names.beside[keyOf(names.gpu, gpu.name)] ?? names.beside[gpu.sm];
  return name === undefined ? null : { name, ...names.cpus[name] };
}

function withIncluded(data, isas) {
  const runs = new Set(isas.flatMap((isa) => data.isas[isa].runs));
  return Object.keys(data.isas).filter((isa) => runs.has(isa));
}

/** Up to three names that share the most pairs of characters with `text`; `otherwise` if there are none. */
function nearest(names, text, otherwise) {
  const pairs = (key) => new Set(Array.from(key.slice(1), (char, at) => key[at] + char));
  const wanted = pairs(keyOf(names, text));
  const scored = names.shown.map((name) => {
    const own = pairs(keyOf(names, name));
    const shared = [...own].filter((pair) => wanted.has(pair)).length;
    return { name, score: (2 * shared) / (own.size + wanted.size || 1) };
  });
  const near = scored.filter(({ score }) => score >= 0.5).sort((a, b) => b.score - a.score);
  return near.length ? near.slice(0, 3).map(({ name }) => name) : otherwise;
}

// What people paste: see hardware/pasted.py.

const matches = (form, text) => new RegExp(form).test(text);

/** Whether `text` names no model of a CPU. */
const unstated = ({ names }, text) =>
  ["", "-", "unknown"].includes(text.trim()) || names.unstated.some((one) => matches(one, keyOf(names.cpu, text)));

/** What `look` finds; `otherwise` if it throws UnknownName. */
function known(look, otherwise) {
  try {
    return look();
  } catch (error) {
    if (!(error instanceof UnknownName)) throw error;
    return otherwise(error);
  }
}

/** What a text names ({gpus, none, driver, cpu}; none: no GPU, cpu null: not known), with the `problem` why it may not be all. */
export function read(data, text) {
  const plain = (line) => line.replace(/[\s\p{C}]+/gu, " ").trim();
  const lines = text.split(/\r?\n/).map(plain).filter(Boolean);
  const said = lines.length <= data.tools["few-lines"] ? wordsIn(data, lines) : null;
  const found = said ?? printed(data, text, lines);
  const other = new RegExp(data.tools["other-gpu"], "i");
  if (data.names.undescribed.length && !found.gpus.length && lines.some((line) => other.test(line)))
    return { ...found, none: false, problem: "other" };
  return found;
}

function printed(data, text, lines) {
  const { tools } = data;
  const first = (form) => lines.map((line) => new RegExp(form).exec(line)).find(Boolean)?.[1] ?? "";
  const gpus = [...new Set(lines.flatMap((line) => gpuNamesIn(tools, line)))];
  const [flags, model] = [first(tools.flags), first(tools.cpu)];
  const host = new RegExp(tools.host, "g");
  const hosts = new Set(lines.flatMap((line) => [...line.matchAll(host)].map(([, one, other]) => one ?? other)));
  const none = lines.some((line) => matches(tools["no-gpu"], line));
  let problem = "";
  if (gpus.some((one) => one.endsWith("..."))) problem = "cut";
  else if (hosts.size > 1) problem = "several";
  else if (!gpus.length && !flags && !model && !none) {
    const said = wordsIn(data, lines);
    if (said) return said;
    problem = "none";
  }
  const driver = new RegExp(tools.driver).exec(text)?.[1] ?? driverColumn(tools, lines);
  return whole(data, gpus, model, { flags, driver, problem, arm: matches(tools.arm, text), none });
}

/** The machine with these names; its CPU is that of the GPU's board if no other one is named. */
function whole(data, gpus, name, { flags = "", driver = "", problem = "", arm = false, none = false } = {}) {
  const found = new Set(flags.match(/[a-z0-9_]+/g));
  const system = found.has(data.tools["arm-flag"]) ? "aarch64-linux" : "x86_64-linux";
  const board = () =>
    gpusKnown(data, gpus)
      .map((one) => cpuBeside(data, one))
      .find(Boolean);
  const cpu = found.size
    ? { name: name || "this CPU", system, isas: isasOf(data, system, found), note: "", flags: true }
    : unstated(data, name)
      ? (board() ?? (arm ? cpuOf(data, data.tools["arm-cpu"]) : null))
      : { ...cpuOf(data, name), name };
  const without = none || (cpu !== null && data.gpuless.includes(cpu.system));
  return { gpus, none: !gpus.length && without, driver, cpu, problem };
}

/** Those of `names` that are known as GPUs. */
export const gpusKnown = (data, names) =>
  names
    .map((name) =>
      known(
        () => gpuOf(data, name),
        () => null,
      ),
    )
    .filter(Boolean);

/** The one of `names` that is that of the strongest GPU, which `ci-compile select` uses too. */
export function strongest(data, names) {
  const place = (name) =>
    known(
      () => data.machines.gpus.indexOf(gpuOf(data, name)?.sm),
      () => -1,
    );
  return [...names].sort((one, other) => place(other) - place(one))[0];
}

/** What `lines` name in words; null unless all of it is understood. */
function wordsIn(data, lines) {
  const parts = lines.flatMap((line) => partsOf(data, line));
  if (!parts.length || parts.includes(null)) return null;
  const gpus = [...new Set(parts.flatMap((part) => part.gpus))];
  const none = parts.some((part) => part.none);
  return whole(data, gpus, parts.find((part) => part.cpu)?.cpu ?? "", { none });
}

/** The names in `line`: the whole of it, or several. */
function partsOf(data, line) {
  const { tools } = data;
  const plain = (part) => matches(tools.plain, part.toLowerCase());
  const split = line.split(new RegExp(tools.between)).filter((part) => !plain(part));
  const among = split.map((part) => part.replace(new RegExp(tools.label, "i"), "")).filter((part) => !plain(part));
  if (!among.length && !matches(tools.integrated, line.toLowerCase())) return [];
  const parts = among.map((part) => partOf(data, part));
  return !parts.length || parts.includes(null) || (among.length === 1 && among[0] === line) ? [partOf(data, line)] : parts;
}

/** What `text` is the name of: a GPU, none or a CPU; null if it is no name. */
function partOf(data, text) {
  if (matches(data.tools.integrated, text.toLowerCase())) return { gpus: [], none: true, cpu: "" };
  const gpu = known(
    () => gpuOf(data, text),
    (error) => error,
  );
  if (gpu === null) return { gpus: [], none: true, cpu: "" };
  const own = unstated(data, text) || cpuKnown(data, text) ? text : "";
  if (!(gpu instanceof UnknownName)) return { gpus: [text], cpu: cpuBeside(data, gpu) ? "" : own };
  if (own) return { gpus: [], cpu: own };
  return gpu.foreign && !gpuNamesIn(data.tools, text).length ? { gpus: [text], cpu: "" } : null;
}

const cpuKnown = (data, text) =>
  known(
    () => cpuOf(data, text),
    () => null,
  ) !== null;

function gpuNamesIn(tools, line) {
  const found = tools.gpu.map((form) => new RegExp(form).exec(line)).find(Boolean);
  return found && !new RegExp(tools["not-gpu"]).test(found[1]) ? [found[1]] : [];
}

/** The driver in the output of `nvidia-smi --query-gpu=…`: the column that looks like a driver's version. */
function driverColumn(tools, lines) {
  const rows = lines.filter((line) => line.includes(",") && gpuNamesIn(tools, line).length);
  const cells = rows.flatMap((line) => line.split(",").map((cell) => cell.trim()));
  return cells.find((cell) => new RegExp(tools["driver-column"]).test(cell)) ?? "";
}

/** The instruction sets whose flags are all among `flags`. */
function isasOf(data, system, flags) {
  const rows = Object.entries(data.isas).filter(([, isa]) => isa.system === system);
  return rows.filter(([, isa]) => isa.flags.every((flag) => flags.has(flag))).map(([name]) => name);
}
