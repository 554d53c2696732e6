// The accuracy–privacy curve: errors against the budget, both logarithmic, with the odds of a guess below.

import { number, shortened, significant, svg } from "./elements.js";

const WIDTH = 760, HEIGHT = 300, LEFT = 58, RIGHT = 232, TOP = 28, FOOT = 66;

const text = (x, y, words, kind, anchor = "middle") => svg("text", { x, y, class: kind, "text-anchor": anchor }, words);
const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });

export function curve(found, wishes) {
  const xs = found.grid.map(([x]) => x);
  const [low, high] = [Math.min(xs[0], found.at), Math.max(xs[xs.length - 1], found.at)];
  const error = (stddev, x) => stddev * (found.at / x) ** found.exponent;
  const errors = found.lines.map((one) => one.stddev);
  const least = 10 ** Math.floor(Math.log10(error(Math.min(...errors), high)));
  const most = 10 ** Math.ceil(Math.log10(error(Math.max(...errors), low)));
  const right = WIDTH - RIGHT, bottom = HEIGHT - FOOT;
  const x = (value) => LEFT + ((right - LEFT) * Math.log(value / low)) / Math.log(high / low);
  const y = (value) => bottom - ((bottom - TOP) * Math.log(value / least)) / Math.log(most / least);
  const parts = [text(8, 14, "standard error of a number", "label", "start")];
  for (let power = least; power <= most * 1.001; power *= 10) {
    parts.push(line(LEFT, y(power), right, y(power), "grid"), text(LEFT - 8, y(power) + 4, number(power), "tick", "end"));
  }
  for (const [value, guess] of found.grid) {
    parts.push(line(x(value), TOP, x(value), bottom, "grid"), text(x(value), bottom + 17, significant(value), "tick"), text(x(value), bottom + 33, `${guess} %`, "tick"));
  }
  parts.push(text((LEFT + right) / 2, bottom + 56, `${found.currency}, and below it how often the best guess is right at most`, "label"));
  if (wishes?.amounts) {
    const needed = wishes.amounts[found.currency === "rho" ? "rho" : "pure"];
    if (needed > low && needed < high) parts.push(line(x(needed), TOP, x(needed), bottom, "needed"), text(x(needed), TOP - 6, "all wishes met", "tick"));
  }
  parts.push(line(x(found.at), TOP, x(found.at), bottom, "now"));
  found.lines.forEach((one, i) => {
    const level = TOP + 14 + 40 * i;
    const kind = `curve stroke${i + 1}`;
    parts.push(
      line(x(low), y(error(one.stddev, low)), x(high), y(error(one.stddev, high)), kind),
      svg("circle", { cx: x(found.at), cy: y(one.stddev), r: 4, class: "point" }),
      line(right + 14, level - 4, right + 40, level - 4, kind),
      text(right + 46, level, shortened(one.title, 21), "label", "start"),
      text(right + 46, level + 15, `now ${number(one.stddev)}`, "tick", "start"),
    );
  });
  const name = `Standard errors against the budget. At ${found.currency} ${significant(found.at)}: ${found.lines.map((one) => `${one.title} ${number(one.stddev)}`).join(", ")}. Half the budget: errors times ${significant(2 ** found.exponent, 3)}.`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": name }, ...parts);
}
