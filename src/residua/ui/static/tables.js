// What is asked: one card per entry, with its wish for accuracy.

import { area, button, choice, el, field, fresh, input, lines, shortened, tick } from "./elements.js";

const KINDS = [
  ["ways", "All tables of so many attributes"],
  ["sets", "Particular tables"],
  ["small", "All tables with few cells"],
  ["queries", "Counts by conditions"],
  ["prefixes", "Counts up to each value"],
  ["ranges", "Counts in ranges"],
  ["hierarchy", "All levels of a hierarchy"],
  ["product", "Several of these, crossed"],
  ["other", "Something else, as TOML"],
];
const WISHES = [
  ["", "as accurate as the budget allows"],
  ["stddev", "standard error at most"],
  ["margin", "margin of error at most"],
  ["variance", "variance at most"],
];

export const blank = () => ({ kind: "ways", ways: ["1"], max_cells: "", weight: "", wish: "", amount: "", confidence: "", rest: "" });

export function draw(place, form, told) {
  place.replaceChildren(...form.tables.map((one) => card(one, form, told)));
}

export function add(place, form, told) {
  const one = blank();
  if (form.tables.some((each) => each.wish)) Object.assign(one, { wish: "stddev", amount: "10" });
  form.tables.push(one);
  place.append(card(one, form, told));
  place.lastElementChild.querySelector("select").focus();
  told();
}

// Names in entries follow an attribute that is renamed.
export function rename(form, before, after) {
  const follow = (names) => names?.forEach((name, i) => name === before && (names[i] = after));
  for (const one of form.tables) {
    one.sets?.forEach(follow);
    follow(one.by);
    one.product?.forEach(follow);
    if (one.along === before) one.along = after;
  }
}

function card(one, form, told) {
  const special = el("div", { class: "special" });
  const redraw = () => special.replaceChildren(...kindFields(one, form, told, redraw));
  redraw();
  const kind = choice(one.kind, KINDS, (value) => {
    one.kind = value;
    const empty = { ways: ["1"], sets: [], max_cells: "", queries: [["", ""]], along: "", by: [], listed: [], product: [["", "identity"]] };
    if (value === "product") one.ways = [];
    else if (!one.ways?.length) one.ways = ["1"];
    for (const [key, each] of Object.entries(empty)) one[key] ??= each;
    redraw();
    told();
  });
  const remove = button("Remove", () => {
    form.tables.splice(form.tables.indexOf(one), 1);
    const next = made.nextElementSibling ?? made.previousElementSibling;
    made.remove();
    (next?.querySelector("select") ?? document.getElementById("add-table")).focus();
    told();
  }, { class: "quiet danger" });
  const made = el("li", { class: "card" }, el("div", { class: "fields" }, field("What", kind), special, wish(one, told), weight(one, told), el("div", { class: "row" }, remove)));
  return made;
}

function wish(one, told) {
  const place = el("div", { class: "wish" });
  const redraw = () => {
    const kind = choice(one.wish, WISHES, (value) => {
      one.wish = value;
      if (value && !one.amount) one.amount = value === "variance" ? "100" : "10";
      redraw();
      place.querySelector("select").focus();
      told();
    });
    const amount = input(one.amount, (value) => ((one.amount = value), told()), { inputmode: "decimal", size: "7" });
    const sure = input(one.confidence, (value) => ((one.confidence = value), told()), { inputmode: "decimal", size: "5", placeholder: "0.95" });
    place.replaceChildren(
      el("div", { class: "pair" }, field("Wish for each number", kind), one.wish ? field("At most", amount) : "", one.wish === "margin" ? field("With confidence", sure) : ""),
    );
  };
  redraw();
  return place;
}

function weight(one, told) {
  if (one.kind === "other") return null;
  const more = el("details", { class: "further" }, el("summary", {}, "Weight"));
  more.append(
    field("How much it matters beside the others", input(one.weight, (value) => ((one.weight = value), told()), { placeholder: "1", list: "weights" }), "A number, or 1/sqrt(cells), or 1/cells."),
  );
  more.open = Boolean(one.weight);
  return more;
}

function kindFields(one, form, told, redraw) {
  const cells = () => field("At most so many cells", input(one.max_cells, (value) => ((one.max_cells = value), told()), { inputmode: "numeric", size: "8", placeholder: one.kind === "ways" ? "any" : "" }));
  switch (one.kind) {
    case "ways":
      return [ways(one, told), cells()];
    case "small":
      return [cells()];
    case "sets":
      return [sets(one, form, told, redraw)];
    case "queries":
      return [queries(one, told, redraw)];
    case "product":
      return [product(one, form, told, redraw), ways(one, told, "Only so many attributes at a time (all of them if none is ticked)")];
    case "other":
      return [field("TOML", area(one.rest, (value) => ((one.rest = value), told()), { class: "code" }), "The keys of a [[workload]] entry, such as ways = [1, 2].")];
    default:
      return along(one, form, told, redraw);
  }
}

function ways(one, told, legend = "All tables of") {
  const named = ["the total", "one attribute", "two", "three", "four"];
  const most = Math.max(3, ...one.ways.map(Number).filter(Number.isInteger));
  const boxes = Array.from({ length: most + 1 }, (_, n) =>
    tick(named[n] ?? String(n), one.ways.includes(String(n)), (on) => {
      const set = new Set(one.ways);
      if (on) set.add(String(n));
      else set.delete(String(n));
      one.ways = [...set].sort((a, b) => a - b);
      told();
    }),
  );
  return el("fieldset", {}, el("legend", {}, legend), el("div", { class: "ticks" }, boxes));
}

