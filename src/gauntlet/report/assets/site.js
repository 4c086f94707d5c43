// The leaderboard site: a table to filter, a comparison, a correlation explorer. Everything is put in as text.
"use strict";

const site = window.GAUNTLET;
const byId = new Map(site.entries.map((entry) => [entry.id, entry]));
// toFixed rounds halves up, Python's pages round them to even: of one digit, only a quarter tells them apart.
const percent = (value) => {
  if (value === undefined || value === null) return "-";
  return (100 * value - ((100 * value) % 1 === 0.25 ? 0.01 : 0)).toFixed(1);
};
const unique = (values) => [...new Set(values)];
const form = () => document.getElementById("filters");

function choice(label, key, options, fallback, names = (value) => value) {
  const select = element("select", { name: key });
  for (const value of options) select.append(element("option", { value }, names(value)));
  const given = state.get(key);
  select.value = options.includes(given) ? given : fallback;
  select.addEventListener("change", () => { state.set(key, select.value === fallback ? null : select.value); render(); });
  form().append(element("label", {}, label, select));
  return select;
}

function search(label, key) {
  const input = element("input", { type: "search", name: key, value: state.get(key) || "" });
  input.addEventListener("input", () => { state.set(key, input.value); render(); });
  form().append(element("label", {}, label, input));
  return input;
}

function check(label, key) {
  const input = element("input", { type: "checkbox", name: key });
  input.checked = state.get(key) === "1";
  input.addEventListener("change", () => { state.set(key, input.checked ? "1" : null); render(); });
  form().append(element("label", { class: "check" }, input, label));
  return input;
}

const sourceName = (key) => (site.sources[key] || {}).title || key;
const modelLink = (entry) => {
  const link = element("a", { href: `models/${entry.id}.html` }, entry.model);
  const name = element("th", { scope: "row" }, link);
  if (entry.doubtful) name.append(element("span", { class: "doubt", title: "a known fault or doubt touches its figures" }, "!"));
  return name;
};

// The metrics of a task, the usual one first, and the scores that any of some entries has.
const metricsOf = (task) => site.metrics[task] || [];
const scoresOf = (entries, metric) => unique(entries.flatMap((entry) => Object.keys(entry.scores[metric] || {})));

// The score that ranks some entries, one of the names: as gauntlet.analysis.scoring.ranking.deciding_score chooses it.
function decidingScore(entries, metric, names) {
  const present = entries.map((entry) => Object.keys(entry.scores[metric] || {}));
  const threatened = present.filter((own) => own.some((name) => name !== "clean")).length || present.length;
  const entriesWith = (name) => present.filter((own) => own.includes(name)).length;
  const known = site.default_scores.filter((name) => names.includes(name));
  const common = known.filter((name) => 2 * entriesWith(name) > threatened);
  const [first] = common.length ? common : known;
  const sameKind = (common.length ? common : known).filter((name) => site.score_places[name] === site.score_places[first]);
  return sameKind.reduce((best, name) => (entriesWith(name) > entriesWith(best) ? name : best), first);
}

let render = () => {};

// Leaderboard -------------------------------------------------------------------------------------------------------

