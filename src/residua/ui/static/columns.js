// Step 1: the columns. It begins with the user's file, a list, or a specification; then what each column may hold.

import { Area, Button, Choice, Fold, html, Text, Tick, useEffect, useRef, useState, Written } from "./parts.js";
import { lines, listed, plural, shortened } from "./words.js";

const KINDS = [
  ["values", "Categories"],
  ["range", "Whole numbers"],
  ["bins", "Numbers, in classes"],
  ["dates", "Dates"],
  ["codes", "Codes 0, 1, 2, …"],
  ["other", "Something else, as TOML"],
];
const UNITS = ["day", "week", "month", "quarter", "year"];
const POLICIES = [
  ["", "stop with an error"],
  ["other", "count as “(other)”"],
  ["drop", "leave the record out"],
];
const EMPTY = { values: [], type: "text", edges: [], labels: [], low: "", high: "", first: "", last: "", unit: "", size: "", units: [], levels: [], unknown: "", missing: "", rest: "" };

export const blank = (name, kind = "values") => ({ ...structuredClone(EMPTY), name, kind });

// The attribute of a column of a file: what its type allows, and the codes its dictionary declares; the rest is asked.
export function drafted({ name, type, values = [], title }) {
  const one = blank(name, { whole: "range", number: "bins", date: "dates" }[type] ?? "values");
  if (type === "truth") Object.assign(one, { type: "truth", values: ["false", "true"] });
  if (values.length) {
    const numbers = values.every(([value]) => /^-?\d+$/.test(value));
    Object.assign(one, { kind: "values", type: numbers ? "number" : "text", values: values.map(([value]) => value) });
    one.rest = `[meanings]\n${values.filter(([, label]) => label).map(([value, label]) => `${JSON.stringify(value)} = ${JSON.stringify(label)}\n`).join("")}`;
  }
  if (title && title !== name) one.rest = `title = ${JSON.stringify(title)}\n${one.rest}`;
  return one;
}

// The first screen: one thing to do, and three other ways.
export function Start({ read, paste, open, demo, busy }) {
  const [over, setOver] = useState(false);
  const [text, setText] = useState("");
  const chosen = useRef();
  const drop = (e) => (e.preventDefault(), setOver(false), e.dataTransfer.files[0] && read(e.dataTransfer.files[0]));
  return html`<section id="start" class="start" aria-labelledby="h-start">
    <h2 id="h-start">Which table do you want to publish?</h2>
    <p class="lead">Begin with its columns. See how accurate the published numbers would be, and how well people are protected, before any data is read.</p>
    <div class=${over ? "drop over" : "drop"} onDragOver=${(e) => (e.preventDefault(), setOver(true))} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <input type="file" ref=${chosen} id="data" aria-label="Data file, of which the header is read" accept=".csv,.tsv,.txt,.parquet,.xlsx,.xlsm,.sav,.zsav,.toml,.json" tabindex="-1" hidden onChange=${(e) => (e.target.files[0] && read(e.target.files[0]), (e.target.value = ""))} />
      <p class="big">Drop your data file here</p>
      <${Button} kind="strong" id="choose" told=${() => chosen.current.click()} disabled=${busy} words="Choose a file" />
      <p class="hint">CSV, Parquet, Excel or SPSS. <strong>Only the header is read, here in your browser</strong>: names and types of columns, and labels of codes where the file declares them. No record leaves your disk.</p>
    </div>
    <div class="others">
      <${Fold} summary="Paste a list of columns" id="paste-fold">${() => html`<div class="fields">
        <${Area} label="Names of columns, one per line or as they stand in the first line" value=${text} told=${setText} area="5" id="pasted" placeholder=${"age\nsex\nregion"} />
        <div><${Button} id="paste" words="Use these columns" told=${() => paste(text)} disabled=${!text.trim()} /></div></div>`}<//>
      <p><${Button} kind="quiet" told=${open} words="Open a specification or a page file" /></p>
      <p><${Button} kind="quiet" id="demo" told=${demo} words="Look at the bundled example first" /></p>
    </div>
  </section>`;
}

