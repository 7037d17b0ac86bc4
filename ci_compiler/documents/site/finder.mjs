// Which variant a machine should run: the choice of `ci-compile select`, from the same tables and with its sentences.
// Pure functions of the page's data; page.mjs shows what they answer.
import { smOf } from "./names.mjs";

// Sentences.

const say = (data, key, values = {}) => data.sentences[key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));

/** `a, b and c`, each once. */
export function listed(data, words) {
  const each = [...new Set(words)];
  const last = each.pop() ?? say(data, "nothing");
  return each.length ? `${each.join(", ")} ${say(data, "and")} ${last}` : last;
}

// Choosing.

/** A driver's major version, 0 where the text is none. */
export const driverNumber = (text) => Number(/^[0-9]{1,6}(?![0-9])/.exec(text)?.[0] ?? 0);

/** The answer for `machine` ({system, isas, gpus}) and `wishes` ({package, workload, branch, python}). */
export function select(data, machine, wishes) {
  return new Chooser(data, machine, wishes).choice();
}

const least = (items, key) =>
  items.reduce((best, item) => (best && compare(key(best), key(item)) <= 0 ? best : item), null);

function compare(one, other) {
  const at = one.findIndex((value, index) => value !== other[index]);
  return at < 0 ? 0 : one[at] - other[at];
}

class Chooser {
  constructor(data, machine, wishes) {
    Object.assign(this, { data, machine, wishes });
    this.device =
      [...machine.gpus].sort((a, b) => compare([...b.capability, a.index], [...a.capability, b.index]))[0] ?? null;
    this.gpu = this.device ? (data.gpus[smOf(this.device)] ?? null) : null;
    this.driver = this.device ? driverNumber(this.device.driver) : 0;
    this.branches = data.newest[wishes.package];
    this.isas = data.workloads[wishes.workload].order;
    this.offers = offersOf(data, wishes.package, this.gpu);
    this.wanted = this.offers.filter((offer) => this.askedFor(offer));
  }

  choice() {
    const answer = { best: null, impossible: false, problems: [], why: [], runners_up: [], better: [], install: [] };
    if (this.gpu && !this.gpu.systems.includes(this.machine.system))
      return { ...answer, impossible: true, problems: [this.impossible()] };
    const best = this.best(this.wanted);
    if (this.device && (best === null || best.gpu === "cpu")) answer.problems.push(this.unservedGpu());
    if (best === null) {
      answer.problems.push(this.unserved());
      return { ...answer, better: this.better(null) };
    }
    return {
      ...answer,
      best,
      why: this.why(best),
      runners_up: this.runnersUp(best),
      better: this.better(best),
      install: installOf(this.data, best),
    };
  }

  say(key, values) {
    return say(this.data, key, values);
  }

  listed(words) {
    return listed(this.data, words);
  }

  // What fits.

  askedFor(offer) {
    const { branch, python } = this.wishes;
    return (!branch || branch === offer.branch) && (!python || python === offer.python);
  }

  runsCubin(offer) {
    return offer.gpu !== "cpu" && this.gpu !== null && this.gpu.runs.includes(offer.gpu);
  }

  gpuFits(offer) {
    return offer.gpu === "cpu" || this.runsCubin(offer);
  }

  systemFits(offer) {
    return offer.system === this.machine.system;
  }

  isaFits(offer) {
    return this.machine.isas.includes(offer.isa);
  }

  driverFits(offer) {
    return !this.driver || this.driver >= offer.driver;
  }

  fitsButDriver(offer) {
    return this.systemFits(offer) && this.isaFits(offer) && this.gpuFits(offer);
  }

  fits(offer) {
    return this.fitsButDriver(offer) && this.driverFits(offer);
  }

  rank(offer) {
    const alone = offer.gpu === "cpu";
    const distance = alone ? 0 : (this.gpu?.capability[1] ?? 0) - this.data.gpus[offer.gpu].capability[1];
    return [
      Number(alone),
      distance,
      this.branches.indexOf(offer.branch),
      this.isas.indexOf(offer.isa),
      this.data.pythons.indexOf(offer.python),
    ];
  }

  best(offers) {
    return least(
      offers.filter((offer) => this.fits(offer)),
      (offer) => this.rank(offer),
    );
  }

  isBetter(offer, than) {
    return offer !== null && (than === null || compare(this.rank(offer), this.rank(than)) < 0);
  }