function leaderboard() {
  const own = site.entries.find((entry) => entry.source === "store");
  const first = own || site.entries[0];
  const picked = new Set((state.get("pick") || "").split(",").filter((id) => byId.has(id)));

  function choices() {
    form().replaceChildren();
    const tasks = unique(site.entries.map((entry) => entry.task));
    const task = choice("Task", "task", tasks, first.task).value;
    const ofTask = site.entries.filter((entry) => entry.task === task);
    const datasets = unique(ofTask.map((entry) => entry.dataset));
    const dataset = choice("Dataset", "dataset", datasets, datasets.includes(first.dataset) ? first.dataset : datasets[0], (name) => name || "not named").value;
    const ofDataset = ofTask.filter((entry) => entry.dataset === dataset);
    const sources = ["", ...unique(ofDataset.map((entry) => entry.source))];
    const source = choice("Source", "source", sources, "", (key) => (key ? sourceName(key) : "all")).value;
    const metrics = metricsOf(task).filter((name) => ofDataset.some((entry) => entry.scores[name]));
    const metric = choice("Metric", "metric", metrics, metrics[0]).value;
    const kinds = ["", ...unique(ofDataset.map((entry) => entry.facts.backbone_type).filter(Boolean))];
    const kind = kinds.length > 1 ? choice("Backbone", "backbone", kinds, "", (name) => name || "all").value : "";
    const words = search("Search", "find");
    const sure = check("without doubtful figures", "sure");
    const all = check("all scores", "all");
    return { ofDataset, source, metric, kind, words, sure, all };
  }

  let chosen;
  function rows() {
    const wanted = chosen.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    return chosen.ofDataset.filter((entry) => {
      const text = [entry.model, ...Object.values(entry.facts), sourceName(entry.source)].join(" ").toLowerCase();
      return entry.scores[chosen.metric]
        && (!chosen.source || entry.source === chosen.source)
        && (!chosen.kind || entry.facts.backbone_type === chosen.kind)
        && !(chosen.sure.checked && entry.doubtful)
        && wanted.every((word) => text.includes(word));
    });
  }

  function draw() {
    const entries = rows();
    let names = scoresOf(entries, chosen.metric);
    const detail = /^mean of |^(noise|blur|weather|digital)_\d/;
    if (!chosen.all.checked) names = names.filter((name) => !detail.test(name));
    let [column, order] = (state.get("sort") || "").split("~");
    if (!names.includes(column)) [column, order] = [decidingScore(entries, chosen.metric, names), "desc"];
    const value = (entry) => entry.scores[chosen.metric][column];
    entries.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      return order === "asc" ? x - y : y - x;
    });
    const head = element("tr", {}, element("th", { scope: "col" }, "model"), element("th", { scope: "col", class: "n" }, "rank"));
    for (const name of names) {
      const button = element("button", { type: "button", onclick: () => {
        state.set("sort", `${name}~${name === column && order !== "asc" ? "asc" : "desc"}`);
        draw();
        document.querySelector(".board thead [aria-sort] button")?.focus();
      } }, name);
      const sorted = name === column ? (order === "asc" ? "ascending" : "descending") : null;
      head.append(element("th", { scope: "col", class: "n", "aria-sort": sorted }, button));
    }
    if (chosen.all.checked) for (const name of ["parameters", "year"]) head.append(element("th", { scope: "col", class: "n" }, name));
    head.append(element("th", { scope: "col" }, "source"), element("th", { scope: "col" }, "compare"));
    document.querySelector(".board thead").replaceChildren(head);
    const better = (entry) => 1 + entries.filter((other) => value(other) > value(entry)).length;
    const lines = entries.map((entry) => {
      const row = element("tr", {}, modelLink(entry), element("td", { class: "n" }, value(entry) === undefined ? "" : String(better(entry))));
      for (const name of names) {
        const figure = entry.scores[chosen.metric][name];
        const heat = figure === undefined ? null : `--v:${Math.round(100 * Math.min(1, Math.max(0, figure)))}`;
        row.append(element("td", { class: heat ? "n h" : "n", style: heat }, percent(figure)));
      }
      if (chosen.all.checked) {
        const { parameters, year } = entry.facts;
        row.append(element("td", { class: "n" }, parameters ? `${(parameters / 1e6).toFixed(1)} M` : "-"));
        row.append(element("td", { class: "n" }, year ? String(Math.floor(year)) : "-"));
      }
      const box = element("input", { type: "checkbox", "aria-label": `compare ${entry.model}` });
      box.checked = picked.has(entry.id);
      box.addEventListener("change", () => {
        if (box.checked) picked.add(entry.id); else picked.delete(entry.id);
        state.set("pick", [...picked].join(","));
        summary(entries);
      });
      row.append(element("td", { class: "t" }, sourceName(entry.source).split(",")[0]), element("td", {}, box));
      return row;
    });
    document.querySelector(".board tbody").replaceChildren(...lines);
    summary(entries, column);
  }

  function summary(entries, column) {
    document.getElementById("count").textContent = `${entries.length} models.`;
    const note = document.getElementById("note");
    note.replaceChildren();
    if (column) note.dataset.column = column;
    note.append(`${chosen.metric} in per cent, ranked by ${note.dataset.column}. `);
    if (picked.size > 1) note.append(element("a", { class: "button", href: `compare.html#?models=${[...picked].join(",")}` }, `Compare the ${picked.size} chosen`));
  }

  document.getElementById("intro").textContent =
    `${site.entries.length} models from ${unique(site.entries.map((entry) => entry.source)).length} sources. Click a column to sort by it; the address keeps the view.`;
  render = () => {
    const focused = document.activeElement?.name;
    const caret = document.activeElement?.selectionStart;
    chosen = choices();
    draw();
    const again = focused && form().elements[focused];
    if (again) { again.focus(); if (again.type === "search") again.setSelectionRange(caret, caret); }
  };
}

