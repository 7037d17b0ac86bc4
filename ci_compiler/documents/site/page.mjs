// The page: fields to an answer. What is chosen stands in the address, so that it can be shared.
import { emptyAnswer, shownAnswer } from "./answer.mjs";
import { byId, count, data, make, repository } from "./elements.mjs";
import { driverNumber, listed, offersOf, select } from "./finder.mjs";
import { drawGrids, filter } from "./matrix.mjs";
import { UnknownName, cpuBeside, cpuOf, gpuOf, read, smOf } from "./names.mjs";

// The machine.

const fields = ["gpu", "cpu", "driver", "branch", "python"];
let pasted = null; // the CPU whose flags were pasted, while its name stands in the field

/** What `look` gives, with what there is to say of it under the field; undefined where it is empty or wrong. */
function resolved(id, look) {
  const field = byId(id);
  const told = byId(`${id}-told`);
  const text = field.value.trim();
  told.replaceChildren();
  told.classList.remove("wrong");
  field.setAttribute("aria-invalid", "false");
  try {
    return look(text, (...parts) => told.append(...parts));
  } catch (error) {
    if (!(error instanceof UnknownName)) throw error;
    told.classList.add("wrong");
    field.setAttribute("aria-invalid", "true");
    const offers = error.near.map((name) =>
      make("button", { type: "button", text: name, onclick: () => put(id, name) }),
    );
    told.append(`${error.message}. ${offers.length ? "Did you mean " : ""}`, ...offers);
    return undefined;
  }
}

function put(id, value) {
  byId(id).value = value;
  if (id === "cpu") pasted = null;
  update();
  byId(id).focus();
}

/** The machine that the fields tell of, null where they do not yet tell enough. */
function machineOf() {
  const driver = resolved("driver", driverIn) ?? "";
  const gpu = resolved("gpu", (text, tell) => {
    if (!text) return undefined;
    const found = gpuOf(data, text, driver);
    tell(...(found ? describedGpu(found) : ["No GPU: a variant for the CPU alone."]));
    return found;
  });
  const beside = gpu ? cpuBeside(data, gpu) : null;
  byId("cpu").placeholder = beside ? `${beside.name} (comes with it)` : cpuPlaceholder;
  const cpu = resolved("cpu", (text, tell) => {
    const found = pasted?.name === text ? pasted : text ? cpuOf(data, text) : beside;
    if (!found) return undefined;
    const isas = bestIsas(found.isas);
    tell(
      isas ? make("b", { text: isas }) : "no instruction set that is known here",
      found === pasted ? ", by its flags" : `, ${found.name}`,
    );
    if (found.note) tell(` (${found.note})`);
    return found;
  });
  if (gpu === undefined || !cpu) return null;
  return { system: cpu.system, isas: cpu.isas, gpus: gpu ? [gpu] : [] };
}

const cpuPlaceholder = byId("cpu").placeholder;

function driverIn(text) {
  if (text && !driverNumber(text)) throw new UnknownName("A driver's version is a number, as 580 or 580.65.06", []);
  return text;
}

function describedGpu(gpu) {
  const known = data.gpus[smOf(gpu)];
  return known
    ? [make("b", { text: known.name }), `, ${known.architecture}`]
    : [`compute capability ${gpu.capability.join(".")}`];
}

/** The instruction sets that none of the others includes. */
function bestIsas(isas) {
  const best = isas.filter((isa) => !isas.some((other) => other !== isa && data.isas[other].runs.includes(isa)));
  return best.join(", ");
}

function wishesOf() {
  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
  return {
    package: chosen("package"),
    workload: chosen("workload"),
    branch: byId("branch").value,
    python: byId("python").value,
  };
}