  // Why nothing, or no GPU variant, serves.

  impossible() {
    const { name, summary, systems } = this.gpu;
    return this.say("impossible", { gpu: name, summary, systems: this.listed(systems), system: this.machine.system });
  }

  where() {
    const { branch, python } = this.wishes;
    return (branch ? this.say("where-branch", { branch }) : "") + (python ? this.say("where-python", { python }) : "");
  }

  unservedGpu() {
    const said = { gpu: smOf(this.device), where: this.where(), system: this.machine.system };
    if (this.gpu === null) return this.say("gpu-unknown", { ...said, device: this.device.name });
    const run = this.wanted.filter((offer) => this.runsCubin(offer));
    if (!run.length) return this.say("gpu-unbuilt", said);
    const here = run.filter((offer) => this.systemFits(offer));
    if (!here.length)
      return this.say("gpu-system", { ...said, systems: this.listed(run.map((offer) => offer.system)) });
    const usable = here.filter((offer) => this.isaFits(offer));
    if (!usable.length)
      return this.say("gpu-isa", { ...said, isas: this.leastIsas(here), has: this.listed(this.machine.isas) });
    const needed = Math.min(...usable.map((offer) => offer.driver));
    return this.say("gpu-driver", { ...said, needed, driver: this.driver });
  }

  unserved() {
    const said = { package: this.wishes.package, system: this.machine.system, where: this.where() };
    const here = this.wanted.filter((offer) => this.systemFits(offer) && offer.gpu === "cpu");
    if (!here.length || here.some((offer) => this.isaFits(offer))) return this.say("none-system", said);
    return this.say("none-isa", { ...said, isas: this.leastIsas(here), has: this.listed(this.machine.isas) });
  }

  leastIsas(offers) {
    const names = Object.keys(this.data.isas).filter((isa) => offers.some((offer) => offer.isa === isa));
    const included = (isa) => this.data.isas[isa].runs.some((other) => other !== isa && names.includes(other));
    return this.listed(names.filter((isa) => !included(isa)));
  }

  // Why the best is the best.

  why(best) {
    const said = [];
    if (new Set(this.machine.gpus.map(smOf)).size > 1)
      said.push(this.say("strongest", { device: this.device.name, gpu: smOf(this.device) }));
    if (best.gpu === "cpu") said.push(this.say(this.device ? "cpu-only" : "no-gpu"));
    else if (best.gpu === this.gpu.name) said.push(this.say("gpu-own", { gpu: best.gpu }));
    else said.push(this.say("gpu-nearest", { gpu: best.gpu, own: this.gpu.name }));
    return [...said, ...this.whyBranch(best), this.whyIsa(best)];
  }

  whyBranch(best) {
    const said = [];
    const newer = this.wanted.filter(
      (offer) => offer.gpu === best.gpu && this.fitsButDriver(offer) && !this.driverFits(offer),
    );
    if (this.wishes.branch) said.push(this.say("branch-asked", best));
    else if (newer.length) {
      const first = least(newer, (offer) => this.rank(offer));
      said.push(this.say("branch-driver", { ...best, newer: first.cuda, needed: first.driver, driver: this.driver }));
    } else said.push(this.say(best.branch === this.branches[0] ? "branch-newest" : "branch-serves", best));
    if (best.gpu !== "cpu") {
      const key = this.driver ? "driver-runs" : "driver-unknown";
      said.push(this.say(key, { cuda: best.cuda, needed: best.driver, driver: this.driver }));
    }
    return said;
  }

  whyIsa(best) {
    const { isa: suited, words: workload } = this.data.workloads[this.wishes.workload];
    const { isa } = best;
    if (suited && isa === suited) return this.say("isa-suited", { isa, workload });
    if (suited && this.data.isas[suited].system === best.system) {
      const key = this.machine.isas.includes(suited) ? "isa-unbuilt" : "isa-lacks";
      return this.say(key, { suited, isa, workload });
    }
    const others = Object.values(this.data.workloads).filter(
      (one) => one.isa && one.isa !== isa && this.machine.isas.includes(one.isa),
    );
    if (others.length && this.data.isas[others[0].isa].runs.includes(isa)) {
      const theirs = this.listed(others.map((one) => one.words));
      return this.say("isa-general", { isa, others: this.listed(others.map((one) => one.isa)), theirs });
    }
    const wanted = this.isas.find((name) => this.machine.isas.includes(name));
    return this.say(isa === wanted ? "isa-best" : "isa-built", { isa });
  }

