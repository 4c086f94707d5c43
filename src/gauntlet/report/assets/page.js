// What every page shares: theme, state in the address, tables that sort and filter, copy buttons.
"use strict";

// The address holds what a reader chose, so that a view can be shared: #section?sort.leaderboard=2.desc&show.curve=fog
const state = (() => {
  const read = () => {
    const [anchor, query] = decodeHash().split("?");
    return { anchor, params: new URLSearchParams(query || "") };
  };
  const decodeHash = () => location.hash.slice(1);
  let { anchor, params } = read();
  const write = () => {
    const query = params.toString();
    history.replaceState(null, "", "#" + anchor + (query ? "?" + query : ""));
    for (const listener of listeners) listener();
  };
  const listeners = [];
  addEventListener("hashchange", () => {
    const now = read();
    anchor = now.anchor;
    if (location.hash.includes("?")) params = now.params;
    else if (params.toString()) write();
    document.dispatchEvent(new CustomEvent("statechange"));
  });
  addEventListener("DOMContentLoaded", () => {
    // The browser looks for an element whose id is the whole fragment, query and all.
    if (location.hash.includes("?") && anchor) document.getElementById(anchor)?.scrollIntoView();
  });
  return {
    get: (key) => params.get(key),
    set: (key, value) => {
      if (value === null || value === "") params.delete(key);
      else params.set(key, value);
      write();
    },
    listen: (listener) => listeners.push(listener),
  };
})();

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Theme: what the system says, unless the reader chose.
const theme = (() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("gauntlet-theme"); } catch { return null; } };
  const remember = (value) => { try { localStorage.setItem("gauntlet-theme", value); } catch { /* private windows */ } };
  const root = document.documentElement;
  const chosen = state.get("theme") || remembered();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const changed = () => document.dispatchEvent(new CustomEvent("themechange"));
  dark.addEventListener("change", changed);
  let before;
  return {
    isDark,
    // Paper is light: a theme for as long as something is printed, then what was there before.
    force: (value) => {
      if (value) { before = root.dataset.theme; root.dataset.theme = value; }
      else if (before) root.dataset.theme = before;
      else delete root.dataset.theme;
      changed();
    },
    toggle: () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      changed();
    },
  };
})();

// Tables -----------------------------------------------------------------------------------------------------------

const numberIn = (cell) => {
  const text = (cell.firstChild?.textContent || "").trim();
  if (text === "inf") return Infinity;
  const value = parseFloat(text.replace("<", ""));
  return Number.isNaN(value) ? null : value;
};

function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const numeric = table.tHead.rows[0].cells[column].classList.contains("n");
  const key = (row) => (numeric ? numberIn(row.cells[column]) : row.cells[column].textContent);
  const rows = [...body.rows].map((row, index) => ({ row, index, key: key(row) }));
  const compare = (a, b) => (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  rows.sort((a, b) => {
    // What has no figure stays at the end, whichever way the table is sorted.
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.index - b.index;
    return (descending ? -1 : 1) * compare(a.key, b.key) || a.index - b.index;
  });
  body.append(...rows.map((each) => each.row));
  for (const [index, head] of [...table.tHead.rows[0].cells].entries()) {
    if (index === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function filterTable(table, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
    if (!row.hidden) shown += 1;
  }
  return shown;
}

function setUpTable(table) {
  const id = table.id;
  for (const [index, head] of [...table.tHead.rows[0].cells].entries()) {
    const button = element("button", { type: "button", onclick: () => {
      const now = head.getAttribute("aria-sort");
      const numeric = head.classList.contains("n");
      const descending = now ? now === "ascending" : numeric;
      sortTable(table, index, descending);
      state.set("sort." + id, `${index}.${descending ? "desc" : "asc"}`);
    } });
    button.append(...head.childNodes);
    head.append(button);
  }
  const tools = table.closest(".scroll").previousElementSibling;
  const input = tools?.querySelector("input[type=search]");
  if (input) {
    const count = tools.querySelector("output");
    const apply = () => {
      const shown = filterTable(table, input.value);
      count.textContent = input.value ? `${shown} of ${table.tBodies[0].rows.length}` : "";
    };
    input.addEventListener("input", () => { apply(); state.set("find." + id, input.value); });
    const given = state.get("find." + id);
    if (given) { input.value = given; apply(); }
  }
  const bounds = tools?.querySelector("button.bounds-button");
  bounds?.addEventListener("click", () => {
    const on = table.classList.toggle("bounds");
    bounds.setAttribute("aria-pressed", String(on));
  });
  const [column, order] = (state.get("sort." + id) || "").split(".");
  if (order && table.tHead.rows[0].cells[Number(column)]) sortTable(table, Number(column), order === "desc");
}

function markCurrentSection() {
  const links = new Map([...document.querySelectorAll(".toc a[href^='#']")].map((a) => [a.hash.slice(1), a]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) observer.observe(target);
  }
}

addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme")?.addEventListener("click", theme.toggle);
  document.querySelectorAll("table[id]").forEach(setUpTable);
  document.querySelectorAll("button.copy").forEach((button) => button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code").textContent;
    let copied = true;
    try { await navigator.clipboard.writeText(text); } catch {  // not there on plain http: select, and copy the old way
      const range = document.createRange();
      range.selectNodeContents(button.parentElement.querySelector("code"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "copied" : "selected";
  }));
  markCurrentSection();
});
