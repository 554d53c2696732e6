// A release that was opened: its tables as charts, numbers people quote, projections. All of it was published with noise.

import { Button, Choice, Figures, Fold, html, Picture, Text, Tick, useEffect, useState } from "./parts.js";
import { plural, shortened, whole } from "./words.js";

const QUOTES = [["share", "share of each value of"], ["mean", "mean of"], ["median", "median of"]];
const rows = ({ rows, decimals }) => rows.map((row, i) => ({ key: i, cells: row.map((one) => (typeof one === "string" ? one : one === null ? "–" : one.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace("-", "−"))) }));
const title = (names) => names.join(" × ") || "total";

export function Released({ release, post, alert }) {
  const first = release.tables.find((one) => one.names.length === 1) ?? release.tables[0];
  const [names, choose] = useState(first?.names ?? []);
  const [projected, project] = useState(false);
  const [sought, seek] = useState("");
  const [table, setTable] = useState(null);
  useEffect(() => {
    let mine = true;
    setTable(null);
    post("/released", { ask: { names, projected } }).then((answer) => mine && setTable(answer));
    return () => (mine = false);
  }, [names, projected]);
  const listed = release.tables.filter((one) => title(one.names).toLowerCase().includes(sought.toLowerCase()));
  return html`<header class="top"><div class="bar"><div class="title"><h1>Release</h1><p id="file">${release.title} · ${plural(release.tables.length, "table")}</p></div></div></header>
    ${alert}
    <main class="desk released"><div class="ask">
        <h2>What was published</h2><p>${release.said}</p>
        <p class="hint">Guarantee: ${release.guarantee}. Everything here comes from the release: no data is read, nothing is spent.</p>
        ${release.advice && html`<p class="note">${release.advice}</p>`}
        <${Text} label="Find a table" type="search" id="find" value=${sought} told=${seek} />
        <ul class="pick" id="released-tables">${listed.slice(0, 200).map((one) => html`<li key=${title(one.names)}><button type="button" aria-current=${one.names === names ? "true" : undefined} onClick=${() => choose(one.names)}><span>${shortened(title(one.names), 60)}</span><small>${whole(one.cells)}</small></button></li>`)}</ul>
        ${listed.length > 200 && html`<p class="hint">and ${whole(listed.length - 200)} more; search for one.</p>`}
      </div><div class="see">
        <section class="preview" aria-labelledby="h-table" aria-busy=${table ? "false" : "true"}><header><h2 id="h-table">${title(names)}</h2>
          ${release.projects && html`<${Tick} label="Without negative counts, with sums that agree" checked=${projected} told=${project} />`}</header>
          ${!table && html`<p class="hint">${projected ? "Looking for the nearest tables that agree; this can take a minute …" : "…"}</p>`}
          ${table?.error && html`<p class="wrong">${table.error}</p>`}
          ${table?.picture && html`<${Picture} picture=${table.picture} name=${`Chart: ${title(names)}`} />`}
          ${table?.rows && html`<${Fold} summary="Numbers" open=${!table.picture}>${() => html`<${Figures} caption=${title(names)} head=${table.head} texts=${names.length} hidden rows=${rows(table)} />${table.more > 0 && html`<p class="hint">and ${whole(table.more)} more; residua table writes all.</p>`}<p class="hint">${table.note}</p>`}<//>`}
        </section>
        <${Quote} release=${release} post=${post} />
      </div></main>
    <footer><p>This page speaks with residua alone. It reads no data, and nothing is spent here.</p></footer>`;
}

function Quote({ release, post }) {
  const [asked, ask] = useState({ quote: "share", of: release.attributes[0], by: "" });
  const [quoted, setQuoted] = useState(null);
  const names = release.attributes.map((name) => [name, shortened(name, 50)]);
  const set = (key) => (value) => ask({ ...asked, [key]: value });
  const go = async () => setQuoted(await post("/released", { ask: asked }));
  return html`<section class="quote" aria-labelledby="h-quote"><h2 id="h-quote">Quote a number</h2>
    <div class="pair"><${Choice} label="The" value=${asked.quote} options=${QUOTES} told=${set("quote")} /><${Choice} label="Column" value=${asked.of} options=${names} told=${set("of")} /><${Choice} label="For each" value=${asked.by} options=${[["", "all together"], ...names]} told=${set("by")} /></div>
    <div class="row"><${Button} kind="strong" id="quote" told=${go} words="Quote it with its interval" /></div>
    ${quoted?.error && html`<p class="wrong" role="status">${quoted.error}</p>`}
    ${quoted?.rows && html`<div id="quoted"><${Figures} caption=${quoted.note} head=${quoted.head} texts=${quoted.head.length - 4} rows=${rows(quoted)} /></div>`}
  </section>`;
}
