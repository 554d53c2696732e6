// Step 3: who is protected, how accurate is good enough, and what that costs: questions, with figures as answers.

import { Area, Button, Choice, Fold, h, html, Radios, Text, useRef } from "./parts.js";
import { asNumber, percent, shortened, significant, upward, whole } from "./words.js";

const CURRENCIES = [
  ["rho", "rho (zCDP)"],
  ["mu", "mu (Gaussian)"],
  ["approx", "epsilon, delta"],
  ["pure", "epsilon (Laplace)"],
];
const SPANS = { rho: [1e-4, 100], mu: [1e-2, 20], approx: [1e-2, 100], pure: [1e-2, 100] };
const STEPS = 1000;
const AIMS = [
  ["total", "the least total error"],
  ["max", "the least worst error"],
  ["largest", "the least sum of the worst tables' errors"],
  ["p-norm", "between the two (p-norm)"],
];

export function Accuracy({ work, edit, last, person, next }) {
  return html`<section aria-labelledby="h-accuracy" class="accuracy">
    <h2 id="h-accuracy">How accurate, and how private?</h2>
    <${Protected} work=${work} edit=${edit} person=${person} />
    <${Enough} work=${work} edit=${edit} />
    ${work.form.privacy.by === "budget" ? html`<${Budget} work=${work} edit=${edit} last=${last} />` : html`<${Price} last=${last} />`}
    <${Curve} last=${last} work=${work} edit=${edit} />
    <${Further} work=${work} edit=${edit} />
    <div class="onward">${next}</div>
  </section>`;
}

function Protected({ work, edit, person }) {
  const money = work.form.privacy;
  const set = (key) => (value) => edit((all) => void (all.form.privacy[key] = value), `privacy ${key}`);
  const unit = (value) => edit((all) => Object.assign(all.form.privacy, { unit: value, records: value === "replace" ? "" : value === "one" ? "" : all.form.privacy.records || "2" }));
  const chosen = money.unit === "replace" ? "replace" : money.records && money.records !== "1" ? "many" : "one";
  const many = html`<${Text} label="Records of one person, at most" inputmode="numeric" value=${money.records} told=${set("records")} placeholder="1" />`;
  if (person) return html`<div class="question"><p class="asked">Who is protected?</p><p>Each person, with all of their records: the specification says whose each record is.</p>${many}</div>`;
  return html`<div class="question"><${Radios} question="Who is protected?" value=${chosen} told=${unit} options=${[
      ["one", "Each person; everybody has one record"],
      ["many", "Each person; some have several records"],
      ["replace", "What each record says, not that it exists"],
    ]} />${chosen === "many" && many}</div>`;
}

// One wish for all tables, or one for each.
function Enough({ work, edit }) {
  const { tables, privacy } = work.form;
  const first = tables.find((one) => one.wish);
  const same = tables.every((one) => one.wish === first?.wish && one.amount === first?.amount && one.confidence === first?.confidence);
  const wish = (change) => (value) => edit((all) => all.form.tables.forEach((one) => change(one, value)), "wish");
  const by = (value) =>
    edit((all) => {
      all.form.privacy.by = value;
      if (value === "budget" && !all.form.privacy.value) all.form.privacy.value = all.form.privacy.currency === "pure" ? "1" : "0.5";
      if (value === "wishes") for (const one of all.form.tables) if (!one.wish) Object.assign(one, { wish: "margin", amount: one.amount || "25", weight: "" });
    });
  const amount = wish((one, value) => Object.assign(one, { wish: value ? one.wish || "margin" : "", amount: value, weight: value ? "" : one.weight }));
  return html`<div class="question"><${Radios} question="How accurate is good enough?" value=${privacy.by} told=${by} options=${[
      ["wishes", "I know how accurate the numbers must be", "The smallest budget that gives it is found."],
      ["budget", "I have a privacy budget", "The most accurate tables within it are found."],
    ]} />
    ${(privacy.by === "wishes" || first) && html`<div class="enough">
      ${same
        ? html`<div class="pair"><${Text} label=${`Every number within ±`} id="within" inputmode="decimal" value=${first?.amount ?? ""} told=${amount} /><${Choice} label="meaning" value=${first?.wish ?? "margin"} options=${[["margin", "95 times in 100"], ["stddev", "a standard error"], ["variance", "a variance"]]} told=${wish((one, value) => Object.assign(one, { wish: value, amount: one.amount || "25" }))} /></div>`
        : null}
      ${tables.length > 1 && html`<${Fold} summary="Another accuracy for each entry" open=${!same}>${() => html`<div class="fields">${tables.map((one, i) => html`<${Wish} one=${one} i=${i} edit=${edit} />`)}</div>`}<//>`}
      ${privacy.by === "budget" && html`<${Button} kind="quiet" words="Ask for no accuracy" told=${wish((one) => Object.assign(one, { wish: "", amount: "", confidence: "" }))} />`}
    </div>`}
    ${privacy.by === "budget" && !first && html`<${Button} kind="quiet" id="wish" words="Compare with an accuracy I need" told=${() => amount("25")} />`}
  </div>`;
}