// Attributes that are crossed, each counted in its own way; levels are those that the attribute declares.
function product(one, form, told, redraw) {
  const named = [["identity", "each value"], ["prefixes", "up to each value"], ["ranges", "every range"], ["hierarchy", "all levels"]];
  const rows = one.product.map((pair, i) => {
    const names = [["", "choose …"], ...form.attributes.map((each) => [each.name, shortened(each.name, 60)])];
    const chosen = form.attributes.find((each) => each.name === pair[0]);
    const levels = [...(chosen?.units ?? []), ...(chosen?.levels ?? []).map((each) => each.name)];
    const hows = [...named, ...levels.map((level) => [level, `by ${level}`])];
    for (const [list, held] of [[names, pair[0]], [hows, pair[1]]]) if (!list.some(([key]) => key === held)) list.push([held, held]);
    return el(
      "li",
      { class: "query" },
      el(
        "div",
        { class: "pair" },
        field("Attribute", choice(pair[0], names, (value) => ((pair[0] = value), (pair[1] = "identity"), redraw(), told()))),
        field("Counted", choice(pair[1], hows, (value) => ((pair[1] = value), told()))),
      ),
      button("Remove", () => (one.product.splice(i, 1), redraw(), told()), { class: "quiet danger", "aria-label": `Remove factor ${i + 1}` }),
    );
  });
  const adder = button("Cross with another", () => (one.product.push(["", "identity"]), redraw(), told()), { class: "quiet" });
  return el("div", {}, el("ol", { class: "sets", "aria-label": "Attributes that are crossed" }, rows), adder);
}

// Attributes as chips: each can be removed, and another added from a list.
function chips(names, form, changed, label) {
  const place = el("div", { class: "chips" });
  const redraw = (focus) => {
    const known = new Set(form.attributes.map((each) => each.name));
    const left = [...known].filter((name) => !names.includes(name));
    const more = choice("", [["", "add …"], ...left.map((name) => [name, shortened(name, 60)])], (name) => {
      if (!name) return;
      names.push(name);
      redraw("select");
      changed();
    }, { "aria-label": `Add an attribute to ${label}` });
    more.addEventListener("focus", () => offer(more, form, names));
    place.replaceChildren(
      ...names.map((name) =>
        el("span", { class: known.has(name) ? "chip" : "chip wrong" }, shortened(name, 40), button("×", () => {
          names.splice(names.indexOf(name), 1);
          redraw("select");
          changed();
        }, { "aria-label": `Remove ${name} from ${label}`, class: "close" })),
      ),
      more,
    );
    if (focus) place.querySelector(focus).focus();
  };
  redraw();
  return place;
}

// The list follows attributes that were added or renamed since.
function offer(more, form, names) {
  const left = form.attributes.map((each) => each.name).filter((name) => !names.includes(name));
  const shown = [...more.options].slice(1).map((each) => each.value);
  if (shown.join("\n") === left.join("\n")) return;
  more.replaceChildren(el("option", { value: "" }, "add …"), ...left.map((name) => el("option", { value: name }, shortened(name, 60))));
}

function sets(one, form, told, redraw) {
  const rows = one.sets.map((names, i) =>
    el(
      "li",
      {},
      chips(names, form, told, `table ${i + 1}`),
      button("Remove table", () => (one.sets.splice(i, 1), redraw(), told()), { class: "quiet danger", "aria-label": `Remove table ${i + 1}` }),
    ),
  );
  const adder = button("Add a table", () => {
    one.sets.push([]);
    redraw();
    told();
  }, { class: "quiet" });
  return el("div", {}, el("ol", { class: "sets", "aria-label": "Tables; one without attributes is the total" }, rows), adder);
}

function queries(one, told, redraw) {
  const rows = one.queries.map((pair, i) =>
    el(
      "li",
      { class: "query" },
      field("Condition, as SQL", input(pair[1], (value) => ((pair[1] = value), told()), { class: "code", placeholder: "age >= 18 and sex = 'Female'" })),
      field("Label", input(pair[0], (value) => ((pair[0] = value), told()), { placeholder: "the condition itself" })),
      button("Remove", () => (one.queries.splice(i, 1), redraw(), told()), { class: "quiet danger", "aria-label": `Remove condition ${i + 1}` }),
    ),
  );
  const adder = button("Add a condition", () => (one.queries.push(["", ""]), redraw(), told()), { class: "quiet" });
  return el("div", {}, el("ol", { class: "sets", "aria-label": "Conditions" }, rows), adder);
}

function along(one, form, told, redraw) {
  const names = [["", "choose …"], ...form.attributes.map((each) => [each.name, shortened(each.name, 60)])];
  if (one.along && !names.some(([name]) => name === one.along)) names.push([one.along, one.along]);
  const parts = [
    field("Of the attribute", choice(one.along, names, (value) => ((one.along = value), redraw(), told()))),
    el("div", { class: "field" }, el("span", { class: "label", id: fresh() }, "For each value of"), chips(one.by, form, told, "the groups")),
  ];
  if (one.kind === "ranges") {
    const pairs = (one.listed ?? []).map((pair) => pair.join(" .. ")).join("\n");
    const read = (value) => {
      one.listed = lines(value).map((line) => line.split("..").map((end) => end.trim()));
      const chosen = form.attributes.find((each) => each.name === one.along);
      one.numbers = ["range", "codes"].includes(chosen?.kind) || chosen?.type === "number";
      told();
    };
    parts.push(field("Only these ranges, one per line", area(pairs, read, { rows: "3", placeholder: "18 .. 64" }), "Every range if left empty."));
  }
  return parts;
}
