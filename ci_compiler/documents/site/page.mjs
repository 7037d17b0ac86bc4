// The page: from the fields to an answer. The choices are part of the address, so that the page can be shared.
import { emptyAnswer, shownAnswer } from "./answer.mjs";
import { byId, data, make, repository } from "./elements.mjs";
import { driverNumber, highestIsas, running, select, settled } from "./finder.mjs";
import { drawGrids, filter } from "./matrix.mjs";
import { UnknownName, cpuBeside, cpuOf, gpuOf, read, strongest } from "./names.mjs";
import { offerThemes } from "./theme.mjs";

// The machine.

const fields = ["gpu", "cpu", "driver", "branch", "python"];
const ALL = "all"; // the choice of all packages, as in `ci-compile select --package all`
let pasted = null; // the CPU whose flags were pasted, while its name is in the field

/** What `look` finds for a field, explained below the field; undefined if the field is empty or wrong. */
function resolved(id, look) {
  const field = byId(id);
  const said = byId(`${id}-told`);
  const text = field.value.trim();
  said.replaceChildren();
  said.classList.remove("wrong");
  field.setAttribute("aria-invalid", "false");
  try {
    return look(text, (...parts) => said.append(...parts));
  } catch (error) {
    if (!(error instanceof UnknownName)) throw error;
    said.classList.add("wrong");
    field.setAttribute("aria-invalid", "true");
    const offers = error.near.map((name) =>
      make("button", { type: "button", text: name, onclick: () => put(id, name) }),
    );
    said.append(`${error.message}. ${offers.length ? "Did you mean " : ""}`, ...offers);
    return undefined;
  }
}

function put(id, value) {
  byId(id).value = value;
  if (id === "cpu") pasted = null;
  update();
  byId(id).focus();
}

/** The machine that the fields describe; null while they are incomplete. */
function machineOf() {
  const driver = resolved("driver", driverIn) ?? "";
  let beside = null; // the CPU that comes with what the field of the GPU names
  const gpu = resolved("gpu", (text, tell) => {
    if (!text) return undefined;
    const { found, cpu } = gpuIn(text);
    beside = cpu ?? (found ? cpuBeside(data, found) : null);
    tell(...(found ? describedGpu(found) : ["No GPU: CPU-only variants."]));
    return found;
  });
  byId("cpu").placeholder = beside ? `${beside.name} (comes with it)` : cpuPlaceholder;
  const cpu = resolved("cpu", (text, tell) => {
    const found = pasted?.name === text ? pasted : text ? cpuOf(data, text) : beside;
    if (!found && gpu !== undefined) tell("Not known: the most portable build.");
    if (!found) return undefined;
    const isas = highestIsas(data, found);
    tell(
      isas ? make("b", { text: isas }) : "no instruction set that is known here",
      found === pasted ? ", by its flags" : `, ${found.name}`,
    );
    if (found.note) tell(` (${found.note})`);
    return found;
  });
  if (gpu === undefined || byId("cpu").getAttribute("aria-invalid") === "true") return null;
  return { gpu, cpu: cpu ?? null, driver: driverNumber(driver) };
}

const cpuPlaceholder = byId("cpu").placeholder;

/** The GPU in its field (null: none), and the CPU of a machine that the field names in its place: `RTX 4090 + i9-12900K`. */
function gpuIn(text) {
  try {
    return { found: gpuOf(data, text), cpu: null };
  } catch (error) {
    if (!(error instanceof UnknownName) || error.foreign) throw error;
    const { gpus, none, cpu, problem } = read(data, text);
    if (problem || !(gpus.length || none)) throw error;
    return { found: gpus.length ? gpuOf(data, strongest(data, gpus)) : null, cpu };
  }
}

function driverIn(text) {
  if (text && !driverNumber(text)) throw new UnknownName("A driver's version is a number, as 580 or 580.65.06", []);
  return text;
}

function describedGpu({ sm }) {
  const known = data.gpus[sm];
  return [make("b", { text: sm }), known ? `, ${known.architecture}` : ", an architecture that is not known here"];
}

function wishesOf() {
  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
  return {
    package: chosen("package") === ALL ? data.lead : chosen("package"),
    everything: chosen("package") === ALL,
    workload: chosen("workload"),
    branch: byId("branch").value,
    python: byId("python").value,
  };
}

const PROBLEMS = {
  cut: `A GPU's name is cut short in this output; ${data.names.tool} -L prints it in full.`,
  several: "Several machines are named in this; paste one of them.",
  none: "No GPU or CPU is named in this.",
  other: `This names a GPU of which nothing is known here; type ${["none", ...data.names.undescribed].join(" or ")}.`,
};