function Wish({ one, i, edit }) {
  const set = (key) => (value) => edit((all) => Object.assign(all.form.tables[i], { [key]: value }), `wish ${i} ${key}`);
  return html`<div class="pair"><${Text} label=${`Entry ${i + 1}: within ±`} inputmode="decimal" value=${one.amount} told=${set("amount")} />
    <${Choice} label="meaning" value=${one.wish} options=${[["", "as accurate as can be"], ["margin", "a margin of error"], ["stddev", "a standard error"], ["variance", "a variance"]]} told=${set("wish")} />
    ${one.wish === "margin" && html`<${Text} label="With confidence" inputmode="decimal" value=${one.confidence} told=${set("confidence")} placeholder="0.95" />`}</div>`;
}

const unit = (money) => ({ rho: "rho", mu: "mu" })[money.currency] ?? "epsilon";
const spent = (amounts) => (amounts.pure !== undefined ? `epsilon ${upward(amounts.pure)}` : `rho ${upward(amounts.rho)}`);
export const others = (amounts) => (amounts.pure !== undefined ? "pure differential privacy" : `mu ${upward(amounts.mu)}, epsilon ${upward(amounts.approx)} at delta ${significant(amounts.delta)}`.replaceAll("-", "\u2011"));

function Budget({ work, edit, last }) {
  const money = work.form.privacy;
  const set = (key) => (value) => edit((all) => void (all.form.privacy[key] = value.trim()), `budget ${key}`);
  const currency = (value) =>
    edit((all) => {
      const mine = all.form.privacy, costs = last?.amounts ?? {};
      if (costs[value] !== undefined) mine.value = significant(costs[value], 6); // the same budget, where a theorem says so
      else if (!asNumber(mine.value)) mine.value = "1";
      Object.assign(mine, { delta: value === "approx" ? significant(costs.delta ?? 1e-6) : "", currency: value });
    });
  const value = asNumber(money.value);
  let [low, high] = SPANS[money.currency];
  if (value > 0) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const at = value > 0 ? Math.round((STEPS * Math.log(value / low)) / Math.log(high / low)) : 0;
  const slide = (e) => set("value")(significant(low * (high / low) ** (e.target.value / STEPS), 3));
  return html`<div class="question budget">
    <div class="pair"><${Text} label=${`Budget, ${unit(money)}`} id="amount" inputmode="decimal" value=${money.value} told=${set("value")} />${money.currency === "approx" && html`<${Text} label="delta" value=${money.delta} told=${set("delta")} />`}<${Choice} label="Currency" value=${money.currency} options=${CURRENCIES} told=${currency} /></div>
    <label class="slide">Move the budget<input type="range" id="slider" min="0" max=${STEPS} value=${at} aria-valuetext=${`${unit(money)} ${money.value}`} onInput=${slide} /></label>
    <div class="ends" aria-hidden="true"><span>more private</span><span>more accurate</span></div>
    ${last?.wishes && html`<${Cost} wishes=${last.wishes} />`}
  </div>`;
}

