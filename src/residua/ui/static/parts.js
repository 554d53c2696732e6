// The parts that questions are made of: fields with labels, choices, drawings from the server, tables of figures.

import { Fragment, h, html, useEffect, useLayoutEffect, useRef, useState } from "./vendor.js";

let count = 0;
export const useId = () => useState(() => `e${(count += 1)}`)[0];

// A label, its control, a hint and what is wrong, of which the control is described.
function labelled(label, hint, wrong, own, control) {
  const made = useId(), id = own ?? made;
  const about = [hint && `${id}h`, wrong && `${id}w`].filter(Boolean).join(" ") || undefined;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${control({ id, "aria-describedby": about, "aria-invalid": wrong ? "true" : undefined })}
    ${hint && html`<small class="hint" id="${id}h">${hint}</small>`}
    ${wrong && html`<small class="wrong" id="${id}w">${wrong}</small>`}
  </div>`;
}

export const Text = ({ label, value, told, hint, wrong, ...more }) =>
  labelled(label, hint, wrong, more.id, (given) => html`<input type="text" autocomplete="off" spellcheck=${false} ...${given} ...${more} value=${value ?? ""} onInput=${(e) => told(e.target.value)} />`);

export const Choice = ({ label, value, options, told, hint, ...more }) =>
  labelled(label, hint, "", more.id, (given) => html`<select ...${given} ...${more} value=${value} onChange=${(e) => told(e.target.value)}>
    ${options.map(([key, words]) => html`<option key=${key} value=${key} selected=${key === value}>${words}</option>`)}
  </select>`);

// A text that stands for something else: it stays as it is written until what it stands for changes from outside.
export function Written({ label, value, read, write, told, hint, wrong, area, ...more }) {
  const [text, setText] = useState(() => write(value));
  useEffect(() => {
    if (JSON.stringify(read(text)) !== JSON.stringify(value)) setText(write(value));
  }, [JSON.stringify(value)]);
  const change = (e) => (setText(e.target.value), told(read(e.target.value)));
  return labelled(label, hint, wrong, more.id, (given) =>
    h(area ? "textarea" : "input", { autocomplete: "off", spellcheck: false, rows: area, type: area ? undefined : "text", ...given, ...more, value: text, onInput: change }),
  );
}

export const Area = (given) => html`<${Written} read=${(text) => text} write=${(text) => text ?? ""} area="3" ...${given} />`;

export const Tick = ({ label, checked, told, kind = "checkbox", name, value }) => {
  const id = useId();
  return html`<span class="tick"><input type=${kind} id=${id} name=${name} value=${value} checked=${checked} onChange=${(e) => told(e.target.checked)} /><label for=${id}>${label}</label></span>`;
};

// One of a few answers to a question.
export function Radios({ question, value, options, told }) {
  const name = useId();
  return html`<fieldset class="radios"><legend>${question}</legend>
    ${options.map(([key, words, more]) => html`<div class="option ${key === value ? "chosen" : ""}" key=${key}>
      <${Tick} kind="radio" name=${name} value=${key} label=${words} checked=${key === value} told=${() => told(key)} />${more && html`<small class="hint">${more}</small>`}</div>`)}
  </fieldset>`;
}

export const Button = ({ told, kind = "", words, children, ...more }) => html`<button type="button" class=${kind} onClick=${told} ...${more}>${words ?? children}</button>`;

// What is folded is made when it is first opened: a hundred columns are a hundred short lines until then.
export function Fold({ summary, open = false, kind = "further", children, ...more }) {
  const [isOpen, setOpen] = useState(open);
  useEffect(() => setOpen(open), [open]);
  return html`<details class=${kind} open=${isOpen} ...${more}><summary onClick=${(e) => (e.preventDefault(), setOpen(!isOpen))}>${summary}</summary>${isOpen && children()}</details>`;
}

// A drawing that the server made, as elements: only those that drawings have, and no attribute that could act.
const DRAWN = new Set("svg g rect line circle text tspan title polyline polygon path ellipse div p span small b i ul li table caption thead tbody tr th td".split(" "));
export function Drawing({ tree }) {
  if (typeof tree === "string") return tree;
  const [tag, given, ...inside] = tree;
  const safe = Object.fromEntries(Object.entries(given).filter(([name]) => !/^(on|style|href|src)|:/i.test(name)));
  return h(DRAWN.has(tag) ? tag : "span", safe, inside.map((each, i) => h(Drawing, { tree: each, key: i })));
}

export const Picture = ({ picture, name }) => html`<figure class="picture">
  <div class="scroll" tabindex="0" role="region" aria-label=${name}>${h(Drawing, { tree: picture.tree })}</div>
  ${picture.caption && html`<figcaption>${picture.caption}</figcaption>`}
</figure>`;

export function Figures({ caption, head, rows, texts = 1, hidden = false }) {
  const kind = (place) => (place < texts ? "text" : undefined);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table>
    <caption class=${hidden ? "unseen" : ""}>${caption}</caption>
    <thead><tr>${head.map((words, i) => html`<th scope="col" class=${kind(i)}>${words}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.key}>${row.cells.map((words, i) => (i ? html`<td class=${kind(i)}>${words}</td>` : html`<th scope="row" class="text">${words}</th>`))}</tr>`)}</tbody>
  </table></div>`;
}

// Cells as a picture: how many are expected to be reliable, to be used with caution, unreliable.
export function Flags({ flags, small = false }) {
  const all = flags[0] + flags[1] + flags[2];
  const named = ["reliable", "with caution", "unreliable"];
  const words = named.map((name, i) => `${flags[i].toLocaleString("en")} ${name}`).join(", ");
  const parts = [];
  flags.reduce((from, n, i) => (n && parts.push(h("rect", { x: (1000 * from) / all, y: 0, width: Math.max((1000 * n) / all, 4), height: 10, class: `flag${i}` })), from + n), 0);
  return html`<div class=${small ? "flags small" : "flags"}>
    <svg viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label=${words}>${parts}</svg>
    ${!small && html`<ul>${named.map((name, i) => html`<li class="flag${i}"><b>${flags[i].toLocaleString("en")}</b> ${name}</li>`)}</ul>`}
  </div>`;
}

// A question in front of everything else: `answers` are [words, what is done, kind]; the last is to stay.
export function Question({ words, more, answers }) {
  const dialog = useRef();
  useLayoutEffect(() => dialog.current.showModal(), []);
  const title = useId();
  return html`<dialog ref=${dialog} aria-labelledby=${title} onCancel=${(e) => (e.preventDefault(), answers.at(-1)[1]())}>
    <h2 id=${title}>${words}</h2><p>${more}</p>
    <div class="row">${answers.map(([name, told, kind]) => html`<${Button} told=${told} kind=${kind ?? ""} words=${name} />`)}</div>
  </dialog>`;
}

export { Fragment, h, html, useEffect, useRef, useState };
