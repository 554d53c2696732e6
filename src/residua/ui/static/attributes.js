// Attributes: one card per column, closed until it is looked at. A card edits its part of the form in place.

import { area, button, choice, el, field, fresh, input, lines, listed, plural, tick } from "./elements.js";

const KINDS = [
  ["values", "Categories"],
  ["range", "Whole numbers"],
  ["bins", "Bins of numbers"],
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

export const blank = (name) => ({ name, kind: "values", type: "text", values: [], unknown: "", missing: "", levels: [], rest: "" });

// Draws all cards. `told` is called after a change; `renamed` with the old and the new name.
export function draw(place, form, told, renamed) {
  place.replaceChildren(...form.attributes.map((one) => card(one, form, told, renamed, place)));
}

export function add(place, form, told, renamed) {
  const names = new Set(form.attributes.map((one) => one.name));
  let n = form.attributes.length + 1;
  while (names.has(`attribute ${n}`)) n += 1;
  const one = blank(`attribute ${n}`);
  form.attributes.push(one);
  const made = card(one, form, told, renamed, place);
  place.append(made);
  const opened = made.querySelector("details");
  opened.open = true;
  fill(opened);
  const name = made.querySelector("input");
  name.focus();
  name.select();
  told();
}

// Fields are made when a card is first opened: a hundred attributes are a hundred short lines until then.
const fillers = new WeakMap();
const fill = (details) => fillers.get(details)?.();

function card(one, form, told, renamed, place) {
  const title = el("span", { class: "name" }, one.name);
  const kind = el("span", { class: "kind" }, words(one));
  const size = el("span", { class: "count" });
  const details = el("details", {}, el("summary", {}, title, kind, size));
  const made = el("li", { class: "card" }, details);
  const changed = () => {
    title.textContent = one.name || "(no name)";
    kind.textContent = words(one);
    told();
  };
  const remove = () => {
    const at = form.attributes.indexOf(one);
    form.attributes.splice(at, 1);
    const next = made.nextElementSibling ?? made.previousElementSibling;
    made.remove();
    (next?.querySelector("summary") ?? document.getElementById("add-attribute")).focus();
    told();
  };
  const move = (by) => {
    const at = form.attributes.indexOf(one);
    const to = at + by;
    if (to < 0 || to >= form.attributes.length) return;
    form.attributes.splice(at, 1);
    form.attributes.splice(to, 0, one);
    place.insertBefore(made, by < 0 ? place.children[to] : (place.children[to + 1] ?? null));
    told();
  };
  fillers.set(details, () => {
    fillers.delete(details);
    details.append(fields(one, changed, renamed, remove, move));
  });
  details.addEventListener("toggle", () => details.open && fill(details));
  return made;
}

export function sizes(place, found) {
  [...place.querySelectorAll(":scope > li .count")].forEach((each, i) => {
    each.textContent = found && found[i] !== undefined ? plural(found[i], "cell") : "";
  });
}

function fields(one, changed, renamed, remove, move) {
  const special = el("div", { class: "special" });
  const redraw = () => special.replaceChildren(...kindFields(one, changed, redraw));
  redraw();
  const name = input(one.name, (value) => {
    const before = one.name;
    one.name = value;
    renamed(before, value);
    changed();
  });
  const kind = choice(one.kind, KINDS, (value) => {
    become(one, value);
    redraw();
    changed();
  });
  return el(
    "div",
    { class: "fields" },
    el("div", { class: "pair" }, field("Name", name), field("Kind", kind)),
    special,
    el(
      "div",
      { class: "row" },
      button("Move up", () => move(-1), { class: "quiet" }),
      button("Move down", () => move(1), { class: "quiet" }),
      button("Remove", remove, { class: "quiet danger" }),
    ),
  );
}

// Another kind: what both have stays, what only the new one has begins empty.
function become(one, kind) {
  one.kind = kind;
  const empty = { values: [], edges: [], labels: [], low: "", high: "", first: "", last: "", unit: "", size: "", units: [], levels: [] };
  for (const [key, value] of Object.entries(empty)) one[key] ??= value;
  one.type ||= "text";
  one.unknown ??= "";
  one.missing ??= "";
  one.rest ??= "";
}

function kindFields(one, changed, redraw) {
  const set = (key) => (value) => {
    one[key] = value;
    changed();
  };
  const told = [];
  if (one.kind === "values") {
    const types = [["text", "text"], ["number", "whole numbers"], ["truth", "true and false"]];
    told.push(
      field("Values, one per line", area(one.values.join("\n"), (value) => set("values")(lines(value)), { rows: "6" })),
      field("They are", choice(one.type, types, set("type"))),
    );
  } else if (one.kind === "range") {
    const whole = { inputmode: "numeric", size: "8" };
    told.push(el("div", { class: "pair" }, field("From", input(one.low, set("low"), whole)), field("To", input(one.high, set("high"), whole))));
  } else if (one.kind === "bins") {
    told.push(
      field("Edges", input(one.edges.join(", "), (value) => set("edges")(listed(value))), "In increasing order; each bin begins at an edge. “inf” is allowed at the end."),
      field("Labels, one per line", area(one.labels.join("\n"), (value) => set("labels")(lines(value)), { rows: "3" }), "One per bin, or none at all."),
    );
  } else if (one.kind === "dates") {
    told.push(
      el(
        "div",
        { class: "pair" },
        field("First day", input(one.first, set("first"), { type: "date" })),
        field("Last day", input(one.last, set("last"), { type: "date" })),
        field("Counted by", choice(one.unit || "day", UNITS.map((unit) => [unit, unit]), set("unit"))),
      ),
      calendar(one, changed),
    );
  } else if (one.kind === "codes") {
    told.push(field("How many", input(one.size, set("size"), { inputmode: "numeric", size: "8" })));
  } else {
    told.push(field("TOML", area(one.rest, set("rest"), { rows: "6", class: "code" }), "The keys of a [domain.NAME] table; see the page on specifications."));
    return told;
  }
  const more = el("details", { class: "further" }, el("summary", {}, "Levels, other values, titles"));
  more.append(
    el(
      "div",
      { class: "fields" },
      one.kind === "dates" ? null : levels(one, changed, redraw),
      el(
        "div",
        { class: "pair" },
        field("A value that is not declared", choice(one.unknown, POLICIES, set("unknown"))),
        field("An absent value", choice(one.missing, POLICIES, set("missing"))),
      ),
      field("Further settings, as TOML", area(one.rest, set("rest"), { rows: "3", class: "code" }), "title, description, code, meanings, …"),
    ),
  );
  more.open = Boolean(one.levels?.length);
  told.push(more);
  return told;
}

function calendar(one, changed) {
  const set = new Set(one.units ?? []);
  const boxes = UNITS.slice(1).map((unit) =>
    tick(unit, set.has(unit), (on) => {
      if (on) set.add(unit);
      else set.delete(unit);
      one.units = UNITS.filter((each) => set.has(each));
      changed();
    }),
  );
  return el("fieldset", {}, el("legend", {}, "Levels, for hierarchies"), el("div", { class: "ticks" }, boxes));
}

function levels(one, changed) {
  one.levels ??= [];
  const place = el("div", {});
  const redraw = () => place.replaceChildren(...one.levels.map(level));
  const numbers = () => one.kind !== "values" || one.type === "number";
  function level(each) {
    const body = el("div", { class: "fields" });
    const fill = () =>
      body.replaceChildren(
        ...(each.by === "edges"
          ? [
              field("Edges", input((each.edges ?? []).join(", "), (value) => ((each.edges = listed(value)), changed()))),
              field("Labels, one per line", area((each.labels ?? []).join("\n"), (value) => ((each.labels = lines(value)), changed()), { rows: "2" })),
            ]
          : [
              field(
                "Groups",
                area(outline(each.groups ?? []), (value) => ((each.groups = groups(value)), changed()), { rows: "6" }),
                "A group on a line of its own, its values below it, indented by two spaces.",
              ),
            ]),
      );
    fill();
    const by = choice(each.by, [["groups", "groups of values"], ["edges", "edges"]], (value) => {
      each.by = value;
      fill();
      changed();
    });
    const remove = button("Remove level", () => {
      one.levels.splice(one.levels.indexOf(each), 1);
      redraw();
      adder.focus();
      changed();
    }, { class: "quiet danger" });
    return el(
      "fieldset",
      { class: "level" },
      el("legend", {}, "Level"),
      el("div", { class: "pair" }, field("Name", input(each.name, (value) => ((each.name = value), changed()))), numbers() ? field("By", by) : null),
      body,
      remove,
    );
  }
  const adder = button("Add a level", () => {
    one.levels.push({ name: "", by: numbers() ? "edges" : "groups", edges: [], labels: [], groups: [] });
    redraw();
    place.lastElementChild.querySelector("input").focus();
    changed();
  }, { class: "quiet" });
  redraw();
  return el("div", { id: fresh() }, place, adder);
}

const outline = (found) => found.map(([group, members]) => [group, ...members.map((one) => `  ${one}`)].join("\n")).join("\n");

function groups(text) {
  const found = [];
  for (const line of lines(text)) {
    if (!line.startsWith("  ")) found.push([line, []]);
    else if (found.length) found[found.length - 1][1].push(line.slice(2));
  }
  return found;
}

function words(one) {
  switch (one.kind) {
    case "values":
      return one.values.length ? one.values.slice(0, 4).join(", ") + (one.values.length > 4 ? ", …" : "") : "no values yet";
    case "range":
      return `${one.low || "?"} to ${one.high || "?"}`;
    case "bins":
      return one.labels.length ? one.labels.slice(0, 3).join(", ") + (one.labels.length > 3 ? ", …" : "") : `edges ${one.edges.slice(0, 5).join(", ")}`;
    case "dates":
      return `${one.first || "?"} to ${one.last || "?"} by ${one.unit || "day"}`;
    case "codes":
      return `codes 0 to ${Number(one.size) - 1 || "?"}`;
    default:
      return "as TOML";
  }
}