  // What else.

  runnersUp(best) {
    const axes = ["gpu", "branch", "isa", "python"];
    const fitting = this.wanted.filter((offer) => this.fits(offer));
    fitting.sort((one, other) => compare(this.rank(one), this.rank(other)));
    return fitting.flatMap((offer) => {
      const differs = axes.filter((axis) => offer[axis] !== best[axis]);
      return differs.length === 1 ? [{ ...offer, note: this.other(differs[0], best, offer) }] : [];
    });
  }

  other(axis, best, offer) {
    if (axis === "gpu")
      return offer.gpu === "cpu"
        ? this.say("other-cpu")
        : this.say("other-gpu", { gpu: offer.gpu, own: this.gpu.name });
    if (axis === "branch") return this.say(offer.gpu === "cpu" ? "other-version" : "other-branch", offer);
    if (axis === "python") return this.say("other-python", offer);
    const workload = Object.values(this.data.workloads).find((one) => one.isa === offer.isa);
    if (workload) return this.say("other-workload", { workload: workload.words });
    return this.say(this.data.isas[best.isa].runs.includes(offer.isa) ? "other-isa" : "other-lesser", {
      isa: best.isa,
    });
  }

  better(best) {
    const found = [];
    let atPresent = best;
    const drivers = this.wanted.filter((offer) => !this.driverFits(offer)).map((offer) => offer.driver);
    for (const needed of [...new Set(drivers)].sort((a, b) => a - b)) {
      const fitting = this.wanted.filter((offer) => offer.driver <= needed && this.fitsButDriver(offer));
      const offer = least(fitting, (one) => this.rank(one));
      if (this.isBetter(offer, atPresent)) {
        found.push({ ...offer, note: this.say("need-driver", { needed }) });
        atPresent = offer;
      }
    }
    const elsewhere = this.best(this.offers);
    if (this.isBetter(elsewhere, best)) found.push({ ...elsewhere, note: this.wishInTheWay(elsewhere) });
    return best === null && !found.length ? this.nearest() : found;
  }

  wishInTheWay(offer) {
    const said = [];
    const { branch, python } = this.wishes;
    if (branch && branch !== offer.branch) said.push(this.say("need-branch", { branch: offer.branch, asked: branch }));
    if (python && python !== offer.python) said.push(this.say("need-python", { python: offer.python, asked: python }));
    return this.listed(said);
  }

  nearest() {
    const here = this.offers.filter((offer) => this.systemFits(offer) && this.gpuFits(offer));
    const lowest = Math.max(...here.map((offer) => this.isas.indexOf(offer.isa)));
    const least_ = here.filter((offer) => this.isas.indexOf(offer.isa) === lowest);
    const offer = least(least_, (one) => this.rank(one));
    return offer ? [{ ...offer, note: this.say("need-isa", { isa: offer.isa }) }] : [];
  }
}

/** Every variant of `package`, with the lowest driver that runs it beside `gpu` (null: the variant's own). */
export function offersOf(data, package_, gpu) {
  return data.cells.flatMap((cell) => {
    if (!cell.packages.includes(package_)) return [];
    const branch = data.branches[cell.branch];
    const own = gpu ?? data.gpus[cell.gpu];
    return [
      {
        name: `${package_}-${cell.suffix}`,
        package: package_,
        version: branch.versions[package_],
        branch: cell.branch,
        cuda: branch.cuda,
        python: cell.python,
        gpu: cell.gpu,
        isa: cell.isa,
        system: data.isas[cell.isa].system,
        driver: cell.gpu === "cpu" ? 0 : Math.max(branch.driver, own.driver),
      },
    ];
  });
}

/** The commands that install `offer`, with what it needs. */
export function installOf(data, offer) {
  if (data.backend === "nix")
    return [`git switch ${offer.branch}`, [`nix-build ${data.recipes}/${offer.name}.nix`, ...data.cache].join(" ")];
  const suffix = offer.name.slice(offer.package.length + 1);
  const ambiguous = new Set(data.cells.filter((cell) => cell.suffix === suffix).map((cell) => cell.branch)).size > 1;
  const { versions } = data.branches[offer.branch];
  return data.packages[offer.package].with_needs.map(
    (name) => `flox install ${data.owner}/${name}-${suffix}${ambiguous ? `@${versions[name]}` : ""}`,
  );
}