function takePaste() {
  const text = byId("paste").value;
  const told = byId("paste-told");
  told.classList.remove("wrong");
  told.textContent = "";
  if (!text.trim()) return;
  let found;
  try {
    found = read(data, text);
  } catch (error) {
    if (!(error instanceof UnknownName)) throw error;
    found = { ...read(data, text.replace(/^\s*model name.*$/gim, "")), cpu: null };
  }
  if (found.cpu) {
    pasted = found.cpu;
    byId("cpu").value = found.cpu.name;
  }
  if (found.gpus.length) byId("gpu").value = strongest(found.gpus);
  if (found.driver) byId("driver").value = found.driver;
  const got = [
    found.gpus.length && listed(data, found.gpus),
    found.cpu?.name,
    found.driver && `driver ${found.driver}`,
  ].filter(Boolean);
  told.classList.toggle("wrong", !got.length || found.truncated);
  told.textContent = found.truncated
    ? "A GPU's name is cut short in this output; nvidia-smi -L prints it in full."
    : got.length
      ? `Read: ${got.join("; ")}.`
      : "No GPU or CPU is named in this.";
  update();
}

/** The name of the GPU of the highest compute capability: the one that `select` goes by. */
function strongest(names) {
  const capability = (name) => {
    try {
      const [major, minor] = gpuOf(data, name)?.capability ?? [0, 0];
      return major * 100 + minor;
    } catch {
      return -1;
    }
  };
  return [...names].sort((one, other) => capability(other) - capability(one))[0];
}

function takeExample(gpu, cpu) {
  pasted = null;
  byId("gpu").value = gpu;
  byId("cpu").value = cpu;
  update();
}

/** The cells that the machine runs, as `BRANCH SUFFIX`. */
function runningOn(machine, gpu) {
  const driver = driverNumber(machine.gpus[0]?.driver ?? "");
  const offers = Object.keys(data.packages).flatMap((name) => offersOf(data, name, gpu));
  const runs = (offer) =>
    offer.system === machine.system &&
    machine.isas.includes(offer.isa) &&
    (offer.gpu === "cpu" || gpu?.runs.includes(offer.gpu)) &&
    (!driver || driver >= offer.driver);
  return new Set(offers.filter(runs).map((offer) => `${offer.branch} ${offer.name.slice(offer.package.length + 1)}`));
}

// All together.

let answer = null; // the best, and the cells that run, on the machine that the fields tell of

function update() {
  const machine = machineOf();
  const place = byId("answer");
  if (machine === null) {
    answer = null;
    place.replaceChildren(emptyAnswer(takeExample));
  } else {
    const choice = select(data, machine, wishesOf());
    const gpu = machine.gpus.length ? (data.gpus[smOf(machine.gpus[0])] ?? null) : null;
    answer = { best: choice.best, running: choice.impossible ? new Set() : runningOn(machine, gpu) };
    place.replaceChildren(...shownAnswer(choice).filter(Boolean));
  }
  byId("mine").disabled = answer === null;
  document.body.classList.toggle("chosen", answer !== null);
  filter(answer);
  keepAddress();
}

function keepAddress() {
  const kept = new URLSearchParams();
  for (const id of fields) if (byId(id).value.trim()) kept.set(id, byId(id).value.trim());
  if (pasted && pasted.name === byId("cpu").value.trim()) kept.set("cpu", bestIsas(pasted.isas).replaceAll(", ", ","));
  const { package: package_, workload } = wishesOf();
  if (package_ !== shownPackages()[0]) kept.set("package", package_);
  if (workload !== Object.keys(data.workloads)[0]) kept.set("workload", workload);
  history.replaceState(null, "", kept.size ? `#${kept}` : location.pathname + location.search);
}

function takeAddress() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const id of fields) {
    const field = byId(id);
    const value = kept.get(id) ?? "";
    if (field.tagName !== "SELECT" || [...field.options].some((option) => option.value === value)) field.value = value;
  }
  for (const name of ["package", "workload"]) {
    const chosen = [...document.querySelectorAll(`input[name="${name}"]`)];
    (chosen.find((input) => input.value === kept.get(name)) ?? chosen[0]).checked = true;
  }
}

