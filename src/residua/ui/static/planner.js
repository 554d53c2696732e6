// The page: what is open, what happens on a change, and the steps. Work is one value, so that it can be undone and kept.

import * as asking from "./asking.js";
import { Accuracy } from "./accuracy.js";
import { Columns, drafted, Start } from "./columns.js";
import { columnsOf, columnsOfText, HeaderError } from "./header.js";
import { Button, html, Question } from "./parts.js";
import { changes, places, Publish } from "./publish.js";
import { Released } from "./released.js";
import { See } from "./see.js";
import { Tables } from "./tables.js";
import { render } from "./vendor.js";
import { plural } from "./words.js";

const MOST_KEPT = 3;
const MOST_UNDONE = 200;
const STEPS = [["columns", "Columns"], ["tables", "Tables"], ["accuracy", "Accuracy"], ["publish", "Publish"]];
// Public counts of the whole Adult dataset, of which the bundled example is a part, from the page of its repository.
const EXAMPLE = {
  people: "48,842",
  public: {
    sex: [["Female", "16192"], ["Male", "32650"]],
    income: [["<=50K", "37155"], [">50K", "11687"]],
    education: [["HS-grad", "15784"], ["Some-college", "10878"], ["Bachelors", "8025"], ["Masters", "2657"], ["Assoc-voc", "2061"], ["11th", "1812"], ["Assoc-acdm", "1601"], ["10th", "1389"], ["7th-8th", "955"], ["Prof-school", "834"], ["9th", "756"], ["12th", "657"], ["Doctorate", "594"], ["5th-6th", "509"], ["1st-4th", "247"], ["Preschool", "83"]],
  },
  table: ["education"],
};
const view = () => ({ people: "", public: {}, table: null, headlines: [] });

// `work` is what can be undone; everything else is about the page.
const state = {
  document: null, work: null, saved: "", past: [], future: [], step: "columns", side: "ask", kept: [], labels: 0,
  asked: { find: "", order: "asked", rows: 15 }, last: null, problems: [], old: false, busy: false, problem: null, alert: null, question: null, status: "", away: false, patient: false, release: null, source: null,
};
let clock = null;

const set = (more) => (Object.assign(state, more), draw());
const content = (work = state.work) => JSON.stringify(work.form);
const unsaved = () => state.work !== null && content() !== state.saved;

// ---- changes, undo, drafts

let latest = { key: null, at: 0 };

// Changes the work; changes of one field that follow each other are undone together.
function edit(change, key = null) {
  const work = structuredClone(state.work);
  change(work);
  if (JSON.stringify(work) === JSON.stringify(state.work)) return;
  const now = performance.now();
  const same = key !== null && key === latest.key && now - latest.at < 1500;
  latest = { key, at: now };
  if (!same) state.past = [...state.past, state.work].slice(-MOST_UNDONE);
  moved(work, []);
}

function moved(work, future) {
  Object.assign(state, { work, future, patient: false, status: "" });
  keepDraft();
  draw();
  ask();
}

function undo() {
  if (!state.past.length) return;
  const future = [state.work, ...state.future];
  latest = { key: null, at: 0 };
  moved(state.past.pop(), future);
}

function redo() {
  if (!state.future.length) return;
  const [work, ...future] = state.future;
  state.past.push(state.work);
  moved(work, future);
}

let keeping = null;
function keepDraft() {
  clearTimeout(keeping);
  keeping = setTimeout(() => writeDraft(), 300);
}

// The draft lies beside the server, where a page at another port finds it; if it cannot, leaving the page asks.
async function writeDraft(last = false) {
  clearTimeout(keeping);
  keeping = null;
  const answer = await asking.post("/draft", { draft: unsaved() ? { ...pageFile(), base: state.saved } : null }, null, last);
  state.drafted = !answer.error && !answer.gone;
}

const pageFile = () => ({ kind: "residua draft", name: state.name, form: state.work.form, view: state.work.view, kept: state.kept.map(({ label, form }) => ({ label, form })) });

// ---- opening

