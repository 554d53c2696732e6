// The page: what is open, what happens on a change, and the buttons at the top.

import * as asking from "./asking.js";
import * as attributes from "./attributes.js";
import * as budget from "./budget.js";
import * as outcome from "./outcome.js";
import * as tables from "./tables.js";
import { button, el, plural, significant } from "./elements.js";

const at = (id) => document.getElementById(id);
const state = { document: null, form: null, saved: "", kept: [], asked: { find: "", order: "asked", rows: 15 }, last: null, patient: false };
const MOST_KEPT = 3;
let clock = null;
let wished = false;

const unsaved = () => state.form !== null && JSON.stringify(state.form) !== state.saved;
const amounts = () => state.last?.amounts ?? {};

function show(opened) {
  if (opened.error) return say(opened.error, "error");
  if (opened.gone) return null;
  Object.assign(state, { document: opened.document, name: opened.name, person: opened.person, form: opened.form, saves: opened.saves, last: null, note: "" });
  state.saved = JSON.stringify(state.form);
  const kept = opened.kept.length ? ` · ${opened.kept.map((each) => `[${each}]`).join(", ")} kept as they are` : "";
  at("file").textContent = (opened.demo ? `${opened.name}, the bundled example` : opened.name) + kept;
  at("save").hidden = !opened.saves;
  at("save").textContent = `Save ${opened.saves ?? ""}`;
  clear();
  at("status").textContent = "";
  wished = state.form.tables.some((one) => one.wish);
  redraw();
  return ask(0);
}

function redraw() {
  attributes.draw(at("attributes"), state.form, changed, renamed);
  tables.draw(at("tables"), state.form, changed);
  budget.draw(at("budget"), state.form, changed, amounts, state.person);
  at("rules").value = state.form.rules;
  arrange();
}

function arrange() {
  at("start").hidden = state.form.attributes.length > 0;
  at("seek-field").hidden = state.form.attributes.length <= 15;
}

// At once: drawn later, the cards would be replaced under the fingers of somebody who types in them by then.
function renamed(before, after) {
  tables.rename(state.form, before, after);
  tables.draw(at("tables"), state.form, changed);
}

function changed() {
  state.note = "";
  arrange();
  state.patient = false;
  const now = state.form.tables.some((one) => one.wish);
  if (now !== wished) {
    wished = now;
    budget.draw(at("budget"), state.form, changed, amounts, state.person);
  }
  ask();
}

function ask(pause) {
  if (!state.form.attributes.length) {
    state.last = null;
    at("answer").replaceChildren();
    side(null);
    problem(el("p", {}, "Declare an attribute, and the plan appears here."), "note");
    return;
  }
  const body = () => ({
    document: state.document,
    form: state.form,
    options: state.asked,
    patient: state.patient,
    beside: state.kept.map(({ document, form }) => ({ document, form })),
  });
  asking.soon(body, { began, ended }, pause);
}

function began() {
  const since = performance.now();
  at("answer").setAttribute("aria-busy", "true");
  clearInterval(clock);
  clock = setInterval(() => {
    const seconds = Math.round((performance.now() - since) / 1000);
    if (seconds < 2) return;
    problem(el("p", {}, `Planning … ${seconds} s `, button("Stop", stopped, { id: "stop", class: "quiet" })), "note");
  }, 500);
}

function stopped() {
  clearInterval(clock);
  asking.stop();
  at("answer").setAttribute("aria-busy", "false");
  problem(el("p", {}, "Stopped. The figures below are those of an earlier plan."), "note");
}

function ended(found) {
  clearInterval(clock);
  at("answer").setAttribute("aria-busy", "false");
  mark(found.at);
  if (found.gone) return;
  if (found.slow) {
    problem(el("p", {}, `There is no plan within ${found.slow} seconds. Ask for less, or `, button("let it run for up to five minutes", patiently, { class: "quiet" })), "note warn");
    return;
  }
  if (found.error) {
    problem(el("p", {}, found.error), "note warn");
    if (!state.last) at("answer").replaceChildren();
    at("answer").classList.add("old");
    return;
  }
  problem();
  state.last = found;
  at("answer").classList.remove("old");
  attributes.sizes(at("attributes"), found.sizes);
  outcome.draw(at("answer"), found, state.asked, () => ask(), keepPlan);
  at("keep").disabled = state.kept.length >= MOST_KEPT;
  side(found.beside);
  at("status").textContent = `${state.note}Planned in ${found.seconds < 1 ? `${Math.max(1, Math.round(1000 * found.seconds))} ms` : `${found.seconds.toFixed(1)} s`}: ${plural(found.count, found.what === "tables" ? "table" : "query", found.what)}.`;
}

function patiently() {
  state.patient = true;
  ask(0);
}

function problem(inside, kind = "") {
  at("problem").className = kind;
  at("problem").replaceChildren(...(inside ? [inside] : []));
}

