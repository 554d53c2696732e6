// Step 2: which tables are published, and which of them matter most.

import { Area, Button, Choice, Fold, html, Text, Tick, useState, Written } from "./parts.js";
import { asNumber, lines, shortened } from "./words.js";

const KINDS = [
  ["ways", "Every table of one, two … columns"],
  ["sets", "Tables that I choose"],
  ["small", "Every table with few cells"],
  ["queries", "Counts of records that meet a condition"],
  ["prefixes", "Running counts, up to each value"],
  ["ranges", "Counts in ranges"],
  ["hierarchy", "All levels of a hierarchy"],
  ["product", "Several of these, crossed"],
  ["other", "Something else, as TOML"],
];
const EMPTY = { ways: ["1"], sets: [], max_cells: "", queries: [["", ""]], along: "", by: [], listed: [], product: [["", "identity"]], weight: "", wish: "", amount: "", confidence: "", rest: "" };
// How much a table matters, as a weight: errors fall with its fourth root where tables share nothing.
const MATTER = [["", "as much as the others"], ["16", "more: about twice as accurate"], ["256", "most: about four times as accurate"], ["0.0625", "less: about half as accurate"]];

export const blank = (kind = "ways") => ({ ...structuredClone(EMPTY), kind, ways: kind === "product" ? [] : ["1"] });

export function Tables({ work, edit, problems, next }) {
  const { tables } = work.form;
  const [dragged, drag] = useState(null);
  const wrong = (i) => problems.find(([kind, place]) => kind === "tables" && place === i)?.[2];
  const change = (i) => (key, value) =>
    edit((all) => {
      const one = all.form.tables[i];
      if (key === "kind") for (const [each, empty] of Object.entries(EMPTY)) one[each] ??= structuredClone(empty);
      if (key === "kind") one.ways = value === "product" ? [] : one.ways.length ? one.ways : ["1"];
      one[key] = value;
    }, `table ${i} ${key}`);
  const place = (from, to) => from !== null && to >= 0 && to < tables.length && edit((all) => void all.form.tables.splice(to, 0, ...all.form.tables.splice(from, 1)));
  const byOrder = () => edit((all) => all.form.tables.forEach((one, i) => (one.weight = String(4 ** (all.form.tables.length - 1 - i)))));
  const wished = tables.some((one) => one.wish);
  const add = () =>
    edit((all) => {
      const one = blank();
      const other = all.form.tables.find((each) => each.wish);
      all.form.tables.push(other ? { ...one, wish: other.wish, amount: other.amount, confidence: other.confidence } : one);
    });
  return html`<section aria-labelledby="h-tables">
    <h2 id="h-tables">Which tables will be published?</h2>
    <p class="hint">Every number gets an error bar. All tables share one budget, so ask only for those that will be used.</p>
    <ol id="tables" class="cards">
      ${tables.map((one, i) => html`<li key=${i} class=${wrong(i) ? "card entry unfinished" : "card entry"} onDragOver=${(e) => dragged !== null && e.preventDefault()} onDrop=${(e) => (e.preventDefault(), place(dragged, i), drag(null))}>
        <${Entry} one=${one} form=${work.form} change=${change(i)} wrong=${wrong(i)} wished=${wished} />
        <div class="row small">
          ${tables.length > 1 && html`<span class="grip" aria-hidden="true" title="Drag to order" draggable="true" onDragStart=${(e) => (drag(i), e.dataTransfer.setData("text/plain", ""), e.dataTransfer.setDragImage(e.target.closest("li"), 0, 0))} onDragEnd=${() => drag(null)}>⠿</span>
            <${Button} kind="quiet" words="Up" aria-label=${`Entry ${i + 1} up`} told=${() => place(i, i - 1)} disabled=${i === 0} /><${Button} kind="quiet" words="Down" aria-label=${`Entry ${i + 1} down`} told=${() => place(i, i + 1)} disabled=${i === tables.length - 1} />`}
          <${Button} kind="quiet danger" words="Remove" told=${() => edit((all) => all.form.tables.splice(i, 1))} />
        </div></li>`)}
    </ol>
    <div class="row"><${Button} id="add-table" told=${add} words="Add tables" />
      ${tables.length > 1 && !wished && html`<${Button} kind="quiet" id="by-order" told=${byOrder} words="Let this order say what matters most" />`}</div>
    <div class="onward">${next}</div>
  </section>`;
}