// Before work is replaced that is nowhere else, the page asks.
function replacing(go) {
  if (!unsaved()) return go();
  const close = (then) => () => (set({ question: null }), then?.());
  return set({
    question: {
      words: "Keep your work first?",
      more: "What is on this page has not been saved or downloaded.",
      answers: [["Keep it as a file", close(() => (savePage(), go())), "strong"], ["Go on without it", close(go), "danger"], ["Stay here", close()]],
    },
  });
}

function show(opened, change) {
  if (opened.error) return say(opened.error, "error");
  if (opened.gone) return null;
  if (opened.release) return set({ release: opened.release, alert: null });
  asking.drop();
  const work = { form: opened.form, view: view() };
  const base = JSON.stringify(work.form);
  if (change) change(work);
  Object.assign(state, { document: opened.document, name: opened.name, person: opened.person, saves: opened.saves, demo: opened.demo, sections: opened.kept, saved: base, past: [], future: [], last: null, problems: [], alert: null, status: "", release: null, source: null, step: work.form.attributes.length && !change ? "tables" : "columns" });
  if (opened.demo) Object.assign(work.view, structuredClone(EXAMPLE));
  state.work = work;
  if (!opened.draft) keepDraft(); // an older one waits until it is opened or overwritten
  draw();
  return ask();
}

const start = async (which) => show(await asking.post("/start", { which }));
const demo = () => replacing(() => start("demo"));

async function read(file) {
  if (/\.(toml|json)$/i.test(file.name)) return replacing(() => open(file));
  try {
    const { columns, mark, encoding } = await columnsOf(file);
    state.source = { name: file.name, mark, encoding }; // for what is downloaded; no server is told
    return declare(columns, `${plural(columns.length, "column")} of ${file.name}: only the header was read.`, file.name);
  } catch (problem) {
    if (!(problem instanceof HeaderError)) throw problem;
    return say(problem.message, "error");
  }
}

function declare(columns, status) {
  edit((work) => {
    const names = new Set(work.form.attributes.map((one) => one.name));
    work.form.attributes.push(...columns.filter((one) => !names.has(one.name)).map(drafted));
  });
  set({ step: "columns", status, alert: null });
}

async function open(file) {
  const text = await file.text();
  if (text.trimStart().startsWith("{")) return restore(text);
  return show(await asking.post("/open", { text, name: file.name }));
}

function restore(text, status = "Opened the page as it was kept.") {
  let page;
  try {
    page = JSON.parse(text);
  } catch {
    page = {};
  }
  const { form } = page;
  if (page.kind !== "residua draft" || !Array.isArray(form?.attributes) || !Array.isArray(form.tables) || !form.privacy || !form.objective)
    return say("This file is neither a specification nor a page that was kept. To open a release, start residua ui with its folder.", "error");
  edit((work) => Object.assign(work, { form, view: { ...view(), ...page.view } }));
  const kept = (page.kept ?? []).slice(0, MOST_KEPT).map((one) => ({ ...one, document: state.document, changes: [] }));
  set({ status, kept, labels: kept.length, alert: null, step: form.attributes.length ? "tables" : "columns" });
  return ask();
}

// ---- what was published before: a release's folder; nothing else that lies in it is sent

const encoded = (file) => new Promise((read, fail) => {
  const reader = Object.assign(new FileReader(), { onload: () => read(reader.result.split(",")[1] ?? ""), onerror: fail });
  reader.readAsDataURL(file);
});

async function published(chosen) {
  const files = chosen.filter((file) => /^[^/]*\/[\w-]+\.(json|npy|toml|md)$/.test(file.webkitRelativePath));
  if (!files.some((file) => file.name === "release.json")) return say("This is not the folder of a release.", "error");
  if (files.reduce((sum, file) => sum + file.size, 0) > 6e6) return say("This release has more than 6 MB; copy the counts that you need from its tables.", "error");
  const sent = Object.fromEntries(await Promise.all(files.map(async (file) => [file.name, await encoded(file)])));
  const answer = await asking.post("/public", { document: state.document, form: state.work.form, files: sent });
  if (answer.error) return say(answer.error, "error");
  if (!answer.public) return null;
  edit((work) => Object.assign(work.view, { people: answer.people, public: { ...work.view.public, ...answer.public } }));
  return set({ alert: null, status: `Public counts of ${plural(Object.keys(answer.public).length, "column")}${answer.left ? `; ${plural(answer.left, "value")} not declared here left out` : ""}.` });
}