const shownPackages = () => data.package_order.filter((name) => data.packages[name].here);

function options(id, rows) {
  byId(id).replaceChildren(...rows.map(([value, text]) => make("option", { value, text })));
}

function choices(id, name, rows) {
  const made = rows.map(([value, text]) =>
    make("label", {}, make("input", { type: "radio", name, value }), make("span", { text })),
  );
  byId(id).append(...made);
  byId(id).hidden = rows.length < 2;
}

function fill() {
  const gpus = Object.values(data.gpus).flatMap((gpu) =>
    gpu.products.map((product) => [product, `${gpu.name}, ${gpu.architecture}`]),
  );
  byId("gpus").append(
    make("option", { value: "none", label: "no GPU" }),
    ...gpus.map(([value, label]) => make("option", { value, label })),
  );
  const known = data.names.cpu;
  const cpus = known.shown.map((name) => [name, bestIsas(cpuOf(data, name).isas)]);
  const isas = Object.entries(data.isas).map(([name, isa]) => [name, isa.title]);
  byId("cpus").append(...[...cpus, ...isas].map(([value, label]) => make("option", { value, label })));
  options("branch", [["", "newest"], ...data.branch_order.map((name) => [name, name])]);
  options("python", [["", "newest"], ...data.pythons.map((name) => [name, name])]);
  options(
    "shown-python",
    data.pythons.map((name) => [name, name]),
  );
  options("system", [["", "any"], ...Object.entries(data.systems)]);
  for (const id of ["python-field", "shown-python-field"]) byId(id).hidden = data.pythons.length < 2;
  choices(
    "packages",
    "package",
    shownPackages().map((name) => [name, data.packages[name].title]),
  );
  choices(
    "workloads",
    "workload",
    Object.entries(data.workloads).map(([name, one]) => [name, one.title]),
  );
  const variants = data.cells.reduce((sum, cell) => sum + cell.packages.length, 0);
  const used = (axis) => new Set(data.cells.map((cell) => cell[axis])).size;
  const architectures = used("gpu") - Number(data.cells.some((cell) => cell.gpu === "cpu"));
  byId("summary").textContent =
    `${count(variants, "variant")} of ${listed(
      data,
      shownPackages().map((name) => data.packages[name].title),
    )}, each built for one of ` +
    `${count(architectures, "GPU architecture")} or the CPU alone, ` +
    `one of ${count(used("isa"), "instruction set")}, and one of ` +
    `${count(data.branch_order.length, "CUDA toolkit")}. This page says which of them is yours.`;
  byId("source").replaceChildren(
    `Compiled by ci-compile from ${data.spec}. `,
    repository ? make("a", { href: repository, text: "Repository" }) : "",
  );
}

// Light and dark.

const THEMES = ["auto", "light", "dark"];

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  byId("theme").value = name;
}

function remembered(write) {
  try {
    if (write) localStorage.setItem("theme", write);
    return localStorage.getItem("theme");
  } catch {
    return null; // storage may be switched off
  }
}

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(byId("theme").value) + 1) % THEMES.length];
  remembered(next);
  theme(next);
});

theme(THEMES.includes(remembered()) ? remembered() : "auto");
fill();
takeAddress();
drawGrids();
update();

byId("machine").addEventListener("submit", (event) => event.preventDefault());
byId("machine").addEventListener("input", (event) => {
  if (event.target.id === "paste") takePaste();
  else {
    if (event.target.id === "cpu") pasted = null;
    update();
  }
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", (event) => {
  if (event.target.id === "shown-python") drawGrids();
  filter(answer);
});
byId("opened").addEventListener("click", (event) => {
  if (event.target === byId("opened")) byId("opened").close();
});
addEventListener("hashchange", () => {
  takeAddress();
  update();
});
