// The outcome: what is protected, how accurate every table will be, what wishes cost, and plans side by side.

import { button, choice, el, field, input, number, plural, shortened, significant, table, upward, whole } from "./elements.js";
import { curve } from "./curve.js";

export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value, small]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, small ? el("small", {}, small) : null))));
}

// `asked` holds what is sought in the list and how it is ordered; `again` asks once more.
export function draw(place, found, asked, again, keepPlan) {
  if (!place.firstChild) {
    place.append(...["head", "curve", "wishes", "tables"].map((part) => el("div", { "data-part": part })));
    // What can be clicked is not drawn again: an answer must not take it away from under the pointer.
    place.firstChild.after(el("p", {}, button("Keep this plan to compare", keepPlan, { id: "keep" })));
  }
  const part = (name) => place.querySelector(`[data-part=${name}]`);
  part("head").replaceChildren(...head(found));
  part("curve").replaceChildren(...picture(found));
  part("wishes").replaceChildren(...wishes(found));
  listing(part("tables"), found, asked, again);
}

// The other currencies; spaces and hyphens within a figure do not break.
const others = (costs) => `mu ${upward(costs.mu)}, epsilon ${upward(costs.approx)} at delta ${significant(costs.delta)}`.replaceAll("-", "\u2011");

function head(found) {
  const costs = found.amounts;
  const money =
    costs.pure !== undefined
      ? [["epsilon", upward(costs.pure), "pure differential privacy"]]
      : [["rho", upward(costs.rho), others(costs)]];
  const [least, most] = (found.spread ?? [NaN, NaN]).map(number);
  const spread = least === most ? least : `${least} to ${most}`;
  return [
    facts([
      ["Best guess right", found.guess === null ? "–" : `${found.guess} of 100`, "at most; 50 by tossing a coin"],
      ...money,
      ["Published", plural(found.count, found.what === "tables" ? "table" : "query", found.what), plural(found.numbers, "number")],
      ["Standard errors", spread, "the same whatever the count"],
    ]),
    el(
      "p",
      {},
      `The noise hides ${found.secret}. `,
      ...found.found.map(([of, share]) => `Wrongly flagging 1 in ${whole(of)}, the strongest attacker recognises at most ${share} of 100. `),
      `The plan is ${found.proof}.`,
    ),
    ...found.remarks.map((remark) => el("p", { class: "hint" }, remark)),
  ];
}

function picture(found) {
  if (!found.curve?.lines.length) return [];
  return [
    el(
      "figure",
      {},
      el("h3", {}, "Accuracy against privacy"),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picture: accuracy against privacy" }, curve(found.curve, found.wishes)),
    ),
  ];
}

function wishes(found) {
  const told = found.wishes;
  if (!told) return [];
  const costs = told.amounts;
  const price = costs.pure !== undefined ? `epsilon ${upward(costs.pure)}` : `rho ${upward(costs.rho)}`;
  const small = costs.pure !== undefined ? "" : others(costs);
  const now = told.met ? ["yes", "every number is as accurate as wished"] : ["no", `errors are up to ${significant(told.factor, 3)} times what was wished`];
  return [
    el("h3", {}, "What the wishes cost"),
    facts([
      ["To meet them all takes", price, small],
      ["Best guess then right", told.guess === null ? "–" : `${told.guess} of 100`, "at most; 50 by tossing a coin"],
      ["Met by this plan", ...now],
    ]),
  ];
}

function listing(place, found, asked, again) {
  const first = !place.firstChild;
  if (first) {
    const seek = input(asked.find, (value) => ((asked.find = value), (asked.rows = 15), again()), { type: "search", id: "find" });
    const order = choice(asked.order, [["asked", "as asked"], ["worst", "least accurate first"]], (value) => ((asked.order = value), again()));
    place.append(el("h3", {}, "Expected errors"), el("div", { class: "pair" }, field("Find a table", seek), field("Order", order)), el("div", { id: "errors" }));
  }
  const one = found.what === "tables" ? "table" : "query";
  const wished = found.rows.some((row) => row.wish !== null);
  const head = [one, "numbers", "standard error", "reliable from", ...(wished ? ["wish", "met"] : [])];
  const rows = found.rows.map((row) => [
    shortened(row.title, 80),
    whole(row.numbers),
    number(row.stddev),
    row.reliable === null ? "–" : whole(Math.ceil(row.reliable - 1e-9)),
    ...(wished ? [number(row.wish), row.stddev <= row.wish * (1 + 1e-9) ? "yes" : "no"] : []),
  ]);
  const shown = el("div", { id: "errors" });
  const caption = `The standard error of each number, and the count from which it is reliable (an error of at most 16.5 %)`;
  if (rows.length) shown.append(table(caption, head, rows));
  else shown.append(el("p", {}, found.count ? "No table has such a name." : "Nothing is asked yet."));
  const rest = found.matching - found.rows.length;
  if (rest > 0) shown.append(button(`Show ${whole(Math.min(rest, 200))} more of ${whole(rest)}`, () => ((asked.rows += 200), again()), { class: "quiet", id: "more" }));
  place.querySelector("#errors").replaceWith(shown);
}

export function compare(place, found, kept, remove, report) {
  const names = [...kept.map((one) => one.label), "now"];
  const plans = found.plans;
  const head = ["promise", ...names];
  const promises = [
    ["guarantee", ...plans.map((one) => one.guarantee)],
    ["protects", ...plans.map((one) => one.protects)],
    ["best guess right", ...plans.map((one) => (one.guess === null ? "–" : `at most ${one.guess} of 100`))],
  ];
  const rows = found.rows.map((row) => [shortened(row.table, 60), ...row.stddevs.map((each) => (each === null ? "—" : number(each))), ...(kept.length === 1 && row.stddevs.every(Boolean) ? [significant(row.stddevs[1] / row.stddevs[0], 3)] : kept.length === 1 ? [""] : [])]);
  const parts = [
    table("What each plan promises", head, promises, names.length + 1),
    table("Standard errors side by side (— where a plan does not tell the table)", ["table", ...names, ...(kept.length === 1 ? ["now / kept"] : [])], rows),
    found.more ? el("p", { class: "hint" }, `… and more tables; the report lists them.`) : null,
  ];
  const labels = kept.map((one) => one.label).join();
  if (place.dataset.kept !== labels) {
    place.dataset.kept = labels;
    const actions = kept.map((one) => [
      button(`Report of now beside ${one.label}`, () => report(one)),
      button(`Forget ${one.label}`, () => remove(one), { class: "quiet danger" }),
    ]);
    place.replaceChildren(el("div", {}), el("div", { class: "row" }, actions));
  }
  place.firstChild.replaceChildren(...parts.filter(Boolean));
}
