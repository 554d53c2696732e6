// What would be published, as a picture that stays beside the questions: one table, all tables, who is protected.

import { Button, Choice, Figures, Flags, Fold, html, Picture, Text, Written } from "./parts.js";
import { number, percent, plural, shortened, whole } from "./words.js";

export function See({ work, edit, last, busy, old, problem, published, asked, ask }) {
  return html`<div id="answer" class=${old ? "old" : ""} aria-busy=${busy ? "true" : "false"}>
    <h2 class="unseen">How it would look</h2>
    <div id="problem" class=${problem ? `note ${problem.kind}` : ""}>${problem?.inside ?? (!last && html`<p>The table that you will publish appears here.</p>`)}</div>
    ${last && html`<${Protection} last=${last} /><${Preview} work=${work} edit=${edit} last=${last} published=${published} /><${Listing} last=${last} asked=${asked} ask=${ask} show=${(names) => edit((all) => void (all.view.table = names), "shown")} />`}
  </div>`;
}

function Protection({ last }) {
  const [least, most] = (last.spread ?? [NaN, NaN]).map(number);
  return html`<dl class="facts" id="facts">
    <div><dt>Best guess about a person</dt><dd>${last.guess === null ? "–" : `${last.guess} of 100`}<small>right at most; a coin: 50</small></dd></div>
    <div><dt>Published</dt><dd>${plural(last.count, last.what === "tables" ? "table" : "query", last.what)}<small>${plural(last.numbers, "number")}</small></dd></div>
    <div><dt>Standard errors</dt><dd>${least === most ? least : `${least} to ${most}`}<small>whatever the count</small></dd></div>
  </dl>`;
}

function Preview({ work, edit, last, published }) {
  const { view } = work;
  const { preview } = last;
  const people = html`<${Text} label="How many people?" id="people" inputmode="numeric" placeholder="about 20,000" value=${view.people} told=${(value) => edit((all) => void (all.view.people = value), "people")} />`;
  const known = html`<${Public} work=${work} edit=${edit} names=${preview?.names ?? []} published=${published} />`;
  if (!preview)
    return html`<div class="preview empty"><p class="asked">How would it look?</p>${people}${known}<p class="hint">${view.people ? (last.numbers === 1 ? "One number needs no picture; its error is below." : "This table is too large for a picture, or the plan does not answer it; choose another below.") : "A rough number from public knowledge draws the tables with their error bars. It is never taken from the data."}</p></div>`;
  const tables = last.rows.filter((row) => row.names).map((row) => [JSON.stringify(row.names), shortened(row.title, 60)]);
  const now = JSON.stringify(preview.names);
  if (!tables.some(([key]) => key === now)) tables.unshift([now, preview.title]);
  return html`<section class="preview" aria-labelledby="h-preview">
    <header><h3 id="h-preview">${shortened(preview.title, 60)} <small>as it would look</small></h3>
      <${Choice} label="Table" id="shown" value=${now} options=${tables} told=${(value) => edit((all) => void (all.view.table = JSON.parse(value)), "shown")} />${people}</header>
    ${preview.picture ? html`<${Picture} picture=${preview.picture} name=${`Picture: ${preview.title} as it would look`} />` : html`<p class="hint">This table is too large for a picture.</p>`}
    <p class="reads">Each number is within <strong>±${number(preview.margin)}</strong> in 95 of 100 cases. A typical one, ${whole(Math.round(preview.typical))}, is off by ${percent(preview.stddev / preview.typical)} (one standard error).</p>
    <${Flags} flags=${preview.flags} />
    ${preview.advice && html`<p class="note">${preview.advice}</p>`}
    <div class="expects">${known}</div>
    <p class="hint">Drawn from the numbers you type, never from data: ${Object.keys(view.public).some((name) => preview.names.includes(name)) ? "public counts where you gave them, else " : ""}everybody spread evenly, columns independent.</p>
  </section>`;
}

