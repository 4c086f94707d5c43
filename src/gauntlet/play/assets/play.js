// The playground: controls, the state in the address, and a stream of events that says what the attack does.
// `state` (the address), `element` and `theme` are those of page.js.
"use strict";

const $ = (id) => document.getElementById(id);
const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
const WAIT = 180; // milliseconds after the last move of a control

let offer; // what the server has
let scene = null; // the last "clean" event
let course = []; // figures of every step
let total = 0; // steps of the attack
let missing = ""; // what the address asked for and is not here
let running = null; // the AbortController of the stream
let timer = null;

const taskOf = (address) => offer.models.find((each) => each.address === address)?.task;
const attackOf = (name) => offer.attacks[taskOf($("model").value)].find((each) => each.name === name);
const isCorruption = (name) => offer.corruptions.some((each) => each.names.includes(name));

// Controls -----------------------------------------------------------------------------------------------------------

function fill(select, groups) {
  select.replaceChildren(...groups.map(({ label, options }) => {
    const made = options.map(([value, text]) => element("option", { value }, text));
    return label ? element("optgroup", { label }, ...made) : made[0];
  }).flat());
}

// The threats for the model; whether the chosen one is still among them.
function fillThreats() {
  const chosen = $("threat").value;
  const plain = (names) => names.map((name) => [name, name.replaceAll("_", " ")]);
  fill($("threat"), [
    { options: [["clean", "nothing (the clean image)"]] },
    { label: "Attacks", options: plain(offer.attacks[taskOf($("model").value)].map((each) => each.name)) },
    ...offer.corruptions.map(({ group, names }) => ({ label: `Corruptions: ${group}`, options: plain(names) })),
  ]);
  choose($("threat"), chosen, "pgd");
  return $("threat").value === chosen;
}

function choose(select, value, otherwise) {
  const values = [...select.options].map((each) => each.value);
  select.value = values.includes(value) ? value : values.includes(otherwise) ? otherwise : values[0];
}

// A slider and a number that say the same; the number may go further than the slider.
function twin(id) {
  const [slider, number] = [$(id), $(`${id}-number`)];
  slider.addEventListener("input", () => { number.value = slider.value; });
  number.addEventListener("input", () => { slider.value = number.value; });
}

function setTwin(id, value) {
  $(id).value = value;
  $(`${id}-number`).value = value;
}

// Only the controls that the threat has; `reset` gives "all" of them, or "epsilon", their usual values.
function fitControls(reset) {
  const usual = attackOf($("threat").value)?.usual ?? {};
  const corruption = isCorruption($("threat").value);
  if (reset === "all" && usual.norm) $("norm").value = usual.norm;
  if (usual.epsilon) {
    for (const each of $("norm").options) each.disabled = each.hidden = !(each.value in usual.epsilon);
    const slider = offer.sliders[$("norm").value];
    Object.assign($("epsilon"), { max: slider.most, step: slider.step });
    if (reset) setTwin("epsilon", usual.epsilon[$("norm").value]);
  }
  for (const name of ["steps", "queries"]) {
    if (!(name in usual)) continue;
    Object.assign($(name), { max: Math.min(offer.mostSteps, Math.max(100, 2 * usual[name])), step: 1 });
    $(`${name}-number`).max = offer.mostSteps;
    if (reset === "all") setTwin(name, Math.min(usual[name], offer.mostSteps));
  }
  const region = $("region").value;
  const shown = { epsilon: "epsilon" in usual, norm: "norm" in usual, steps: "steps" in usual, queries: "queries" in usual,
    severity: corruption, square: region === "square", box: region === "box" };
  for (const each of document.querySelectorAll("[data-for]")) each.hidden = !shown[each.dataset.for];
  $("region").disabled = $("threat").value === "clean";
  $("severity-number").value = $("severity").value;
  $("canvas").classList.toggle("drawing", region === "box");
}