// Comparison --------------------------------------------------------------------------------------------------------

function compare() {
  const ids = () => (state.get("models") || "").split(",").filter((id) => byId.has(id));
  const set = (list) => { state.set("models", unique(list).join(",")); render(); };

  render = () => {
    form().replaceChildren();
    const chosen = ids().map((id) => byId.get(id));
    const task = chosen[0]?.task;
    const candidates = site.entries.filter((entry) => !ids().includes(entry.id) && (!task || entry.task === task))
      .sort((a, b) => (b.dataset === chosen[0]?.dataset) - (a.dataset === chosen[0]?.dataset));
    const add = element("select", { name: "add" }, element("option", { value: "" }, "choose a model"));
    for (const entry of candidates) add.append(element("option", { value: entry.id }, `${entry.model} | ${entry.dataset || "not named"} | ${sourceName(entry.source)}`));
    add.addEventListener("change", () => { if (add.value) set([...ids(), add.value]); });
    form().append(element("label", {}, "Add", add));
    const metrics = metricsOf(task || "segmentation").filter((name) => chosen.some((entry) => entry.scores[name] || (site.figures[entry.id] || {})[name]));
    const metric = metrics.length ? choice("Metric", "metric", metrics, metrics[0]).value : "";
    document.getElementById("chosen").replaceChildren(...chosen.map((entry) => element("li", {},
      element("a", { href: `models/${entry.id}.html` }, `${entry.model} (${entry.dataset || "not named"})`),
      element("button", { type: "button", "aria-label": `remove ${entry.model}`, onclick: () => set(ids().filter((id) => id !== entry.id)) }, "\u00d7"))));
    const datasets = unique(chosen.map((entry) => entry.dataset));
    document.getElementById("warning").textContent = datasets.length > 1
      ? `These models were evaluated on different datasets (${datasets.join(", ")}): their figures cannot be compared directly.` : "";
    table(chosen, metric);
    chart(chosen, metric);
  };

  function values(entry, metric) {
    return { ...(entry.scores[metric] || {}), ...((site.figures[entry.id] || {})[metric] || {}) };
  }

  function table(chosen, metric) {
    const columns = chosen.map((entry) => values(entry, metric));
    const names = unique(columns.flatMap((each) => Object.keys(each)));
    document.querySelector(".board thead").replaceChildren(element("tr", {}, element("th", { scope: "col" }, "score or threat"),
      ...chosen.map((entry) => element("th", { scope: "col", class: "n" }, entry.model))));
    document.querySelector(".board tbody").replaceChildren(...names.map((name) => {
      const figures = columns.map((each) => each[name]);
      const best = Math.max(...figures.filter((value) => value !== undefined));
      return element("tr", {}, element("th", { scope: "row" }, name), ...figures.map((value, index) => {
        if (value === undefined) return element("td", { class: "n" }, "-");
        const text = value === best && chosen.length > 1 ? element("b", {}, percent(value)) : percent(value);
        const cell = element("td", { class: "n h", style: `--v:${Math.round(100 * Math.min(1, Math.max(0, value)))}` }, text);
        if (index && figures[0] !== undefined) {
          const change = 100 * (value - figures[0]);
          cell.append(element("span", { class: "delta" }, (change < 0 ? "\u2212" : "+") + Math.abs(change).toFixed(1)));
        }
        return cell;
      }));
    }));
  }

  function chart(chosen, metric) {
    const place = document.getElementById("plot");
    const rows = chosen.map((entry) => values(entry, metric));
    const names = unique(rows.flatMap((each) => Object.keys(each))).filter((name) => rows.filter((each) => name in each).length === rows.length);
    place.hidden = chosen.length < 2 || !names.length;
    if (place.hidden) return;
    plots.draw(place, {
      alt: `${metric} of the chosen models, one row per score or threat`,
      data: chosen.map((entry, index) => ({
        type: "scatter", mode: "markers", name: escapeText(entry.model), x: names.map((name) => 100 * values(entry, metric)[name]), y: names.map(escapeText),
        marker: { size: 10, ...style(index) }, hovertemplate: "%{fullData.name}, %{y}: %{x:.1f}<extra></extra>",
      })),
      layout: { height: Math.max(280, 24 * names.length + 120), xaxis: { title: { text: `${metric} (%)` }, range: [-2, 102], automargin: true },
        yaxis: { type: "category", categoryorder: "array", categoryarray: names.map(escapeText), tickmode: "linear", automargin: true } },
    });
  }
}