// Public counts of a column's values: last year's release, a register, a census; read from files, or typed.
function Public({ work, edit, names, published }) {
  const read = (text) =>
    text.split("\n").flatMap((line) => {
      const pair = line.match(/^(.*?)[\t;:=,]\s*([\d][\d.,' \u00a0]*)%?\s*$/) ?? line.match(/^(.*\S)\s+([\d][\d.,']*)%?\s*$/);
      return pair ? [[pair[1].trim(), pair[2].trim()]] : [];
    });
  const told = (name) => (pairs) =>
    edit((all) => {
      if (pairs.length) all.view.public[name] = pairs;
      else delete all.view.public[name];
    }, `public ${name}`);
  return html`<${Fold} summary="Add public counts, such as last year's release" id="public">${() => html`<div class="fields"><div><input type="file" id="public-release" webkitdirectory hidden tabindex="-1" aria-label="Folder of a release" onChange=${(e) => (published([...e.target.files]), (e.target.value = ""))} /><${Button} words="Read them from a release …" told=${() => document.getElementById("public-release").click()} /></div>${names.map((name) => html`<${Written} key=${name} label=${`${name}: value, count`} area="4" value=${work.view.public[name] ?? []} read=${read} write=${(pairs) => pairs.map((pair) => pair.join(", ")).join("\n")} told=${told(name)} placeholder=${"Female, 10200\nMale, 9800"} />`)}</div>`}<//>`;
}

function Listing({ last, asked, ask, show }) {
  const one = last.what === "tables" ? "table" : "query";
  const wished = last.rows.some((row) => row.wish !== null);
  const flagged = last.rows.some((row) => row.flags);
  const head = [one, "numbers", "± (95\u00a0%)", "reliable from", ...(wished ? ["good enough"] : []), ...(flagged ? ["cells"] : [])];
  const rows = last.rows.map((row) => ({
    key: row.title,
    cells: [
      row.names ? html`<${Button} kind="link" words=${shortened(row.title, 80)} told=${() => show(row.names)} />` : shortened(row.title, 80),
      whole(row.numbers),
      number(row.margin),
      row.reliable === null ? "–" : whole(Math.ceil(row.reliable - 1e-9)),
      ...(wished ? [row.wish !== null && row.stddev <= row.wish * (1 + 1e-9) ? "yes" : "no"] : []),
      ...(flagged ? [row.flags && html`<${Flags} flags=${row.flags} small />`] : []),
    ],
  }));
  const rest = last.matching - last.rows.length;
  return html`<section class="all" aria-labelledby="h-all"><h3 id="h-all">All ${last.what}</h3>
    ${last.flags && html`<p class="hint">Numbers expected to be reliable (an error of at most 16.5 %), to be used with caution, unreliable (over 33.3 %):</p><${Flags} flags=${last.flags} />`}
    <div class="pair seek"><${Text} label="Find a table" type="search" id="find" value=${asked.find} told=${(value) => ask({ find: value, rows: 15 })} /><${Choice} label="Order" value=${asked.order} options=${[["asked", "as asked"], ["worst", "least accurate first"]]} told=${(value) => ask({ order: value })} /></div>
    <div id="errors">${rows.length ? html`<${Figures} caption="Expected errors of every table" head=${head} rows=${rows} hidden />` : html`<p>${last.count ? "No table has such a name." : "Nothing is asked yet."}</p>`}
      ${rest > 0 && html`<${Button} kind="quiet" id="more" words=${`Show ${whole(Math.min(rest, 200))} more of ${whole(rest)}`} told=${() => ask({ rows: asked.rows + 200 })} />`}</div>
    <${Fold} summary="What exactly is promised">${() => html`<p>The noise hides ${last.secret}. ${last.found.map(([of, share]) => `Wrongly flagging 1 in ${whole(of)}, the strongest attacker recognises at most ${share} of 100. `)}The plan is ${last.proof}. Guarantee: ${last.guarantee}.</p>${last.remarks.map((remark) => html`<p class="hint">${remark}</p>`)}`}<//>
  </section>`;
}