const corners = () => [0, 1, 2, 3].map((index) => Number($(`box-${index}`).value));

function regionText() {
  if ($("region").value === "square") return `square:${$("square-size").value}:${$("square-position").value}`;
  return $("region").value === "box" ? `box:${corners().join(",")}` : "";
}

// The state: what is in the address, and what the server is asked.
function chosenState() {
  const threat = $("threat").value;
  const usual = attackOf(threat)?.usual ?? {};
  const values = { model: $("model").value, image: upload.name ?? $("image").value, threat, seed: $("seed").value || "0" };
  if ("norm" in usual) values.norm = $("norm").value;
  for (const name of ["epsilon", "steps", "queries"]) {
    if (name in usual && $(`${name}-number`).value !== "") values[name] = $(`${name}-number`).value;
  }
  if (isCorruption(threat)) values.severity = $("severity").value;
  if (threat !== "clean" && regionText()) values.region = regionText();
  return values;
}

const KEYS = ["model", "image", "threat", "norm", "epsilon", "steps", "queries", "severity", "region", "seed"];

function writeAddress(values) {
  // Safari and Firefox refuse an address that changes too often; the attack goes on without it.
  try {
    for (const key of KEYS) if ((values[key] ?? null) !== state.get(key)) state.set(key, values[key] ?? null);
  } catch { return; }
  $("address").textContent = location.href;
}

function restore() {
  missing = "";
  for (const [id, fillNext] of [["model", fillThreats], ["threat", () => {}]]) {
    const wanted = state.get(id) ?? $(id).value;
    choose($(id), wanted, "pgd");
    if (state.get(id) && $(id).value !== wanted) missing = `The address asks for ${wanted}, which is not here; you see ${$(id).value}. `;
    fillNext();
  }
  const image = state.get("image") ?? "0";
  upload.use(/^\d+$/.test(image) ? null : image);
  if (!upload.name) $("image").value = image;
  const [kind, rest = "", position] = (state.get("region") ?? "").split(":");
  $("region").value = ["square", "box"].includes(kind) ? kind : "";
  if (kind === "square") { choose($("square-size"), rest); choose($("square-position"), position, "centre"); }
  if (kind === "box") rest.split(",").slice(0, 4).forEach((value, index) => { $(`box-${index}`).value = value; });
  if (state.get("severity")) $("severity").value = state.get("severity");
  $("seed").value = state.get("seed") ?? "0";
  fitControls("all");
  if (state.get("norm")) { choose($("norm"), state.get("norm"), "linf"); fitControls("epsilon"); }
  for (const name of ["epsilon", "steps", "queries"]) if (state.get(name)) setTwin(name, state.get(name));
}

function changed() {
  const values = chosenState();
  mark();
  clearTimeout(timer);
  phase("waiting");
  timer = setTimeout(() => { writeAddress(values); run(values); }, WAIT);
}

// The stream ---------------------------------------------------------------------------------------------------------

function phase(name) { document.body.dataset.phase = name; }
function say(text) { $("status").textContent = text; }
function fail(text) { phase("failed"); say(text); $("progress").value = 0; }

async function run(values) {
  running?.abort();
  const mine = running = new AbortController();
  phase("running");
  say("Waiting for the model");
  $("progress").removeAttribute("value");
  try {
    const answer = await fetch(`events?${new URLSearchParams(values)}`, { signal: mine.signal });
    if (!answer.ok) throw new Error(await faultOf(answer));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const each of events) receive(each);
    }
    if (document.body.dataset.phase === "running" && running === mine) fail("The playground stopped answering.");
  } catch (error) {
    if (error.name !== "AbortError" && running === mine) fail(error.message === "Failed to fetch" ? "The playground does not answer; is it still running?" : error.message);
  }
}

async function faultOf(answer) {
  const text = await answer.text();
  try { return JSON.parse(text).error; } catch { return text.trim() || `The playground answered ${answer.status}.`; }
}

