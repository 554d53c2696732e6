// The budget: a slider and a number in the currency of your choice, the others beside it; whom it protects; the aim.

import { area, choice, el, field, fresh, input, significant } from "./elements.js";

const CURRENCIES = [
  ["rho", "rho (zero-concentrated)"],
  ["mu", "mu (Gaussian)"],
  ["approx", "epsilon and delta"],
  ["pure", "epsilon (Laplace noise)"],
];
const SPANS = { rho: [1e-4, 100], mu: [1e-2, 20], approx: [1e-2, 100], pure: [1e-2, 100] };
const STEPS = 1000;
const AIMS = [
  ["total", "the least total error"],
  ["max", "the least worst error"],
  ["largest", "the least sum of the worst tables' errors"],
  ["p-norm", "between the two (p-norm)"],
];

// Draws the panel. `amounts` returns what the last plan spends in each currency, to switch between them.
export function draw(place, form, told, amounts, person) {
  const redraw = (focus) => {
    place.replaceChildren(...parts(form, told, amounts, person, redraw));
    if (focus) place.querySelector(focus)?.focus();
  };
  redraw();
}

function parts(form, told, amounts, person, redraw) {
  const money = form.privacy;
  const wishes = form.tables.some((one) => one.wish);
  const spends = money.by === "budget";
  const delta = () => field("delta", input(money.delta, (value) => ((money.delta = value), told()), { size: "8" }));
  return [
    by(money, told, redraw),
    el("div", { class: "pair" }, currency(money, told, amounts, redraw), spends ? amount(money, told) : "", spends && money.currency === "approx" ? delta() : ""),
    spends ? slider(money, told) : "",
    further(form, told, person, wishes, redraw),
  ];
}

const title = (money) => ({ rho: "rho", mu: "mu" })[money.currency] ?? "epsilon";

function amount(money, told) {
  const follow = (value) => {
    money.value = value.trim();
    document.getElementById("slider").follow();
    told();
  };
  return field(title(money), input(money.value, follow, { id: "amount", inputmode: "decimal", size: "8" }));
}

function by(money, told, redraw) {
  const name = fresh();
  const radio = (value, words) => {
    const box = el("input", { type: "radio", name, value, id: fresh() });
    box.checked = money.by === value;
    box.addEventListener("change", () => {
      money.by = value;
      if (value === "budget" && !money.value) money.value = money.currency === "pure" ? "1" : "0.5";
      redraw(`input[value=${value}]`);
      told();
    });
    return el("span", { class: "tick" }, box, el("label", { for: box.id }, words));
  };
  return el(
    "fieldset",
    { class: "bare" },
    el("legend", {}, "Plan by"),
    el("div", { class: "ticks" }, radio("budget", "a budget"), radio("wishes", "the wishes (the least privacy that meets them)")),
  );
}

function currency(money, told, amounts, redraw) {
  if (money.by === "wishes") {
    const noises = [["rho", "normal"], ["pure", "Laplace"]];
    const kind = money.currency === "pure" ? "pure" : "rho";
    return field("Noise", choice(kind, noises, (value) => ((money.currency = value), told())));
  }
  const select = choice(money.currency, CURRENCIES, (value) => {
    const spent = amounts(); // the same budget in the new currency, where a theorem says so
    if (spent[value] !== undefined) money.value = significant(spent[value], 6);
    else if (!Number(money.value)) money.value = "1";
    money.delta = value === "approx" ? significant(spent.delta ?? 1e-6) : "";
    money.currency = value;
    redraw("select");
    told();
  });
  return field("Currency", select);
}

function slider(money, told) {
  let [low, high] = SPANS[money.currency];
  if (Number(money.value) > 0) [low, high] = [Math.min(low, Number(money.value)), Math.max(high, Number(money.value))];
  const range = el("input", { type: "range", id: "slider", min: "0", max: String(STEPS), step: "1" });
  const say = () => range.setAttribute("aria-valuetext", `${title(money)} ${money.value}`);
  range.follow = () => {
    const at = Math.min(Math.max(Number(money.value), low), high);
    if (at > 0) range.value = Math.round((STEPS * Math.log(at / low)) / Math.log(high / low));
    say();
  };
  range.addEventListener("input", () => {
    money.value = significant(low * (high / low) ** (range.value / STEPS), 3);
    document.getElementById("amount").value = money.value;
    say();
    told();
  });
  range.follow();
  const ends = el("div", { class: "ends", "aria-hidden": "true" }, el("span", {}, "more privacy"), el("span", {}, "more accuracy"));
  const made = field("Move the budget", range);
  made.append(ends);
  return made;
}

function further(form, told, person, wishes, redraw) {
  const money = form.privacy;
  const aim = form.objective;
  const units = [["records", "one person, added or removed"], ["replace", "one record, changed"]];
  const more = el("details", { class: "further" }, el("summary", {}, "Whom it protects, and what is best"));
  const records = field("Records of one person, at most", input(money.records, (value) => ((money.records = value), told()), { inputmode: "numeric", size: "6", placeholder: "1" }));
  const unit = choice(money.unit, units, (value) => {
    money.unit = value;
    if (value === "replace") money.records = "";
    redraw();
    told();
  });
  more.append(
    el(
      "div",
      { class: "fields" },
      person ? el("p", { class: "hint" }, "The specification says whose each record is: each person is protected.") : "",
      el("div", { class: "pair" }, person ? "" : field("Protected", unit), money.unit === "replace" ? "" : records),
      wishes
        ? el("p", { class: "hint" }, "With wishes, the plan keeps the worst error, relative to its wish, as small as it can be.")
        : el(
            "div",
            { class: "pair" },
            field("Best is", choice(aim.minimise || "total", AIMS, (value) => {
              aim.minimise = value;
              aim.p = value === "p-norm" ? aim.p || "2" : "";
              aim.count = value === "largest" ? aim.count || "10" : "";
              redraw();
              told();
            })),
            aim.minimise === "p-norm" ? field("p", input(aim.p, (value) => ((aim.p = value), told()), { size: "5" })) : "",
            aim.minimise === "largest" ? field("Tables", input(aim.count, (value) => ((aim.count = value), told()), { size: "5" })) : "",
          ),
      field("Further settings of [privacy], as TOML", area(money.rest, (value) => ((money.rest = value), told()), { rows: "2", class: "code" })),
      field("Further settings of [objective], as TOML", area(aim.rest, (value) => ((aim.rest = value), told()), { rows: "2", class: "code" })),
    ),
  );
  more.open = opened;
  more.addEventListener("toggle", () => (opened = more.open));
  return more;
}

let opened = false; // stays as it was when the panel is drawn again
