// Numbers and words as people write them.

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  const digits = size.toLocaleString("en", { maximumFractionDigits: places });
  return value < 0 && digits !== "0" ? `−${digits}` : digits;
}

export const whole = (value) => Number(value).toLocaleString("en");

export function significant(value, digits = 4) {
  const rounded = Number(Number(value).toPrecision(digits));
  return Math.abs(rounded) >= 1e-4 || rounded === 0 ? String(rounded) : rounded.toExponential();
}

// Rounded up: a cost is never understated.
export function upward(value, digits = 4) {
  const power = 10 ** (digits - 1 - Math.floor(Math.log10(value)));
  return significant(Number((Math.ceil(value * power * (1 - 1e-12)) / power).toPrecision(digits)), digits);
}

export const percent = (share) => (share >= 10 ? "over 1,000\u00a0%" : `${significant(100 * share, share >= 0.1 ? 3 : 2)}\u00a0%`);

export const plural = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

// What a field holds as a number: a decimal comma is one.
export const asNumber = (text) => Number(String(text).trim().replace(/^([+-]?\d*),(\d+)$/, "$1.$2"));

export const lines = (text) => text.split("\n").filter((line) => line !== "");

// A list of numbers; where semicolons or lines separate them, a comma is decimal.
export const listed = (text) => text.split(/[;\n]/.test(text) ? /[;\s]+/ : /[,\s]+/).filter((part) => part !== "");

export function shortened(words, most) {
  const letters = [...words];
  return letters.length <= most ? words : `${letters.slice(0, most - 1).join("").trimEnd()}…`;
}