function receive(text) {
  const [first, ...data] = text.split("\n");
  const content = JSON.parse(data.join("\n").slice("data: ".length));
  ({ clean: showClean, step: showStep, done: showDone, failed: ({ message }) => fail(message), pulse: () => {},
    replaced: () => fail("Another page of this playground took over; move a control to go on here.") })[first.slice("event: ".length)](content);
}

function showClean(event) {
  scene = event;
  [course, total] = [[], 0];
  $("right-name").textContent = event.labelled ? event.words.right : "Agreement with the clean prediction";
  $("sure-name").textContent = event.words.sure;
  $("right-clean").textContent = withBoxes(event.figures);
  $("sure-clean").textContent = percent(event.figures.sure);
  const unlabelled = "This image has no labels: the attack moves away from what the model said, and the figure tells how much of that is left.";
  $("note").textContent = missing + (event.labelled ? "" : unlabelled);
  $("note").hidden = !$("note").textContent;
  picture("image", event.pictures.image);
  picture("clean", event.pictures.prediction);
  picture("truth", event.pictures.truth);
  if (event.task === "detection") picture("errors"); // which has none
  caption("image", `Image ${event.id}, ${event.width} x ${event.height}`);
  caption("errors", event.labelled ? "Wrong pixels now, in orange" : "Pixels that left the clean prediction, in orange");
  $("legend").replaceChildren(...event.legend.map(([name, color]) => {
    const swatch = element("i");
    swatch.style.background = color;
    return element("li", {}, swatch, name);
  }));
  $("legend").classList.toggle("wide", !event.labelled || event.task === "detection");
  for (const [index, most] of [event.height, event.width, event.height, event.width].entries()) $(`box-${index}`).max = most;
  mark();
  drawCourse();
}

const withBoxes = (figures) => (figures.boxes === null ? percent(figures.right) : `${percent(figures.right)}, ${figures.boxes} ${figures.boxes === 1 ? "box" : "boxes"}`);

function showFigures(event) {
  $("right-now").textContent = percent(event.figures.right);
  $("sure-now").textContent = percent(event.figures.sure);
  for (const [name, address] of Object.entries(event.pictures)) picture(name, address);
  const found = event.figures.boxes === null ? "" : `: ${event.figures.boxes} ${event.figures.boxes === 1 ? "box" : "boxes"}`;
  caption("prediction", `Prediction now${found}`);
  caption("difference", event.largest === "0" ? "No difference" : `Difference × ${event.factor.toFixed(1)}, at most ${event.largest}`);
  course.push({ step: event.step, ...event.figures });
  total = event.steps;
  drawCourse();
}

function showStep(event) {
  showFigures(event);
  say(`Step ${event.step} of ${event.steps}`);
  $("progress").value = event.step / event.steps;
}

function showDone(event) {
  showFigures(event);
  $("progress").value = 1;
  say(event.steps ? `${event.threat}, after ${event.step} steps` : event.threat);
  const name = scene.id.replace(/[^\w.-]+/g, "-").replace(/\.png$/, "");
  const save = (label, address, file) => element("a", { class: "button", href: address, download: file }, label);
  $("saves").replaceChildren(
    save("Save the changed image", event.pictures.changed, `${name}-changed.png`),
    save("Save all pictures as one", event.sheet, `${name}-playground.png`),
    save("Save the image", scene.pictures.image, upload.name ?? `${name}.png`),
  );
  for (const kind of ["picture", "dataset"]) {
    $(`recipe-${kind}`).hidden = !event.commands[kind];
    $(`recipe-${kind}`).querySelector("code").textContent = event.commands[kind] ?? "";
  }
  $("upload-hint").hidden = !upload.name;
  for (const each of document.querySelectorAll("button.copy")) each.textContent = "Copy";
  phase("done");
}

function picture(name, address) {
  const tile = $(`tile-${name}`);
  tile.hidden = !address;
  if (address) tile.querySelector("img").src = address;
}