// ---- links: the page, packed into the part of the address that no server sees

async function packed(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(given) {
  const bytes = Uint8Array.from(atob(given.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}

async function link() {
  const { name, ...page } = pageFile();
  copied(`${location.origin}${location.pathname}#page=${await packed(JSON.stringify(page))}`, "The link is copied. It holds this page, no data; it opens on any planner.");
}

async function copied(text, status = "Copied.") {
  try {
    await navigator.clipboard.writeText(text);
    set({ status });
  } catch {
    set({ question: { words: "Copy this", more: html`<textarea readonly rows="4" aria-label="To copy" value=${text}></textarea>`, answers: [["Done", () => set({ question: null })]] } });
  }
}

// ---- planning

function ask() {
  if (!state.work.form.attributes.length) {
    asking.drop();
    Object.assign(state, { last: null, problems: [], problem: null, busy: false });
    return draw();
  }
  const body = () => ({
    document: state.document,
    form: state.work.form,
    options: { ...state.asked, ...state.work.view },
    patient: state.patient,
    beside: state.kept.map(({ document, form }) => ({ document, form })),
  });
  state.busy = true;
  return asking.soon(body, { began, ended });
}

function began() {
  const since = performance.now();
  clearInterval(clock);
  set({ busy: true });
  clock = setInterval(() => {
    const seconds = Math.round((performance.now() - since) / 1000);
    if (seconds >= 2) note(html`<p>Planning … ${seconds} s <${Button} id="stop" kind="quiet" told=${stopped} words="Stop" /></p>`);
  }, 500);
}

const note = (inside, kind = "") => set({ problem: inside ? { inside, kind } : null });

function stopped() {
  clearInterval(clock);
  asking.stop();
  state.busy = false;
  note(html`<p>Stopped. The figures below are those of an earlier plan.</p>`);
}

function ended(answer) {
  clearInterval(clock);
  Object.assign(state, { busy: false, problems: answer.problems ?? [] });
  if (answer.gone) return draw();
  if (answer.slow) return note(html`<p>There is no plan within ${answer.slow} seconds. Ask for less, or <${Button} kind="quiet" told=${() => (set({ patient: true }), ask())} words="let it run for up to five minutes" /></p>`, "warn");
  if (answer.error) return Object.assign(state, { old: true }), note(html`<p>${answer.error}</p>`, "warn");
  if (answer.nothing) return Object.assign(state, { last: null, old: false }), note(html`<p>${state.problems.some(([kind]) => kind === "attributes") ? "Finish one column, and the picture appears here." : "Add a table, and the picture appears here."}</p>`);
  for (const one of state.kept) one.changes = changes(one.form, state.work.form);
  return set({ last: answer, old: false, problem: null });
}

// ---- files

async function fetched(path, type, more = {}, add = "") {
  set({ busy: true });
  const answer = await asking.post(path, { document: state.document, form: state.work.form, ...more });
  set({ busy: false });
  if (answer.error) return say(answer.error, "error"), null;
  if (answer.slow) return say(`It was not ready within ${answer.slow} seconds.`, "error"), null;
  if (answer.gone) return null;
  set({ alert: null });
  asking.keep(answer.name, answer.text + add, type);
  return answer;
}

async function save() {
  const now = content();
  const answer = await asking.post("/save", { document: state.document, form: state.work.form });
  if (answer.error) return say(answer.error, "error");
  if (answer.gone || answer.slow) return null;
  set({ alert: null, saved: now, status: `Saved ${state.saves}.` });
  return writeDraft();
}

async function download() {
  const now = content();
  if (await fetched("/download", "application/toml", {}, places(state))) set({ saved: now, status: "Downloaded the specification." }), writeDraft();
}

const savePage = () => asking.keep(`${(state.name ?? "plan").replace(/\.toml$/, "")}-page.json`, JSON.stringify(pageFile()), "application/json");
const report = (beside) => fetched("/report", "text/html", beside?.form ? { beside: { document: beside.document, form: beside.form } } : {});

function keepPlan() {
  const label = String.fromCharCode(65 + state.labels++);
  state.kept.push({ label, document: state.document, form: structuredClone(state.work.form), changes: ["nothing"] });
  set({ status: `Kept as ${label}.` });
  ask();
}

function forget(one) {
  state.kept = state.kept.filter((each) => each !== one);
  if (!state.kept.length) state.labels = 0;
  draw();
  ask();
}

// ---- the page

const say = (words, kind = "", more = null) => set({ alert: { words, kind, more } });

function Alert({ alert }) {
  if (!alert) return null;
  return html`<div class=${`note ${alert.kind === "error" ? "warn" : ""}`}><p>${alert.words}${alert.more}</p>${!state.away && html`<${Button} kind="close" aria-label="Close" words="×" told=${() => set({ alert: null })} />`}</div>`;
}

function go(step) {
  set({ step, side: "ask" });
  document.querySelector("main").scrollIntoView({ block: "nearest" });
  window.scrollTo({ top: 0 });
}

const next = (step, words) => html`<${Button} kind="strong next" id="next" told=${() => go(step)} words=${words} />`;

function Step() {
  const { work, problems, last } = state;
  const given = { work, edit, problems, last };
  switch (state.step) {
    case "columns":
      return html`<${Columns} ...${given} fresh=${!last} sizes=${last?.sizes} next=${next("tables", "Next: choose tables")} rules=${(text) => edit((all) => void (all.form.rules = text), "rules")} />`;
    case "tables":
      return html`<${Tables} ...${given} next=${next("accuracy", "Next: how accurate")} />`;
    case "accuracy":
      return html`<${Accuracy} ...${given} person=${state.person} next=${next("publish", "Next: publish")} />`;
    default:
      return html`<${Publish} name=${state.name} saves=${state.saves} lines=${places(state)} saved=${!unsaved()} save=${save} download=${download} report=${report} notebook=${() => fetched("/notebook", "application/x-ipynb+json")} page=${savePage} link=${link} copied=${copied} keep=${keepPlan} kept=${state.kept} full=${state.kept.length >= MOST_KEPT} last=${last} remove=${forget} />`;
  }
}

function summary(step) {
  const { work, last } = state;
  if (step === "columns") return plural(work.form.attributes.length, "column");
  if (!last) return "";
  return { tables: plural(last.count, last.what === "tables" ? "table" : "query", last.what), accuracy: last.guess ? `${last.guess} of 100` : "", publish: unsaved() ? "not saved" : "saved" }[step];
}

function Page() {
  if (state.release) return html`<${Released} release=${state.release} post=${asking.post} say=${say} alert=${html`<div id="alert" role="alert"><${Alert} alert=${state.alert} /></div>`} />`;
  const { work } = state;
  if (!work) return null;
  const begun = work.form.attributes.length > 0;
  const file = state.demo ? `${state.name}, the bundled example` : state.name;
  const sections = state.sections.length ? ` · its settings for ${state.sections.map((each) => (each === "source" ? "data" : each)).join(" and ")} are kept` : "";
  return html`<a class="skip" href="#answer">Skip to the picture</a>
    <header class="top"><div class="bar">
      <div class="title"><h1>Planner</h1><p id="file">${file}${sections}</p></div>
      <div class="actions" role="group" aria-label="File">
        <${Button} id="undo" kind="icon" aria-label="Undo" title="Undo" disabled=${!state.past.length} told=${undo} words="↶" /><${Button} id="redo" kind="icon" aria-label="Redo" title="Redo" disabled=${!state.future.length} told=${redo} words="↷" />
        <${Button} id="new" told=${() => replacing(() => start("empty"))} words="New" /><${Button} id="open" told=${() => document.getElementById("chosen").click()} words="Open…" />
        ${state.saves && html`<${Button} id="save" kind=${unsaved() ? "strong" : ""} told=${save} words="Save" />`}
        <input type="file" id="chosen" accept=".toml,.json,.csv,.tsv,.parquet,.xlsx,.sav,text/plain,application/json" tabindex="-1" aria-label="File to open" hidden onChange=${async (e) => (e.target.files[0] && (await read(e.target.files[0])), (e.target.value = ""))} />
      </div></div>
      ${begun && html`<nav class="steps" aria-label="Steps"><ol>${STEPS.map(([key, name], i) => html`<li><button type="button" data-step=${key} aria-current=${state.step === key ? "step" : undefined} onClick=${() => go(key)}><span class="n">${i + 1}</span><span class="name">${name}</span><small>${summary(key)}</small></button></li>`)}</ol></nav>`}
    </header>
    <div id="alert" role="alert"><${Alert} alert=${state.alert} /></div>
    <p id="status" role="status">${state.status || (state.busy || !state.last ? "" : `Planned in ${Math.max(1, Math.round(1000 * state.last.seconds))} ms.`)}</p>
    <main class=${begun ? `desk ${state.side}` : "desk blank"}>
      ${begun
        ? html`<div class="ask" id="ask"><${Step} /></div><div class="see" id="see"><${See} work=${work} edit=${edit} last=${state.last} busy=${state.busy} old=${state.old || state.away} problem=${state.problem} published=${published} asked=${state.asked} ask=${(more) => (Object.assign(state.asked, more), draw(), ask())} /></div>`
        : html`<${Start} read=${read} paste=${(text) => declare(columnsOfText(text), "")} open=${() => document.getElementById("chosen").click()} demo=${demo} busy=${false} />`}
    </main>
    ${begun && html`<nav class="sides" aria-label="Show">${[["ask", "Questions"], ["see", "Picture"]].map(([key, name]) => html`<button type="button" aria-pressed=${state.side === key ? "true" : "false"} onClick=${() => (set({ side: key }), window.scrollTo({ top: 0 }))}>${name}</button>`)}</nav>`}
    <footer><p>This page speaks with residua alone. It reads no data, and nothing is spent here.</p></footer>
    ${state.question && html`<${Question} ...${state.question} />`}`;
}

let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  queueMicrotask(() => {
    drawing = false;
    render(html`<${Page} />`, document.getElementById("page"));
  });
}

asking.whenGone(
  () => {
    if (state.away) return;
    clearInterval(clock);
    Object.assign(state, { away: true, busy: false, problem: null });
    say("The planner has stopped, so that nothing is planned any more. Your work is still on this page: keep it as a file, start residua ui again, and open the file there. ", "error", html`<${Button} id="draft" told=${savePage} words="Keep it as a file" />`);
  },
  () => {
    if (!state.away) return;
    set({ away: false, alert: null });
    if (state.work) ask();
  },
);

window.addEventListener("beforeunload", (event) => unsaved() && !state.drafted && event.preventDefault());
window.addEventListener("pagehide", () => keeping && writeDraft(true));
window.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.target.matches?.("input[type=text], input[type=search], textarea")) return;
  const act = { z: event.shiftKey ? redo : undo, y: redo, s: state.saves ? save : download }[event.key.toLowerCase()];
  if (act && state.work) event.preventDefault(), act();
});
for (const kind of ["dragover", "drop"])
  window.addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files") || event.defaultPrevented) return;
    event.preventDefault();
    if (kind === "drop" && event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
  });

// What is opened first: a page in the address, else the file of the command line, with a draft of it where there is one.
const first = await asking.post("/start", { which: "first" });
const { draft } = first;
await show(first);
if (location.hash.startsWith("#page=")) {
  try {
    const text = await unpacked(location.hash.slice(6));
    history.replaceState(null, "", location.pathname);
    restore(text, "Opened the page of the link.");
  } catch {
    say("The page in this link is not whole.", "error");
  }
} else if (draft?.form && state.work && JSON.stringify(draft.form) !== content()) {
  const go = () => restore(JSON.stringify(draft), "");
  if (draft.base === state.saved) {
    go();
    say("Your draft of this page is back as you left it. ", "", html`<${Button} kind="quiet" told=${() => (undo(), set({ alert: null }))} words="Discard it" />`);
  } else say(`There is a draft of ${draft.name ?? "a plan"} that was not saved. `, "", html`<${Button} kind="quiet" told=${go} words="Go on with it" />`);
}
