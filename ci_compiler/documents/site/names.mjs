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

/** A typed name that matches nothing; `near` are similar names. */
export class UnknownName extends Error {
  constructor(message, near) {
    super(message);
    this.near = near;
  }
}

/** The GPU that `text` names ({name, sm}); null if it says that there is none. Throws UnknownName. */
export function gpuOf(data, text) {
  const name = text.trim();
  if (data.names.none.includes(name.toLowerCase())) return null;
  const found = find(data.names.gpu, name);
  if (found !== undefined) return { name, sm: `sm${found.replace(".", "")}` };
  const written = new RegExp(`^(?:${data.names.sm})$`).exec(name.toLowerCase());
  const sm = written && `sm${written[1]}${written[2]}`;
  if (sm && Object.hasOwn(data.gpus, sm)) return { name, sm };
  const key = keyOf(data.names.gpu, name);
  if (data.names.foreign.some((pattern) => new RegExp(pattern).test(key)))
    throw new UnknownName(`${name} is not one of ${data.names.vendor}'s GPUs`, ["none"]);
  throw new UnknownName(`No GPU called ${name} is known`, nearest(data.names.gpu, name, Object.keys(data.gpus)));
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

// Output of tools.

/** The machine that pasted output of lscpu, /proc/cpuinfo, nvidia-smi and lspci describes; see hardware/pasted.py. */
export function read(data, text) {
  const lines = text.split(/\r?\n/);
  const { tools } = data;
  const first = (form) => lines.map((line) => new RegExp(form).exec(line)).find(Boolean)?.[1] ?? "";
  const names = lines.flatMap((line) => gpuNamesIn(tools, line));
  const driver = new RegExp(tools.driver).exec(text)?.[1] ?? driverColumn(tools, lines);
  return {
    gpus: [...new Set(names)],
    driver,
    cpu: cpuIn(data, first(tools.cpu), new Set(first(tools.flags).match(/[a-z0-9_]+/g))),
    truncated: names.some((one) => one.endsWith("...")),
  };
}

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

function cpuIn(data, name, flags) {
  const system = flags.has(data.tools["arm-flag"]) ? "aarch64-linux" : "x86_64-linux";
  if (flags.size) return { name: name || "this CPU", system, isas: isasOf(data, system, flags), note: "" };
  return name ? { ...cpuOf(data, name), name } : null;
}

/** The instruction sets whose flags are all among `flags`. */
function isasOf(data, system, flags) {
  const rows = Object.entries(data.isas).filter(([, isa]) => isa.system === system);
  return rows.filter(([, isa]) => isa.flags.every((flag) => flags.has(flag))).map(([name]) => name);
}