function caption(name, text) { $(`tile-${name}`).querySelector("figcaption").textContent = text; }

// The course of both figures over the steps.
function drawCourse() {
  const [svg, steps] = [$("course"), total];
  svg.parentElement.hidden = !steps;
  if (!steps) return;
  const { width, height } = svg.getBoundingClientRect();
  const [left, right, top, bottom] = [34, 8, 8, 18];
  const x = (step) => left + (step / steps) * (width - left - right);
  const y = (share) => top + (1 - share) * (height - top - bottom);
  const make = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const drawn = [0, 0.5, 1].flatMap((share) => [
    make("line", { class: "grid", x1: left, x2: width - right, y1: y(share), y2: y(share) }),
    make("text", { x: left - 5, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`),
  ]);
  drawn.push(make("text", { x: left, y: height - 3 }, "0"), make("text", { x: width - right, y: height - 3, "text-anchor": "end" }, `${steps} steps`));
  for (const name of ["sure", "right"]) {
    const known = course.filter((each) => each[name] !== null);
    if (!known.length) continue;
    drawn.push(make("polyline", { class: name, points: known.map((each) => `${x(each.step)},${y(each[name])}`).join(" ") }));
    const last = known.at(-1);
    drawn.push(make("circle", { class: `dot ${name}`, cx: x(last.step), cy: y(last[name]), r: 3.5 }));
  }
  svg.replaceChildren(...drawn);
  const now = course.at(-1);
  svg.setAttribute("aria-label", `After ${now.step} of ${steps} steps: ${$("right-name").textContent} ${percent(now.right)}, ${$("sure-name").textContent} ${percent(now.sure)}`);
}

// The region on the image --------------------------------------------------------------------------------------------

function rectangle() {
  if (!scene || $("threat").value === "clean") return null;
  const { height, width } = scene;
  if ($("region").value === "box") return corners();
  if ($("region").value !== "square") return null;
  const side = Math.max(1, Math.floor(Math.min(height, width) / offer.sizes[$("square-size").value]));
  const [vertical, horizontal] = $("square-position").value.split("-");
  const top = horizontal ? (vertical === "top" ? 0 : height - side) : Math.floor((height - side) / 2);
  const left = horizontal ? (horizontal === "left" ? 0 : width - side) : Math.floor((width - side) / 2);
  return [top, left, top + side, left + side];
}

function mark() {
  const box = rectangle();
  $("marked").hidden = !box;
  if (!box) return;
  const [top, left, bottom, right] = box;
  Object.assign($("marked").style, { top: `${(100 * top) / scene.height}%`, left: `${(100 * left) / scene.width}%`,
    height: `${(100 * (bottom - top)) / scene.height}%`, width: `${(100 * (right - left)) / scene.width}%` });
}

function drawRectangles() {
  const canvas = $("canvas");
  let start = null;
  const at = (event) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const inside = (value, most) => Math.min(most, Math.max(0, Math.round(value)));
    return [inside(((event.clientY - top) / height) * scene.height, scene.height), inside(((event.clientX - left) / width) * scene.width, scene.width)];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (!scene || $("threat").value === "clean" || event.button !== 0 || (event.pointerType !== "mouse" && $("region").value !== "box")) return;
    event.preventDefault();
    start = at(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [y, x] = at(event);
    const box = [Math.min(y, start[0]), Math.min(x, start[1]), Math.max(y, start[0]), Math.max(x, start[1])];
    if (box[0] === box[2] || box[1] === box[3]) return;
    $("region").value = "box";
    box.forEach((value, index) => { $(`box-${index}`).value = value; });
    fitControls();
    mark();
  });
  canvas.addEventListener("pointerup", () => {
    if (start && $("region").value === "box") changed();
    start = null;
  });
  canvas.addEventListener("pointercancel", () => { start = null; });
}

// A first rectangle for those who do not draw: the middle of the image.
function firstRectangle() {
  if (corners().some(Boolean)) return;
  const { height, width } = scene ?? { height: 64, width: 64 };
  [height / 4, width / 4, (3 * height) / 4, (3 * width) / 4].forEach((value, index) => { $(`box-${index}`).value = Math.round(value); });
}

// Uploads ------------------------------------------------------------------------------------------------------------

const upload = {
  name: null,
  use(name) {
    this.name = name;
    $("upload-note").textContent = name ? `Shown now: ${name}. A number above goes back to the dataset.` : "JPEG, PNG or WebP. It stays on this machine.";
  },
  async send(file) {
    phase("waiting");
    say("Sending the image");
    try {
      const answer = await fetch("upload", { method: "POST", body: file });
      if (!answer.ok) throw new Error(await faultOf(answer));
      this.use((await answer.json()).image);
      changed();
    } catch (error) { fail(error.message); }
  },
};

function moveImage(to) {
  upload.use(null);
  $("upload").value = "";
  $("image").value = (to + offer.dataset.images) % offer.dataset.images;
  changed();
}

// Start --------------------------------------------------------------------------------------------------------------

function connect() {
  for (const id of ["epsilon", "steps", "queries"]) twin(id);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("controls").addEventListener("input", (event) => {
    const { id } = event.target;
    if (id === "upload") return;
    if (id === "image") { if (!$("image").validity.valid || $("image").value === "") return; upload.use(null); $("upload").value = ""; }
    if (id === "region" && $("region").value === "box") firstRectangle();
    missing = "";
    if (id === "model") fitControls(fillThreats() ? undefined : "all");
    else fitControls({ threat: "all", norm: "epsilon" }[id]);
    changed();
  });
  $("upload").addEventListener("change", () => { if ($("upload").files.length) upload.send($("upload").files[0]); });
  $("previous").addEventListener("click", () => moveImage(Number($("image").value) - 1));
  $("next").addEventListener("click", () => moveImage(Number($("image").value) + 1));
  $("random").addEventListener("click", () => moveImage(Math.floor(Math.random() * offer.dataset.images)));
  $("again").addEventListener("click", changed);
  $("stop").addEventListener("click", () => { clearTimeout(timer); running?.abort(); phase("stopped"); say("Stopped"); $("progress").value = 0; });
  const canvas = $("canvas");
  canvas.addEventListener("dragover", (event) => event.preventDefault());
  canvas.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files.length) upload.send(event.dataTransfer.files[0]); });
  document.addEventListener("statechange", () => { restore(); changed(); });
  addEventListener("resize", drawCourse);
  drawRectangles();
}

addEventListener("DOMContentLoaded", async () => {
  try {
    const answer = await fetch("offer");
    if (!answer.ok) throw new Error(await faultOf(answer));
    offer = await answer.json();
  } catch (error) { fail(error.message); return; }
  const { dataset } = offer;
  $("subtitle").textContent = `Attack a model and look on: ${offer.models.length === 1 ? offer.models[0].address : `${offer.models.length} models`}, images of ${dataset.name}`;
  $("dataset-name").textContent = `Image of ${dataset.name}${dataset.split ? `, ${dataset.split}` : ""} (0 to ${dataset.images - 1})`;
  $("image").max = dataset.images - 1;
  const tasks = [...new Set(offer.models.map((each) => each.task))];
  fill($("model"), tasks.map((task) => ({ label: task, options: offer.models.filter((each) => each.task === task).map(({ address }) => [address, address]) })));
  Object.assign($("severity"), { min: offer.severities[0], max: offer.severities.at(-1), value: 3 });
  fill($("square-size"), Object.keys(offer.sizes).map((name) => ({ options: [[name, name]] })));
  fill($("square-position"), offer.positions.map((name) => ({ options: [[name, name.replace("-", " ")]] })));
  connect();
  restore();
  changed();
});