const Cost = ({ wishes }) => html`<p class="cost" id="cost">To be that accurate takes <strong>${spent(wishes.amounts)}</strong>: the best guess about a person would be right at most ${wishes.guess} times in 100. ${wishes.met ? "This plan is accurate enough." : `With this budget, errors are up to ${significant(wishes.factor, 3)} times as large.`}</p>`;

function Price({ last }) {
  if (!last?.amounts) return null;
  return html`<div class="question price" id="price"><p class="asked">What that costs</p>
    <p class="figure">${spent(last.amounts)} <small>${others(last.amounts)}</small></p>
    <p>The best guess whether a person is in the data is right at most <strong>${last.guess} times in 100</strong>; 50 by tossing a coin.</p></div>`;
}

// Odds of a guess against the relative error of headline numbers: where on these curves is the plan to stand?
const W = 560, H = 260, LEFT = 74, RIGHT = 24, TOP = 14, FOOT = 56;
const MOST_LINES = 6;

function Curve({ last, work, edit }) {
  const svg = useRef();
  const { curve } = last ?? {};
  if (!curve) return null;
  const lines = headlines(last, work);
  const keep = (all) => edit((work) => void (work.view.headlines = all.map(({ title, count }) => ({ title, count }))), "headlines");
  const errors = lines.flatMap((one) => curve.points.slice(4, -4).map(([, , factor]) => one.error * factor)).filter((one) => one > 0 && one < 1e6);
  const low = Math.floor(Math.log10(Math.min(0.1, ...errors)));
  const high = Math.max(low + 1, Math.min(0, Math.ceil(Math.log10(Math.max(0.1, ...errors)))));
  const decades = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i));
  const x = (odds) => LEFT + ((W - LEFT - RIGHT) * (odds - 50)) / 50;
  const y = (error) => H - FOOT - ((H - FOOT - TOP) * (Math.log10(error) - low)) / (high - low);
  const within = (error) => error <= 10 ** high && error >= 10 ** low;
  const now = Math.min(Math.max(Number(last.guess) || 50, 50), 100);
  const choose = (e) => {
    const box = svg.current.getBoundingClientRect();
    const odds = 50 + (50 * (((e.clientX - box.left) * W) / box.width - LEFT)) / (W - LEFT - RIGHT);
    const [, budget] = curve.points.reduce((best, point) => (Math.abs(point[0] - odds) < Math.abs(best[0] - odds) ? point : best));
    edit((all) => Object.assign(all.form.privacy, { by: "budget", currency: curve.currency, value: significant(budget, 3), delta: "" }), "curve");
  };
  const name = `How often a guess about a person is right against relative errors. At ${last.guess} of 100: ${lines.map((one) => `${one.title} ${percent(one.error)}`).join(", ")}.`;
  const others = last.rows.map((row) => row.title).filter((title) => !lines.some((one) => one.title === title));
  return html`<figure class="curve"><figcaption>Accuracy against privacy<small class="hint">The relative error (one standard error) of your headline numbers, by how often a guess about a person is right. Click to choose.</small></figcaption>
    <svg ref=${svg} viewBox=${`0 0 ${W} ${H}`} role="img" aria-label=${name} onClick=${choose}>
      ${decades.map((each) => html`<line class="grid" x1=${LEFT} x2=${W - RIGHT} y1=${y(each)} y2=${y(each)} /><text class="tick" x=${LEFT - 7} y=${y(each) + 5} text-anchor="end">${significant(100 * each)} %</text>`)}
      ${[50, 60, 70, 80, 90, 100].map((each) => html`<line class="grid" x1=${x(each)} x2=${x(each)} y1=${TOP} y2=${H - FOOT} /><text class="tick" x=${x(each)} y=${H - FOOT + 24} text-anchor="middle">${each}</text>`)}
      <text class="tick" x=${(LEFT + W - RIGHT) / 2} y=${H - 6} text-anchor="middle">right guesses about a person, of 100</text>
      ${lines.map((one, i) => h("polyline", { class: `curve stroke${i + 1}`, fill: "none", points: curve.points.filter(([, , factor]) => within(one.error * factor)).map(([odds, , factor]) => `${x(odds).toFixed(1)},${y(one.error * factor).toFixed(1)}`).join(" ") }))}
      <line class="now" x1=${x(now)} x2=${x(now)} y1=${TOP} y2=${H - FOOT} />
      ${lines.map((one) => within(one.error) && html`<circle class="point" cx=${x(now)} cy=${y(one.error)} r="4.5" />`)}
    </svg>
    <div class="heads" aria-hidden="true"><span>headline number</span><span>count</span><span>error</span></div>
    <ul class="key" id="headlines">${lines.map((one, i) => html`<li key=${one.title}><svg viewBox="0 0 30 8" aria-hidden="true"><line class=${`curve stroke${i + 1}`} x1="0" x2="30" y1="4" y2="4" /></svg><span>${shortened(one.title, 34)}</span>
      <input type="text" inputmode="numeric" aria-label=${`Count of ${one.title}`} value=${one.count || whole(Math.round(one.size))} onInput=${(e) => keep(lines.map((each) => (each === one ? { ...one, count: e.target.value } : each)))} /><b>${percent(one.error)}</b><${Button} kind="close" aria-label=${`Remove ${one.title} from the curve`} words="×" disabled=${lines.length === 1} told=${() => keep(lines.filter((each) => each !== one))} /></li>`)}</ul>
    ${lines.length < MOST_LINES && others.length > 0 && html`<${Choice} label="Add a headline number" id="headline" value="" options=${[["", "choose its table …"], ...others.map((title) => [title, shortened(title, 60)])]} told=${(title) => title && keep([...lines, { title, count: "" }])} />`}
  </figure>`;
}

