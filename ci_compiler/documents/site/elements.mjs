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

export function sentence(text) {
  return `${/^[a-z]+[0-9_-]/.test(text) ? text : text[0].toUpperCase() + text.slice(1)}.`;
}
