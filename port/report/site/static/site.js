// The view, the theme, the filters and the search. The pages are complete without it.
"use strict";

const remembered = {
  get(name) { try { return localStorage.getItem(`port-${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`port-${name}`, value); } catch { /* a browser may forbid it */ } },
};

for (const element of document.querySelectorAll("[data-script]")) element.hidden = false;

// ---- theme and view
const root = document.documentElement;
const header = document.querySelector("header");
const below = () => root.style.setProperty("--header", getComputedStyle(header).position === "sticky" ? `${header.offsetHeight}px` : "0px");
addEventListener("resize", below);
below();
const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
if (remembered.get("theme")) root.dataset.theme = remembered.get("theme");
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  remembered.set("theme", root.dataset.theme);
});

const views = [...document.querySelectorAll('input[name="view"]')];
function show(view) {
  root.dataset.view = view;
  for (const input of views) input.checked = input.value === view;
}
if (views.length) {
  const narrow = matchMedia("(max-width: 760px)");
  const chosen = () => remembered.get("view") ?? "both";
  const fit = () => show(narrow.matches && chosen() === "both" ? "unified" : chosen());
  narrow.addEventListener("change", fit);
  for (const input of views) input.addEventListener("change", () => { remembered.set("view", input.value); show(input.value); });
  fit();
  // A link to a line of a hidden side shows that side.
  const reveal = () => {
    const line = document.getElementById(location.hash.slice(1));
    if (line && !line.checkVisibility()) show("unified");
    if (line && !line.checkVisibility()) show(location.hash.startsWith("#jax") ? "jax" : "torch");
    line?.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();
  const contents = document.querySelector(".contents");
  document.addEventListener("click", (event) => { if (event.target.closest(".contents a") || !event.target.closest(".contents")) contents.open = false; });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") contents.open = false; });
}

// ---- filters: a row stays if it contains all words
for (const input of document.querySelectorAll("[data-filters]")) {
  const rows = [...document.querySelectorAll(input.dataset.filters)].map((row) => [row, row.textContent.toLowerCase()]);
  const sections = [...document.querySelectorAll("section")];
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [row, text] of rows) row.hidden = !words.every((word) => text.includes(word));
    for (const section of sections) section.hidden = !section.querySelector(`:is(${input.dataset.filters}):not([hidden])`);
    input.parentElement.querySelector(".nothing").hidden = rows.some(([row]) => !row.hidden);
  };
  input.addEventListener("input", filter);
  // A link to a filtered row shows all rows.
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.closest("[hidden]")) return;
    input.value = "";
    filter();
    target.scrollIntoView();
  });
}

// ---- search
const SHOWN = 40;
const box = document.getElementById("search");
const list = document.getElementById("found");
let selected = -1;

function find(typed) {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const hits = [];
  for (const [rank, title, where, link] of SEARCH_INDEX) {
    const text = `${title} ${where}`.toLowerCase();
    if (!words.every((word) => text.includes(word) || (word.startsWith("f.") && text.includes(word.replace("f.", "functional."))))) continue;
    // Within a rank, an exact match comes before a prefix, and a prefix before other matches.
    const whole = title.toLowerCase() === words.join(" ") ? 0 : title.toLowerCase().startsWith(words[0]) ? 1 : 2;
    hits.push([rank * 3 + whole, title, where, link]);
  }
  return hits.sort((a, b) => a[0] - b[0]).slice(0, SHOWN);
}

function element(name, text, more = {}) {
  const made = Object.assign(document.createElement(name), more);
  made.textContent = text;
  return made;
}

function list_found() {
  const hits = find(box.value);
  list.replaceChildren(...hits.map(([, title, where, link], place) => {
    const item = element("li", "", { id: `hit-${place}`, role: "option" });
    const anchor = element("a", title.length > 160 ? `${title.slice(0, 160)} …` : title, { href: document.body.dataset.up + link, tabIndex: -1 });
    anchor.append(element("small", where));
    item.append(anchor);
    return item;
  }));
  if (box.value.trim() && !hits.length) list.append(element("li", "nothing found", { className: "nothing" }));
  list.hidden = !box.value.trim();
  box.setAttribute("aria-expanded", String(!list.hidden));
  select(hits.length ? 0 : -1);
}

function select(place) {
  const items = list.querySelectorAll('[role="option"]');
  selected = items.length ? (place + items.length) % items.length : -1;
  items.forEach((item, number) => item.setAttribute("aria-selected", String(number === selected)));
  box.setAttribute("aria-activedescendant", selected < 0 ? "" : items[selected].id);
  if (selected >= 0) items[selected].scrollIntoView({ block: "nearest" });
}

function close() { list.hidden = true; box.setAttribute("aria-expanded", "false"); }

box.addEventListener("input", list_found);
box.addEventListener("focus", () => { if (box.value.trim()) list_found(); });
box.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    select(selected + (event.key === "ArrowDown" ? 1 : -1));
  } else if (event.key === "Enter") {
    list.querySelector('[aria-selected="true"] a')?.click();
    close();
  } else if (event.key === "Escape") {
    close();
  }
});
list.addEventListener("click", close);
document.addEventListener("click", (event) => { if (!event.target.closest(".search")) close(); });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(input|textarea|select)$/i.test(event.target.tagName)) {
    event.preventDefault();
    box.focus();
  }
});