function Entry({ one, form, change, wrong, wished }) {
  const set = (key) => (value) => change(key, value);
  return html`<div class="fields">
    ${wrong && html`<p class="wrong" role="status">${wrong}</p>`}
    <${Choice} label="What" value=${one.kind} options=${KINDS} told=${set("kind")} />
    <${Kind} one=${one} form=${form} set=${set} />
    ${one.kind !== "other" && !wished && html`<${Matter} one=${one} set=${set} />`}
  </div>`;
}

function Matter({ one, set }) {
  const known = MATTER.some(([weight]) => weight === one.weight || (weight && asNumber(weight) === asNumber(one.weight)));
  const options = known ? MATTER : [...MATTER, [one.weight, `weight ${one.weight}`]];
  return html`<div class="pair"><${Choice} label="These matter" value=${one.weight} options=${options} told=${set("weight")} />
    <${Fold} summary="A weight of your own" open=${!known}>${() => html`<${Text} label="Weight" value=${one.weight} told=${set("weight")} placeholder="1" hint="A number, or 1/sqrt(cells), or 1/cells." />`}<//></div>`;
}

function Kind({ one, form, set }) {
  const few = () => html`<${Text} label="At most so many cells" inputmode="numeric" value=${one.max_cells} told=${set("max_cells")} placeholder=${one.kind === "ways" ? "any" : ""} />`;
  switch (one.kind) {
    case "ways":
      return html`<${Ways} one=${one} told=${set("ways")} /><${Fold} summary="Leave large tables out" open=${Boolean(one.max_cells)}>${few}<//>`;
    case "small":
      return few();
    case "sets":
      return html`<${Sets} one=${one} form=${form} told=${set("sets")} />`;
    case "queries":
      return html`<${Queries} one=${one} told=${set("queries")} />`;
    case "product":
      return html`<${Product} one=${one} form=${form} told=${set("product")} /><${Ways} one=${one} told=${set("ways")} legend="Crossed with all tables of" />`;
    case "other":
      return html`<${Area} label="TOML" class="code" area="4" value=${one.rest} told=${set("rest")} hint="The keys of a [[workload]] entry, as specifications write them." />`;
    default:
      return html`<${Along} one=${one} form=${form} set=${set} />`;
  }
}

function Ways({ one, told, legend = "All tables of" }) {
  const named = ["the total", "one column", "two", "three", "four"];
  const most = Math.max(3, ...one.ways.map(Number).filter(Number.isInteger));
  const chosen = (n, on) => Array.from({ length: most + 1 }, (_, i) => String(i)).filter((each) => (each === String(n) ? on : one.ways.includes(each)));
  return html`<fieldset><legend>${legend}</legend><div class="ticks">${Array.from({ length: most + 1 }, (_, n) => html`<${Tick} label=${named[n] ?? String(n)} checked=${one.ways.includes(String(n))} told=${(on) => told(chosen(n, on))} />`)}</div></fieldset>`;
}

// Columns as chips: each can be removed, and another added from a list.
function Chips({ names, form, told, label }) {
  const known = form.attributes.map((each) => each.name);
  const left = known.filter((name) => !names.includes(name));
  return html`<div class="chips">
    ${names.map((name) => html`<span class=${known.includes(name) ? "chip" : "chip lost"}>${shortened(name, 40)}<${Button} kind="close" aria-label=${`Remove ${name} from ${label}`} words="×" told=${() => told(names.filter((each) => each !== name))} /></span>`)}
    <select aria-label=${`Add a column to ${label}`} value="" onChange=${(e) => (e.target.value && told([...names, e.target.value]), (e.target.value = ""))}><option value="">add a column …</option>${left.map((name) => html`<option value=${name}>${shortened(name, 60)}</option>`)}</select>
  </div>`;
}