// Plotly reads tags and entities in every text: what is shown as text must be escaped.
const escapeText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const style = (index) => ({ color: site.colors[index % site.colors.length], symbol: site.markers[Math.floor(index / site.colors.length) % site.markers.length] });

// Correlations ------------------------------------------------------------------------------------------------------

const statistics = {
  pearson(x, y) {
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const [a, b] = [mean(x), mean(y)];
    let [xy, xx, yy] = [0, 0, 0];
    for (let i = 0; i < x.length; i += 1) { xy += (x[i] - a) * (y[i] - b); xx += (x[i] - a) ** 2; yy += (y[i] - b) ** 2; }
    return xx > 1e-18 && yy > 1e-18 ? xy / Math.sqrt(xx * yy) : NaN;
  },
  ranks(values) {
    const order = values.map((value, index) => [value, index]).sort((a, b) => a[0] - b[0]);
    const ranks = new Array(values.length);
    for (let start = 0; start < order.length;) {
      let stop = start;
      while (stop < order.length && order[stop][0] === order[start][0]) stop += 1;
      for (let i = start; i < stop; i += 1) ranks[order[i][1]] = (start + stop + 1) / 2;
      start = stop;
    }
    return ranks;
  },
  spearman: (x, y) => statistics.pearson(statistics.ranks(x), statistics.ranks(y)),
  kendall(x, y) {
    let [agree, tiesX, tiesY, pairs] = [0, 0, 0, 0];
    for (let i = 0; i < x.length; i += 1) for (let j = 0; j < i; j += 1) {
      const [a, b] = [Math.sign(x[i] - x[j]), Math.sign(y[i] - y[j])];
      agree += a * b; tiesX += a === 0; tiesY += b === 0; pairs += 1;
    }
    const scale = Math.sqrt((pairs - tiesX) * (pairs - tiesY));
    return scale ? agree / scale : NaN;
  },
  // A small generator with a fixed seed: the same view gives the same intervals.
  interval(which, x, y, resamples = 1000) {
    const coefficient = statistics[which];
    let seed = 1;
    const draw = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
    const values = [];
    for (let r = 0; r < resamples; r += 1) {
      const picks = x.map(() => Math.floor(draw() * x.length));
      const value = coefficient(picks.map((i) => x[i]), picks.map((i) => y[i]));
      if (!Number.isNaN(value)) values.push(value);
    }
    values.sort((a, b) => a - b);
    const at = (share) => values[Math.min(values.length - 1, Math.max(0, Math.round(share * (values.length - 1))))];
    const [low, high] = statistics.fisher(which, coefficient(x, y), x.length);
    return values.length ? [Math.min(low, at(0.025)), Math.max(high, at(0.975))] : [low, high];
  },
  // As gauntlet.analysis.correlation.interval: half a step of the ranks is left below a coefficient of 1.
  fisher(which, value, n) {
    const step = { pearson: 1e-15, spearman: 3 / (n * (n * n - 1)), kendall: 2 / (n * (n - 1)) }[which];
    const variance = { pearson: 1 / (n - 3), spearman: (1 + value * value / 2) / (n - 3), kendall: 0.437 / (n - 4) }[which];
    const centre = Math.atanh(Math.min(1 - step, Math.max(step - 1, value)));
    const half = 1.959964 * Math.sqrt(variance);
    return [Math.min(value, Math.tanh(centre - half)), Math.max(value, Math.tanh(centre + half))];
  },
};