function takePaste() {
  const text = byId("paste").value;
  const said = byId("paste-told");
  said.classList.remove("wrong");
  said.textContent = "";
  if (!text.trim()) return;
  let found;
  try {
    found = read(data, text);
  } catch (error) {
    if (!(error instanceof UnknownName)) throw error;
    found = { ...read(data, text.replace(/^\s*model name.*$/gim, "")), cpu: null };
  }
  if (found.cpu) {
    pasted = found.cpu.flags ? found.cpu : null;
    byId("cpu").value = found.cpu.name;
  }
  if (found.gpus.length) byId("gpu").value = strongest(data, found.gpus);
  else if (found.none) byId("gpu").value = "none";
  if (found.driver) byId("driver").value = found.driver;
  const got = [
    found.gpus.length && found.gpus.join(", "),
    found.cpu?.name,
    found.driver && `driver ${found.driver}`,
  ].filter(Boolean);
  said.classList.toggle("wrong", found.problem !== "");
  said.textContent = PROBLEMS[found.problem] ?? `Read: ${got.join("; ") || "no GPU"}.`;
  update();
}

const EXAMPLES = [
  ["RTX 4090", "Ryzen 9 7950X"],
  ["H100", "Xeon Platinum 8480+"],
  ["DGX Spark", ""],
  ["GTX 1080 Ti", "Core i7-3770"],
  ["none", "Graviton4"],
];

/** Whether a variant serves the GPU and the CPU of an example. */
function isServed([name, cpuName]) {
  const gpu = gpuOf(data, name);
  const cpu = cpuName ? cpuOf(data, cpuName) : cpuBeside(data, gpu);
  const { best } = select(data, { gpu, cpu, driver: 0 }, wishesOf());
  return best !== null && (gpu === null || best.target !== "cpu");
}

function takeExample(gpu, cpu) {
  pasted = null;
  byId("gpu").value = gpu;
  byId("cpu").value = cpu;
  update();
}

// The whole page.

let answer = null; // the best variant and the cells that run on the machine of the fields

function update() {
  const machine = machineOf();
  const place = byId("answer");
  if (machine === null) {
    answer = null;
    place.replaceChildren(emptyAnswer(EXAMPLES.filter(isServed), takeExample));
  } else {
    const wishes = wishesOf();
    const choice = select(data, machine, wishes);
    answer = { best: choice.best, running: running(data, settled(data, machine, wishes)) };
    place.replaceChildren(...shownAnswer(choice, { everything: wishes.everything, cpu: machine.cpu }).filter(Boolean));
  }
  byId("mine").disabled = answer === null;
  document.body.classList.toggle("chosen", answer !== null);
  filter(answer);
  keepAddress();
}

function keepAddress() {
  const kept = new URLSearchParams();
  for (const id of fields) if (byId(id).value.trim()) kept.set(id, byId(id).value.trim());
  if (pasted && pasted.name === byId("cpu").value.trim()) kept.set("cpu", highestIsas(data, pasted).replaceAll(", ", ","));
  const { package: package_, everything, workload } = wishesOf();
  if (!everything && shownPackages().length > 1) kept.set("package", package_);
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

/** A branch in the words of its users: `PyTorch 2.10.0, CUDA 13.0 (cuda-13_0)`. */
function releaseOf(branch) {
  const { toolkits, versions } = data.branches[branch];
  const name = shownPackages().find((one) => versions[one]);
  const parts = [name && `${data.packages[name].title} ${versions[name]}`, toolkits.length && `${data.family.toolkit} ${toolkits.join(", ")}`];
  return `${parts.filter(Boolean).join(", ")} (${branch})`;
}

const shownPackages = () => Object.keys(data.packages).filter((name) => data.packages[name].here);

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

function fillFields() {
  const gpus = Object.entries(data.gpus).flatMap(([name, gpu]) =>
    gpu.products.map((product) => [product, `${name}, ${gpu.architecture}`]),
  );
  byId("gpus").append(
    make("option", { value: "none", label: "no GPU" }),
    ...gpus.map(([value, label]) => make("option", { value, label })),
  );
  const known = data.names.cpu;
  const cpus = known.shown.map((name) => [name, highestIsas(data, cpuOf(data, name))]);
  const isas = Object.entries(data.isas).map(([name, isa]) => [name, isa.title]);
  byId("cpus").append(...[...cpus, ...isas].map(([value, label]) => make("option", { value, label })));
  options("branch", [["", "newest that runs"], ...data.branch_order.map((name) => [name, releaseOf(name)])]);
  options("python", [["", "newest"], ...data.pythons.map((name) => [name, name])]);
  options(
    "shown-python",
    data.pythons.map((name) => [name, name]),
  );
  options("system", [["", "any"], ...Object.entries(data.systems)]);
  for (const id of ["python-field", "shown-python-field"]) byId(id).hidden = data.pythons.length < 2;
  const packages = shownPackages().map((name) => [name, data.packages[name].title]);
  choices("packages", "package", packages.length > 1 ? [[ALL, "All"], ...packages] : packages);
  choices(
    "workloads",
    "workload",
    Object.entries(data.workloads),
  );
  if (repository) byId("source").append(" ", make("a", { href: repository, text: "Repository" }));
}

offerThemes();
fillFields();
document.body.classList.toggle("runs-known", data.lasts.length > 0);
takeAddress();
drawGrids();
update();

for (const id of ["machine", "wishes"]) byId(id).addEventListener("submit", (event) => event.preventDefault());
byId("wishes").addEventListener("input", update);
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