// Marks the card that a mistake is in.
function mark(place) {
  document.querySelectorAll(".card.wrong").forEach((each) => each.classList.remove("wrong"));
  if (place) at(place[0]).children[place[1]]?.classList.add("wrong");
}

function keepPlan() {
  const label = String.fromCharCode(65 + state.count++);
  state.kept.push({ label, document: state.document, form: structuredClone(state.form) });
  at("status").textContent = `Kept as ${label}.`;
  ask(0);
}
state.count = 0;

function side(found) {
  at("compare-section").hidden = !found;
  if (!found) {
    delete at("compare").dataset.kept;
    return;
  }
  const remove = (one) => {
    state.kept.splice(state.kept.indexOf(one), 1);
    if (!state.kept.length) state.count = 0;
    at("outcome").focus();
    ask(0);
  };
  const report = (one) => fetched("/report", "text/html", { beside: { document: one.document, form: one.form } });
  outcome.compare(at("compare"), found, state.kept, remove, report);
}

function say(words, kind = "", ...more) {
  at("alert").className = kind ? `note ${kind === "error" ? "warn" : ""}` : "";
  at("alert").replaceChildren(...(words ? [el("p", {}, words, ...more)] : []));
}
const clear = () => say("");

async function fetched(path, type, more = {}) {
  at("status").textContent = "Writing …";
  const found = await asking.post(path, { document: state.document, form: state.form, ...more });
  at("status").textContent = "";
  if (found.error) return say(found.error, "error");
  if (found.slow) return say("This takes too long for the page; use the command: residua report SPEC.toml", "error");
  if (found.text === undefined) return null;
  clear();
  asking.keep(found.name, found.text, type);
  at("status").textContent = `${found.name} was handed to the browser.`;
  return found;
}

async function save() {
  const content = JSON.stringify(state.form);
  const found = await asking.post("/save", { document: state.document, form: state.form });
  if (found.error) return say(found.error, "error");
  if (found.gone || found.slow) return null;
  clear();
  state.saved = content;
  state.note = `Saved ${state.saves}. `; // it stays when the plan that was asked for before comes in
  at("status").textContent = state.note.trim();
  return null;
}

async function open(file) {
  if (!file) return;
  const text = await file.text();
  if (text.trimStart().startsWith("{")) {
    draft(text);
    return;
  }
  show(await asking.post("/open", { text, name: file.name }));
}

// Work that was kept while the server was gone.
function draft(text) {
  const before = state.form;
  try {
    const found = JSON.parse(text);
    if (found.kind !== "residua draft") throw new Error("another kind");
    state.form = found.form;
    redraw();
    ask(0);
  } catch {
    state.form = before;
    redraw();
    say("This file is neither a specification nor a draft of this page.", "error");
  }
}

const saveDraft = () => asking.keep("planner-draft.json", JSON.stringify({ kind: "residua draft", form: state.form }), "application/json");

let away = false;
asking.whenGone(
  () => {
    if (away) return;
    away = true;
    clearInterval(clock);
    problem();
    document.body.classList.add("away");
    say("The planner has stopped, so that nothing is planned any more. Your work is still on this page: keep it as a draft, start residua ui again, and open the draft there. ", "error", button("Keep a draft", saveDraft, { id: "draft" }));
  },
  () => {
    if (!away) return;
    away = false;
    document.body.classList.remove("away");
    clear();
    if (state.form) ask(0);
  },
);

at("new").addEventListener("click", async () => show(await asking.post("/start", { which: "empty" })));
at("demo").addEventListener("click", async () => show(await asking.post("/start", { which: "demo" })));
at("open").addEventListener("click", () => at("chosen").click());
at("chosen").addEventListener("change", async (event) => {
  await open(event.target.files[0]);
  event.target.value = "";
});
at("save").addEventListener("click", save);
at("download").addEventListener("click", async () => {
  const content = JSON.stringify(state.form);
  if (await fetched("/download", "application/toml")) state.saved = content;
});
at("report").addEventListener("click", () => fetched("/report", "text/html"));
at("notebook").addEventListener("click", () => fetched("/notebook", "application/x-ipynb+json"));
at("add-attribute").addEventListener("click", () => attributes.add(at("attributes"), state.form, changed, renamed));
at("add-table").addEventListener("click", () => tables.add(at("tables"), state.form, changed));
at("rules").addEventListener("input", (event) => {
  state.form.rules = event.target.value;
  changed();
});
at("seek").addEventListener("input", (event) => {
  const sought = event.target.value.toLowerCase();
  state.form.attributes.forEach((one, i) => {
    at("attributes").children[i].hidden = !one.name.toLowerCase().includes(sought);
  });
});
window.addEventListener("beforeunload", (event) => unsaved() && event.preventDefault());

show(await asking.post("/start", { which: "first" }));