function Sets({ one, form, told }) {
  const set = (i, names) => told(one.sets.map((each, j) => (i === j ? names : each)));
  return html`<div><ol class="sets" aria-label="Tables; one without columns is the total">
      ${one.sets.map((names, i) => html`<li><${Chips} names=${names} form=${form} told=${(value) => set(i, value)} label=${`table ${i + 1}`} /><${Button} kind="quiet danger" aria-label=${`Remove table ${i + 1}`} words="Remove table" told=${() => told(one.sets.filter((_, j) => j !== i))} /></li>`)}
    </ol><${Button} kind="quiet" words="Add a table" told=${() => told([...one.sets, []])} /></div>`;
}

function Queries({ one, told }) {
  const set = (i, place) => (value) => told(one.queries.map((pair, j) => (i === j ? pair.with(place, value) : pair)));
  return html`<div><ol class="sets bare" aria-label="Conditions">
      ${one.queries.map((pair, i) => html`<li class="query"><${Text} label="Condition, as SQL" class="code" value=${pair[1]} told=${set(i, 1)} placeholder="age >= 18 and sex = 'Female'" /><${Text} label="Label" value=${pair[0]} told=${set(i, 0)} placeholder="the condition itself" /><${Button} kind="quiet danger" aria-label=${`Remove condition ${i + 1}`} words="Remove" told=${() => told(one.queries.filter((_, j) => j !== i))} /></li>`)}
    </ol><${Button} kind="quiet" words="Add a condition" told=${() => told([...one.queries, ["", ""]])} /></div>`;
}

const offered = (form, held) => {
  const names = [["", "choose …"], ...form.attributes.map((each) => [each.name, shortened(each.name, 60)])];
  return held && !names.some(([name]) => name === held) ? [...names, [held, held]] : names;
};

// Columns that are crossed, each counted in its own way; levels are those that the column declares.
function Product({ one, form, told }) {
  const named = [["identity", "each value"], ["prefixes", "up to each value"], ["ranges", "every range"], ["hierarchy", "all levels"]];
  const set = (i, pair) => told(one.product.map((each, j) => (i === j ? pair : each)));
  const hows = ([name, how]) => {
    const chosen = form.attributes.find((each) => each.name === name);
    const all = [...named, ...[...(chosen?.units ?? []), ...(chosen?.levels ?? []).map((each) => each.name)].map((level) => [level, `by ${level}`])];
    return all.some(([key]) => key === how) ? all : [...all, [how, how]];
  };
  return html`<div><ol class="sets bare" aria-label="Columns that are crossed">
      ${one.product.map((pair, i) => html`<li class="query"><div class="pair"><${Choice} label="Column" value=${pair[0]} options=${offered(form, pair[0])} told=${(value) => set(i, [value, "identity"])} /><${Choice} label="Counted" value=${pair[1]} options=${hows(pair)} told=${(value) => set(i, [pair[0], value])} /></div><${Button} kind="quiet danger" aria-label=${`Remove factor ${i + 1}`} words="Remove" told=${() => told(one.product.filter((_, j) => j !== i))} /></li>`)}
    </ol><${Button} kind="quiet" words="Cross with another" told=${() => told([...one.product, ["", "identity"]])} /></div>`;
}

function Along({ one, form, set }) {
  const chosen = form.attributes.find((each) => each.name === one.along);
  const numbers = ["range", "codes"].includes(chosen?.kind) || chosen?.type === "number";
  const read = (text) => lines(text).map((line) => line.split("..").map((end) => end.trim()));
  return html`<${Choice} label="Of the column" value=${one.along} options=${offered(form, one.along)} told=${set("along")} />
    <div class="field"><span class="label">For each value of</span><${Chips} names=${one.by} form=${form} told=${set("by")} label="the groups" /></div>
    ${one.kind === "ranges" && html`<${Written} label="Only these ranges, one per line" area="3" value=${one.listed ?? []} read=${read} write=${(pairs) => pairs.map((pair) => pair.join(" .. ")).join("\n")} told=${(value) => (set("numbers")(numbers), set("listed")(value))} placeholder="18 .. 64" hint="Every range if left empty." />`}`;
}