// What the user chose; else the table that is shown, and tables that stand for all. A count is typed, or a typical one.
function headlines(last, work) {
  const people = last.preview && last.preview.typical * last.preview.flags.reduce((sum, each) => sum + each, 0);
  const chosen = new Map((work.view.headlines ?? []).map((one) => [one.title, one.count]));
  const shown = last.preview && { ...last.preview, numbers: people / last.preview.typical };
  const all = chosen.size || !shown ? last.lines : [shown, ...last.lines.filter((one) => one.title !== shown.title)].slice(0, 4);
  return all.map(({ title, stddev, numbers }) => {
    const count = chosen.get(title) ?? "", size = people ? people / numbers : 1000;
    return { title, count, size, error: stddev / (asNumber(count.replace(/[,.\s](?=\d{3}\b)/g, "")) || size) };
  });
}

function Further({ work, edit }) {
  const { objective: aim, privacy: money, tables } = work.form;
  const wishes = tables.some((one) => one.wish);
  const set = (part, key) => (value) => edit((all) => void (all.form[part][key] = value), `${part} ${key}`);
  const best = (value) => edit((all) => Object.assign(all.form.objective, { minimise: value, p: value === "p-norm" ? all.form.objective.p || "2" : "", count: value === "largest" ? all.form.objective.count || "10" : "" }));
  const noise = (value) => edit((all) => void (all.form.privacy.currency = value));
  return html`<${Fold} summary="For experts: noise, objective, further settings">${() => html`<div class="fields">
    ${money.by === "wishes" && html`<${Choice} label="Noise" value=${money.currency === "pure" ? "pure" : "rho"} options=${[["rho", "normal"], ["pure", "Laplace"]]} told=${noise} />`}
    ${wishes
      ? html`<p class="hint">The plan keeps the worst error, relative to what you asked for, as small as it can be.</p>`
      : html`<div class="pair"><${Choice} label="Best is" value=${aim.minimise || "total"} options=${AIMS} told=${best} />${aim.minimise === "p-norm" && html`<${Text} label="p" value=${aim.p} told=${set("objective", "p")} />`}${aim.minimise === "largest" && html`<${Text} label="Tables" value=${aim.count} told=${set("objective", "count")} />`}</div>`}
    <${Area} label="Further settings of [privacy], as TOML" class="code" area="2" value=${money.rest} told=${set("privacy", "rest")} />
    <${Area} label="Further settings of [objective], as TOML" class="code" area="2" value=${aim.rest} told=${set("objective", "rest")} />
  </div>`}<//>`;
}