function correlations() {
  render = () => {
    form().replaceChildren();
    const tasks = unique(site.entries.map((entry) => entry.task));
    const task = choice("Task", "task", tasks, tasks[0]).value;
    let entries = site.entries.filter((entry) => entry.task === task);
    const sources = ["", ...unique(entries.map((entry) => entry.source))];
    const source = choice("Source", "source", sources, "", (key) => (key ? sourceName(key) : "all")).value;
    entries = entries.filter((entry) => !source || entry.source === source);
    const datasets = ["", ...unique(entries.map((entry) => entry.dataset))];
    const dataset = choice("Dataset", "dataset", datasets, datasets.includes("ade20k") ? "ade20k" : "", (name) => name || "all").value;
    entries = entries.filter((entry) => !dataset || entry.dataset === dataset);
    const metric = choice("Metric", "metric", metricsOf(task), metricsOf(task)[0]).value;
    entries = entries.filter((entry) => entry.scores[metric] && !(state.get("sure") === "1" && entry.doubtful));
    const facts = ["parameters", "year"].filter((name) => entries.some((entry) => entry.facts[name] !== undefined));
    const names = [...scoresOf(entries, metric), ...facts];
    const x = choice("Across", "x", names, names.includes("clean") ? "clean" : names[0]).value;
    const fallback = site.default_scores.find((name) => names.includes(name) && name !== x) || names[1] || names[0];
    const y = choice("Up", "y", names, fallback).value;
    const groups = ["", "backbone_type", "architecture", "proposal_type", "training", "dataset", "source"];
    const group = choice("Colour by", "group", groups, "backbone_type", (name) => name.replace("_", " ") || "nothing").value;
    check("without doubtful figures", "sure");
    draw(entries, metric, x, y, group);
  };

  const isFact = (name) => name === "parameters" || name === "year";
  const valueOf = (entry, metric, name) => (isFact(name) ? entry.facts[name] : entry.scores[metric][name]);
  const shown = (name, value) => (name === "parameters" ? value / 1e6 : isFact(name) ? value : 100 * value);
  const title = (name) => (name === "parameters" ? "parameters (millions)" : isFact(name) ? name : `${name} (%)`);

  function draw(entries, metric, x, y, group) {
    const points = entries.map((entry) => ({ entry, x: valueOf(entry, metric, x), y: valueOf(entry, metric, y) }))
      .filter((point) => point.x !== undefined && point.y !== undefined);
    const groupOf = ({ entry }) => (group ? entry.facts[group] || entry[group] || "not known" : "models");
    const groups = unique(points.map(groupOf));
    plots.draw(document.getElementById("plot"), {
      alt: `${y} against ${x}, one point per model`,
      data: groups.map((name, index) => {
        const members = points.filter((point) => groupOf(point) === name);
        return { type: "scatter", mode: "markers", name: escapeText(String(name)), x: members.map((point) => shown(x, point.x)), y: members.map((point) => shown(y, point.y)),
          text: members.map(({ entry }) => escapeText(`${entry.model} | ${entry.dataset}`)), marker: { size: 10, ...style(index) },
          hovertemplate: "%{text}: %{x:.1f}, %{y:.1f}<extra></extra>" };
      }),
      layout: { height: 520, showlegend: groups.length > 1, xaxis: { title: { text: escapeText(title(x)) }, automargin: true, type: x === "parameters" ? "log" : "linear" },
        yaxis: { title: { text: escapeText(title(y)) }, automargin: true, type: y === "parameters" ? "log" : "linear" } },
    });
    const rows = [["all", points], ...(groups.length > 1 ? groups.map((name) => [String(name), points.filter((point) => groupOf(point) === name)]) : [])];
    const coefficients = ["pearson", "spearman", "kendall"];
    document.querySelector(".board thead").replaceChildren(element("tr", {}, element("th", { scope: "col" }, "models"), element("th", { scope: "col", class: "n" }, "n"),
      ...["Pearson", "Spearman", "Kendall"].map((name) => element("th", { scope: "col", class: "n" }, name))));
    document.querySelector(".board tbody").replaceChildren(...rows.map(([name, members]) => {
      const [a, b] = [members.map((point) => point.x), members.map((point) => point.y)];
      return element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "n" }, String(members.length)), ...coefficients.map((which) => {
        const value = members.length < 3 ? NaN : statistics[which](a, b);
        if (Number.isNaN(value)) return element("td", { class: "n" }, "-");
        if (members.length < 6) return element("td", { class: "n", "data-value": String(value) }, value.toFixed(2));
        const [low, high] = statistics.interval(which, a, b);
        return element("td", { class: "n", "data-value": String(value) }, value.toFixed(2), element("span", { class: "delta" }, `${low.toFixed(2)} to ${high.toFixed(2)}`));
      }));
    }));
  }
}

addEventListener("DOMContentLoaded", () => {
  const page = document.querySelector("[data-page]")?.dataset.page;
  ({ leaderboard, compare, correlations })[page]?.();
  render();
  document.addEventListener("statechange", () => render());
});
