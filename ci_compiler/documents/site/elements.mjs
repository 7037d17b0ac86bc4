// Shared by all parts of the page: the data, elements, commands to copy, links to GitHub.

export const data = JSON.parse(document.getElementById("data").textContent);
export const byId = (id) => document.getElementById(id);

// Elements.

/** An element with properties (`text`, `class`, `on…`, attributes) and children. Text is never markup. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const count = (number, one, several = `${one}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? one : several}`;

/** A variant's name, which may wrap after its hyphens. */
export function named(name) {
  return name
    .split(/(?<=-)/)
    .flatMap((part) => [part, make("wbr")])
    .slice(0, -1);
}

export function command(lines) {
  const text = lines.join("\n");
  return make("div", { class: "command" }, make("pre", {}, make("code", { text })), copying(text));
}

export function copying(text, label = "Copy") {
  const button = make("button", { type: "button", text: label, "aria-label": `${label}: ${text}` });
  button.addEventListener("click", async () => {
    const copied = await copy(text);
    button.textContent = copied ? "Copied" : "Press Ctrl+C";
    button.classList.toggle("done", copied);
    byId("copied").textContent = copied ? `Copied ${text}` : "";
    setTimeout(() => {
      button.textContent = label;
      button.classList.remove("done");
    }, 2000);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { class: "hidden", readonly: true });
    field.value = text;
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}

// Grids.

/** Makes a grid one stop of the Tab key, in which other keys move the focus. */
export function walking(table) {
  const [first, ...others] = table.querySelectorAll("button.cell");
  first?.setAttribute("tabindex", "0");
  for (const one of others) one.setAttribute("tabindex", "-1");
  table.addEventListener("keydown", walk);
}

/** Arrow keys, Home and End in a grid move the focus, and the tab stop of the grid, to another cell. */
function walk(event) {
  const from = event.target.closest("button.cell");
  const steps = {
    ArrowRight: [0, 1],
    ArrowLeft: [0, -1],
    ArrowDown: [1, 0],
    ArrowUp: [-1, 0],
    Home: [0, -99],
    End: [0, 99],
  };
  const step = steps[event.key];
  if (!from || !step) return;
  event.preventDefault();
  const rows = [...event.currentTarget.querySelectorAll("tbody tr")].map((line) => [
    ...line.querySelectorAll("td[role]"),
  ]);
  const y = rows.findIndex((line) => line.some((cell) => cell.contains(from)));
  const x = rows[y].findIndex((cell) => cell.contains(from));
  const inRow = rows[y]
    .map((cell, at) => [cell, at])
    .filter(([cell, at]) => cell.firstChild && Math.sign(at - x) === Math.sign(step[1]));
  const inColumn = rows
    .map((line, at) => [line[x], at])
    .filter(([cell, at]) => cell.firstChild && Math.sign(at - y) === Math.sign(step[0]));
  const ways = step[1] ? inRow : inColumn;
  const forwards = step[0] + step[1] > 0;
  const toTheEnd = Math.abs(step[1]) > 1;
  const [to] = (toTheEnd === forwards ? ways.at(-1) : ways[0]) ?? [];
  if (!to) return;
  from.setAttribute("tabindex", "-1");
  to.firstChild.setAttribute("tabindex", "0");
  to.firstChild.focus();
}

// Links to GitHub.

/** The repository that links lead to: the compiled one, else the one that the GitHub Pages address belongs to. */
function repositoryUrl() {
  if (data.repository) return `https://github.com/${data.repository}`;
  const [, owner] = /^([a-z0-9-]+)\.github\.io$/i.exec(location.hostname) ?? [];
  const name = location.pathname.split("/")[1];
  return owner && name && name !== "index.html" ? `https://github.com/${owner}/${name}` : "";
}

export const repository = repositoryUrl();

export function link(text, path) {
  return repository ? make("a", { href: `${repository}/${path}` }, named(text)) : make("code", {}, named(text));
}

/** `text` as a sentence, whose first word stays as it is if it is a name, and whose dates are not broken. */
export function sentence(text) {
  const whole = text.replace(/(\d{4})-(\d\d)-(\d\d)/g, "$1\u2011$2\u2011$3");
  return `${/^[a-z]+[0-9_:-]/.test(text) ? whole : whole[0].toUpperCase() + whole.slice(1)}.`;
}