export function Columns({ work, edit, problems, sizes, next, rules, fresh }) {
  const { attributes } = work.form;
  const [open, setOpen] = useState(fresh ? 0 : null);
  const [sought, seek] = useState("");
  const wrong = (i) => problems.find(([kind, place]) => kind === "attributes" && place === i)?.[2];
  const unfinished = attributes.filter((_, i) => wrong(i)).length;
  const known = useRef(attributes.length);
  useEffect(() => {
    if (attributes.length > known.current) setOpen(known.current); // the first of what was added
    known.current = attributes.length;
  }, [attributes.length]);
  const add = () =>
    edit((all) => {
      const names = new Set(all.form.attributes.map((one) => one.name));
      let n = all.form.attributes.length + 1;
      while (names.has(`column ${n}`)) n += 1;
      all.form.attributes.push(blank(`column ${n}`));
    });
  const nextOpen = attributes.findIndex((_, i) => i !== open && wrong(i));
  return html`<section aria-labelledby="h-columns">
    <h2 id="h-columns">What may each column hold?</h2>
    <p class="hint">From a questionnaire or a code list, never from the data: values learned from the data reveal who is in it. Leave out columns that no table needs, such as names and identifiers.</p>
    ${unfinished > 0 && html`<p class="todo" id="todo"><strong>${plural(unfinished, "column")} to finish.</strong> They are left out of the picture until then.${open === null && nextOpen >= 0 && html` <${Button} kind="quiet" words="Show the next" told=${() => setOpen(nextOpen)} />`}</p>`}
    ${attributes.length > 15 && html`<${Text} label="Find a column" type="search" id="seek" value=${sought} told=${seek} />`}
    <ul id="attributes" class="cards">
      ${attributes.map((one, i) => html`<${Card} key=${i} one=${one} hidden=${!one.name.toLowerCase().includes(sought.toLowerCase())} size=${sizes?.[one.name]} wrong=${wrong(i)} open=${open === i} toggle=${(on) => setOpen(on ? i : null)} change=${change(edit, i)} remove=${() => (setOpen(null), edit((all) => all.form.attributes.splice(i, 1)))} move=${(by) => move(edit, i, by, setOpen)} onward=${nextOpen >= 0 && (() => setOpen(nextOpen))} />`)}
    </ul>
    <div class="row"><${Button} id="add-attribute" told=${add} words="Add a column" /></div>
    <${Fold} summary="Combinations that cannot occur">${() => html`<${Area} label="Structural zeros, as TOML" id="rules" value=${work.form.rules} told=${rules} placeholder=${'[[impossible]]\nage = { low = 0, high = 14 }\nmarried = "yes"'} />`}<//>
    <div class="onward">${next}</div>
  </section>`;
}

const change = (edit, i) => (key, value) => edit((all) => rewrite(all.form, i, key, value), `column ${i} ${key}`);

function rewrite(form, i, key, value) {
  const one = form.attributes[i];
  if (key === "name") follow(form, one.name, value);
  if (key === "kind") for (const [each, empty] of Object.entries(EMPTY)) one[each] ??= structuredClone(empty);
  one[key] = value;
}

// Tables follow a column that is renamed.
function follow(form, before, after) {
  const renamed = (names) => names?.forEach((name, i) => name === before && (names[i] = after));
  for (const one of form.tables) {
    one.sets?.forEach(renamed);
    renamed(one.by);
    one.product?.forEach(renamed);
    if (one.along === before) one.along = after;
  }
}

function move(edit, i, by, setOpen) {
  edit((all) => {
    const list = all.form.attributes;
    if (i + by < 0 || i + by >= list.length) return;
    list.splice(i + by, 0, ...list.splice(i, 1));
    setOpen(i + by);
  });
}

function Card({ one, size, wrong, open, toggle, change, remove, move, hidden, onward }) {
  const set = (key) => (value) => change(key, value);
  return html`<li class=${wrong ? "card unfinished" : "card"} hidden=${hidden}>
    <details open=${open}>
      <summary onClick=${(e) => (e.preventDefault(), toggle(!open))}><span class="name">${one.name || "(no name)"}</span><span class="kind">${words(one)}</span><span class="count">${wrong ? "to finish" : size === undefined ? "" : plural(size, "cell")}</span></summary>
      ${open && html`<div class="fields">
        ${wrong && html`<p class="wrong" role="status">${wrong}</p>`}
        <div class="pair"><${Text} label="Name" value=${one.name} told=${set("name")} /><${Choice} label="It holds" value=${one.kind} options=${KINDS} told=${set("kind")} /></div>
        <${Kind} one=${one} set=${set} />
        <div class="row small">${onward && html`<${Button} words="Next column" told=${onward} />`}<${Button} kind="quiet" words="Move up" told=${() => move(-1)} /><${Button} kind="quiet" words="Move down" told=${() => move(1)} /><${Button} kind="quiet danger" words="Leave out" told=${remove} /></div>
      </div>`}
    </details></li>`;
}

