// Making elements: every text is a text node, never markup. Numbers as people write them.

let count = 0;

export const fresh = () => `e${(count += 1)}`;

export function el(tag, given = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...inside.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

export function svg(tag, given = {}, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

// A label, its control, and a hint that the control is described by.
export function field(label, control, hint = "", kind = "field") {
  control.id ||= fresh();
  const words = hint ? el("small", { id: fresh(), class: "hint" }, hint) : null;
  if (words) control.setAttribute("aria-describedby", words.id);
  return el("div", { class: kind }, el("label", { for: control.id }, label), control, words);
}

export function input(value, told, more = {}) {
  const made = el("input", { type: "text", autocomplete: "off", spellcheck: "false", ...more });
  return holding(made, value, told);
}

export function area(value, told, more = {}) {
  return holding(el("textarea", { rows: "4", spellcheck: "false", ...more }), value, told);
}

function holding(made, value, told) {
  made.value = value ?? "";
  made.addEventListener("input", () => told(made.value));
  return made;
}

export function choice(value, options, told, more = {}) {
  const made = el("select", { ...more, onchange: (e) => told(e.target.value) });
  for (const [key, words] of options) made.append(el("option", { value: key }, words));
  made.value = value;
  return made;
}

export const tick = (label, checked, told) => {
  const box = el("input", { type: "checkbox", id: fresh(), onchange: (e) => told(e.target.checked) });
  box.checked = checked;
  return el("span", { class: "tick" }, box, el("label", { for: box.id }, label));
};

export const button = (words, told, more = {}) => el("button", { type: "button", onclick: told, ...more }, words);


export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "?";
  const size = Math.abs(value);
  const places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  const told = size.toLocaleString("en", { maximumFractionDigits: places });
  return value < 0 && told !== "0" ? `−${told}` : told;
}

export const whole = (value) => Number(value).toLocaleString("en");

export function significant(value, digits = 4) {
  const told = Number(Number(value).toPrecision(digits));
  return Math.abs(told) >= 1e-4 || told === 0 ? String(told) : told.toExponential();
}

// Rounded up: a cost is never understated.
export function upward(value, digits = 4) {
  const power = 10 ** (digits - 1 - Math.floor(Math.log10(value)));
  const told = Number((Math.ceil(value * power * (1 - 1e-12)) / power).toPrecision(digits));
  return significant(told, digits);
}

export const plural = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

export const lines = (text) => text.split("\n").filter((line) => line !== "");

export const listed = (text) => text.split(/[,;\s]+/).filter((part) => part !== "");

export function shortened(words, most) {
  const letters = [...words];
  return letters.length <= most ? words : `${letters.slice(0, most - 1).join("").trimEnd()}…`;
}

export function table(caption, head, rows, texts = 1) {
  const cell = (words, place, tag, more = {}) =>
    el(tag, { class: place < texts ? "text" : null, ...more }, words);
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, head.map((words, i) => cell(words, i, "th", { scope: "col" })))),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el("tr", {}, row.map((words, i) => (i ? cell(words, i, "td") : cell(words, i, "th", { scope: "row" })))),
        ),
      ),
    ),
  );
}
