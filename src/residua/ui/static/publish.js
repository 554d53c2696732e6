// Step 4: keep, compare and hand over the plan: specification, notebook, report for a meeting, page, command.

import { Button, Figures, html } from "./parts.js";
import { number, shortened, significant } from "./words.js";

export function Publish({ name, saves, saved, save, download, report, notebook, page, link, keep, kept, last, remove, full, copied }) {
  const file = saves ?? name;
  const command = `residua release ${/^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`} --out release`;
  return html`<section aria-labelledby="h-publish" class="publish">
    <h2 id="h-publish">Publish</h2>
    <p>Keep the plan as a specification; the command measures by it, once, and debits the ledger before it reads the data. This page never does.</p>
    <ol class="do">
      <li><h3>Keep the specification</h3><div class="row">${saves ? html`<${Button} kind="strong" id="save-here" told=${save} words=${saved ? `${saves} is saved` : `Save ${saves}`} disabled=${saved} />` : null}<${Button} kind=${saves ? "" : "strong"} id="download" told=${download} words="Download specification" /></div></li>
      <li><h3>Run it where the data is</h3><pre id="command"><code>${command}</code></pre><div class="row"><${Button} kind="quiet" told=${() => copied(command)} words="Copy the command" /></div>
        <p class="hint">Name the data in <code>[source]</code> and the ledger in <code>[ledger]</code> of the specification; <code>residua plan ${file}</code> shows the same figures as this page. Then <code>residua ui release</code> opens what was published.</p></li>
      <li><h3>Tell others</h3><div class="row"><${Button} id="report" told=${report} words="Report for a meeting" /><${Button} id="notebook" told=${notebook} words="Notebook" /><${Button} id="page-file" told=${page} words="This page as a file" /><${Button} id="link" told=${link} words="Copy a link to this page" /></div></li>
    </ol>
    <section aria-labelledby="h-compare" id="compare-section"><h2 id="h-compare">Compare plans</h2>
      <p class="hint">Keep this plan, change anything, and see both side by side with what changed.</p>
      <div class="row"><${Button} id="keep" told=${keep} disabled=${full} words="Keep this plan to compare" /></div>
      ${last?.beside && kept.length > 0 && html`<${Compare} beside=${last.beside} kept=${kept} remove=${remove} report=${report} />`}
    </section>
  </section>`;
}

function Compare({ beside, kept, remove, report }) {
  const names = [...kept.map((one) => one.label), "now"];
  const { plans, rows } = beside;
  const row = (title, cells) => ({ key: title, cells: [title, ...cells] });
  const one = kept.length === 1;
  const ratio = (pair) => (one ? [pair.every(Boolean) ? significant(pair[1] / pair[0], 3) : ""] : []);
  return html`<div id="compare">
    ${kept.map((each) => html`<div class="changes"><h3>From ${each.label} to now</h3><ul>${each.changes.map((words) => html`<li>${words}</li>`)}</ul></div>`)}
    <${Figures} caption="What each plan promises" head=${["promise", ...names]} texts=${names.length + 1} rows=${[row("guarantee", plans.map((each) => each.guarantee)), row("protects", plans.map((each) => each.protects)), row("best guess right", plans.map((each) => (each.guess === null ? "–" : `at most ${each.guess} of 100`)))]} />
    <${Figures} caption="Standard errors side by side (— where a plan does not tell the table)" head=${["table", ...names, ...(one ? ["now / kept"] : [])]} rows=${rows.map((each) => row(shortened(each.table, 60), [...each.stddevs.map((value) => (value === null ? "—" : number(value))), ...ratio(each.stddevs)]))} />
    ${beside.more && html`<p class="hint">… and more tables; the report lists them.</p>`}
    <div class="row">${kept.map((each) => html`<${Button} told=${() => report(each)} words=${`Report of now beside ${each.label}`} /><${Button} kind="quiet danger" told=${() => remove(each)} words=${`Forget ${each.label}`} />`)}</div>
  </div>`;
}

// What changed between two forms, in words: columns, tables, budget, accuracy.
export function changes(before, after) {
  const words = [];
  const byName = (form) => new Map(form.attributes.map((one) => [one.name, JSON.stringify(one)]));
  const [old, now] = [byName(before), byName(after)];
  for (const [name, said] of now) if (!old.has(name)) words.push(`column ${name} added`);
    else if (old.get(name) !== said) words.push(`column ${name} declared differently`);
  for (const name of old.keys()) if (!now.has(name)) words.push(`column ${name} left out`);
  const tables = (form) => JSON.stringify(form.tables.map(({ wish, amount, confidence, ...asked }) => asked));
  if (tables(before) !== tables(after)) words.push(before.tables.length === after.tables.length ? "the tables, or how much they matter" : `${before.tables.length} entries of tables, now ${after.tables.length}`);
  const wishes = (form) => form.tables.map((one) => (one.wish ? `±${one.amount}` : "any")).join(", ");
  if (wishes(before) !== wishes(after)) words.push(`accuracy ${wishes(before)}, now ${wishes(after)}`);
  const budget = ({ privacy: one }) => (one.by === "wishes" ? "found from the accuracy" : `${{ approx: "epsilon", pure: "epsilon" }[one.currency] ?? one.currency} ${one.value}${one.delta ? ` at delta ${one.delta}` : ""}`);
  if (budget(before) !== budget(after)) words.push(`budget ${budget(before)}, now ${budget(after)}`);
  const unit = ({ privacy: one }) => (one.unit === "replace" ? "what a record says" : `people with at most ${one.records || 1} records`);
  if (unit(before) !== unit(after)) words.push(`protects ${unit(before)}, now ${unit(after)}`);
  if (JSON.stringify(before.objective) !== JSON.stringify(after.objective)) words.push("what counts as best");
  return words.length ? words : ["nothing"];
}
