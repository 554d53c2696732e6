// Step 4: keep, compare and hand over the plan: specification, notebook, report for a meeting, page, command.

import { Button, Figures, html } from "./parts.js";
import { number, shortened, significant, upward } from "./words.js";

// Where the data and the ledger are, as the end of a specification that does not say it. The server is not told.
export function places({ sections, source, work, last }) {
  if (sections.includes("source")) return "";
  const { name, mark = ",", encoding } = source ?? { name: "data.csv" };
  const text = JSON.stringify;
  const { pure, rho } = last?.amounts ?? {};
  const most = work.form.privacy.by === "budget" || !(pure ?? rho) ? "" : pure ? `epsilon = ${upward(pure)}\n` : `rho = ${upward(rho)}\n`;
  const ledger = `\n[ledger]\npath = ${text(`${name.replace(/\.\w+$/, "")}.ledger`)}\n${most}`;
  return `\n[source]\npath = ${text(name)}\n${mark === "," ? "" : `delimiter = ${text(mark)}\n`}${encoding ? `encoding = ${text(encoding)}\n` : ""}${sections.includes("ledger") ? "" : ledger}`;
}

export function Publish({ name, saves, saved, lines, save, download, report, notebook, page, link, keep, kept, last, remove, full, copied }) {
  const file = saves ?? name;
  const quoted = /^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`;
  const commands = `residua ledger create ${quoted}\nresidua release ${quoted} --out release\nresidua report release`;
  return html`<section aria-labelledby="h-publish" class="publish">
    <h2 id="h-publish">Publish</h2>
    <p>This page reads no data. Keep the plan as a specification, and run it where the data is.</p>
    <ol class="do">
      <li><h3>Keep the specification</h3><div class="row">${saves ? html`<${Button} kind="strong" id="save-here" told=${save} words=${saved ? `${saves} is saved` : `Save ${saves}`} disabled=${saved} />` : null}<${Button} kind=${saves ? "" : "strong"} id="download" told=${download} words="Download specification" /></div>
        ${lines && html`<p class="hint">${saves ? "Add to it where the data and the ledger are; what is downloaded ends with these lines:" : "It ends by saying where the data and the ledger are. Put it beside the data, or change these lines:"}</p><pre id="places"><code>${lines.trim()}</code></pre>`}</li>
      <li><h3>Run it where the data is</h3><pre id="command">${commands.split("\n").map((line) => html`<code>${line}</code>`)}</pre><div class="row"><${Button} kind="quiet" told=${() => copied(commands)} words="Copy the commands" /></div>
        <p class="hint">The first makes the ledger, once: it records what is spent on these people. The second debits it, reads the data and writes the release. The third writes its report; <code>residua ui release</code> opens it here.</p></li>
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
    <${Figures} caption="What each plan promises" head=${["promise", ...names]} texts=${names.length + 1} rows=${[row("budget", plans.map((each) => each.guarantee.replace(/^\w+\((.*)\)$/, "$1").replaceAll("=", " "))), row("hides", plans.map((each) => each.hides)), row("best guess right", plans.map((each) => (each.guess === null ? "–" : `at most ${each.guess} of 100`)))]} />
    <${Figures} caption="Standard errors side by side (— where a plan does not give the table)" head=${["table", ...names, ...(one ? [`now / ${names[0]}`] : [])]} rows=${rows.map((each) => row(each.table === "(total)" ? "Total" : shortened(each.table, 60), [...each.stddevs.map((value) => (value === null ? "—" : number(value))), ...ratio(each.stddevs)]))} />
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
