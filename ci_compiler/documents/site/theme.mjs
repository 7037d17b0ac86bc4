// The button for light and dark, which both pages share, as they share what was chosen.
import { byId } from "./elements.mjs";

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
    return null; // storage may be disabled
  }
}

export function offerThemes() {
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(byId("theme").value) + 1) % THEMES.length];
    remembered(next);
    theme(next);
  });
  theme(THEMES.includes(remembered()) ? remembered() : "auto");
}