function Kind({ one, set }) {
  const many = (key, label, more = {}) => html`<${Written} label=${label} value=${one[key] ?? []} read=${lines} write=${(given) => given.join("\n")} told=${set(key)} area="5" ...${more} />`;
  const numbers = (key, label, more = {}) => html`<${Written} label=${label} value=${one[key] ?? []} read=${listed} write=${(given) => given.join("; ")} told=${set(key)} ...${more} />`;
  const fields = {
    values: () => html`${many("values", "Values, one per line", { hint: "Paste them from the code list." })}<${Choice} label="They are" value=${one.type || "text"} options=${[["text", "text"], ["number", "whole numbers"], ["truth", "true and false"]]} told=${set("type")} />`,
    range: () => html`<div class="pair"><${Text} label="From" inputmode="numeric" value=${one.low} told=${set("low")} /><${Text} label="To" inputmode="numeric" value=${one.high} told=${set("high")} /></div>`,
    bins: () => html`${numbers("edges", "Edges", { hint: "In increasing order; each class begins at an edge, and “inf” may be the last: 0; 18; 65; inf." })}${many("labels", "Labels, one per line", { hint: "One per class, or none at all.", area: "3" })}`,
    dates: () => html`<div class="pair"><${Text} label="First day" type="date" value=${one.first} told=${set("first")} /><${Text} label="Last day" type="date" value=${one.last} told=${set("last")} /><${Choice} label="Counted by" value=${one.unit || "day"} options=${UNITS.map((unit) => [unit, unit])} told=${set("unit")} /></div>
      <fieldset><legend>Levels, for hierarchies</legend><div class="ticks">${UNITS.slice(1).map((unit) => html`<${Tick} label=${unit} checked=${one.units?.includes(unit)} told=${(on) => set("units")(UNITS.filter((each) => (each === unit ? on : one.units?.includes(each))))} />`)}</div></fieldset>`,
    codes: () => html`<${Text} label="How many" inputmode="numeric" value=${one.size} told=${set("size")} />`,
    other: () => html`<${Area} label="TOML" class="code" area="6" value=${one.rest} told=${set("rest")} hint="The keys of a [domain.NAME] table; see the page on specifications." />`,
  };
  return html`<div class="fields inner">${fields[one.kind]?.()}
    ${one.kind !== "other" && html`<${Fold} summary="Levels, other values, titles" open=${Boolean(one.levels?.length)}>${() => html`<div class="fields">
      ${one.kind !== "dates" && html`<${Levels} one=${one} told=${set("levels")} />`}
      <div class="pair"><${Choice} label="A value that is not declared" value=${one.unknown} options=${POLICIES} told=${set("unknown")} /><${Choice} label="An absent value" value=${one.missing} options=${POLICIES} told=${set("missing")} /></div>
      <${Area} label="Further settings, as TOML" class="code" value=${one.rest} told=${set("rest")} hint="title, description, code, meanings, …" />
    </div>`}<//>`}</div>`;
}

function Levels({ one, told }) {
  const levels = one.levels ?? [];
  const numbers = one.kind !== "values" || one.type === "number";
  const set = (i, key) => (value) => told(levels.map((each, j) => (i === j ? { ...each, [key]: value } : each)));
  return html`<div>${levels.map((each, i) => html`<fieldset class="level" key=${i}><legend>Level</legend>
      <div class="pair"><${Text} label="Name" value=${each.name} told=${set(i, "name")} />${numbers && html`<${Choice} label="By" value=${each.by} options=${[["groups", "groups of values"], ["edges", "edges"]]} told=${set(i, "by")} />`}</div>
      ${each.by === "edges"
        ? html`<${Written} label="Edges" value=${each.edges ?? []} read=${listed} write=${(given) => given.join("; ")} told=${set(i, "edges")} /><${Written} label="Labels, one per line" area="2" value=${each.labels ?? []} read=${lines} write=${(given) => given.join("\n")} told=${set(i, "labels")} />`
        : html`<${Written} label="Groups" area="6" value=${each.groups ?? []} read=${groups} write=${outline} told=${set(i, "groups")} hint="A group on a line of its own, its values below it, indented by two spaces." />`}
      <${Button} kind="quiet danger" words="Remove level" told=${() => told(levels.filter((_, j) => j !== i))} /></fieldset>`)}
    <${Button} kind="quiet" words="Add a level" told=${() => told([...levels, { name: "", by: numbers ? "edges" : "groups", edges: [], labels: [], groups: [] }])} /></div>`;
}

const outline = (given) => given.map(([group, members]) => [group, ...members.map((one) => `  ${one}`)].join("\n")).join("\n");

function groups(text) {
  const found = [];
  for (const line of lines(text)) {
    if (!line.startsWith("  ")) found.push([line, []]);
    else if (found.length) found[found.length - 1][1].push(line.slice(2));
  }
  return found;
}

function words(one) {
  const some = (list, most) => list.slice(0, most).join(", ") + (list.length > most ? ", …" : "");
  switch (one.kind) {
    case "values":
      return one.values.length ? shortened(some(one.values, 4), 80) : "which values?";
    case "range":
      return one.low || one.high ? `${one.low || "?"} to ${one.high || "?"}` : "from where to where?";
    case "bins":
      return one.labels.length ? some(one.labels, 3) : one.edges.length ? `edges ${some(one.edges, 5)}` : "which classes?";
    case "dates":
      return `${one.first || "?"} to ${one.last || "?"} by ${one.unit || "day"}`;
    case "codes":
      return `codes 0 to ${Number(one.size) - 1 || "?"}`;
    default:
      return "as TOML";
  }
}
