// The columns of a file, read in the browser: names and types, from the header alone. No record is looked at.
//
// CSV: the first line. Parquet: the schema at the start of the footer; what follows it, with statistics, is not parsed.
// Excel: the first row of the first sheet. SPSS: the dictionary, with the labels of codes that it declares.

const FIRST = 2 ** 20; // bytes of a first line
const DICTIONARY = 2 ** 24;

export class HeaderError extends Error {}
const refuse = (words) => {
  throw new HeaderError(words);
};

// → { columns: [{ name, type: "text" | "whole" | "number" | "date" | "truth" | "", values?: [[value, label]], title?: "" }],
//     mark: what separates the columns of text, encoding: of text that is not UTF-8 }
export async function columnsOf(file) {
  const ending = file.name.toLowerCase().split(".").pop();
  const read = { csv, tsv: csv, txt: csv, parquet, xlsx, xlsm: xlsx, sav, zsav: sav }[ending];
  if (!read) refuse(`${file.name} is not a CSV, Parquet, Excel (.xlsx) or SPSS (.sav) file. Paste the names of its columns instead.`);
  let columns;
  try {
    columns = await read(file);
  } catch (problem) {
    if (problem instanceof HeaderError) throw problem;
    refuse(`The header of ${file.name} cannot be read. Paste the names of its columns instead.`);
  }
  const named = columns.filter((one) => one.name.trim());
  return named.length ? { columns: named, mark: columns.mark, encoding: columns.encoding } : refuse(`${file.name} has no names of columns in its header. Paste them instead.`);
}

// Names as people paste them: one per line, or one line as it stands at the top of a file.
export function columnsOfText(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const names = lines.length > 1 ? lines.map((line) => line.trim().replace(/^["']|["',;]+$/g, "")) : splitLine(lines[0] ?? "");
  return [...new Set(names)].filter(Boolean).map((name) => ({ name, type: "" }));
}

async function bytes(file, from, to) {
  return new Uint8Array(await file.slice(from, to).arrayBuffer());
}

async function csv(file) {
  const raw = await bytes(file, 0, Math.min(FIRST, file.size));
  const letters = new TextDecoder("windows-1252").decode(raw); // one for each byte
  let end = 0;
  for (let quoted = false; end < letters.length && (quoted || !"\r\n".includes(letters[end])); end += 1) if (letters[end] === '"') quoted = !quoted;
  const utf8 = utf8Of(raw.slice(0, end));
  const line = utf8 ?? letters.slice(0, end);
  return Object.assign(splitLine(line).map((name) => ({ name, type: "" })), { mark: markOf(line), encoding: utf8 === null ? "cp1252" : "" });
}

// Null where it is not UTF-8: spreadsheets of Western Europe write their own code page.
function utf8Of(raw) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    return null;
  }
}

function markOf(line) {
  const bare = line.replaceAll(/"[^"]*"/g, "");
  return [",", ";", "\t", "|"].sort((a, b) => bare.split(b).length - bare.split(a).length)[0];
}

function splitLine(line) {
  const mark = markOf(line);
  const names = [];
  let name = "", quoted = false;
  for (const letter of line.replace(/^\uFEFF/, "")) {
    if (letter === '"') quoted = !quoted;
    else if (letter === mark && !quoted) names.push(name.trim()), (name = "");
    else name += letter;
  }
  return [...names, name.trim()];
}

// ---- Parquet: Thrift's compact protocol, as far as the list of schema elements

async function parquet(file) {
  const tail = await bytes(file, file.size - 8, file.size);
  if (new TextDecoder().decode(tail.slice(4)) !== "PAR1") refuse(`${file.name} does not end as a Parquet file does. Paste the names of its columns instead.`);
  const length = new DataView(tail.buffer).getUint32(0, true);
  const read = thrift(await bytes(file, file.size - 8 - length, file.size - 8));
  const [root, ...elements] = read.fieldOf(2); // then it stops: row groups and their statistics come later
  const columns = [];
  for (let i = 0; i < elements.length; i += 1) {
    const children = elements[i][5] ?? 0;
    columns.push({ name: elements[i][4], type: children ? "" : parquetType(elements[i]) });
    for (let left = children; left > 0; left -= 1) left += elements[(i += 1)][5] ?? 0; // what is nested is one column
  }
  return root ? columns : [];
}

function parquetType({ 1: physical, 6: converted, 10: logical }) {
  if (physical === 0) return "truth";
  if (converted === 6 || converted === 9 || converted === 10 || logical?.[6] || logical?.[8]) return "date";
  return physical === 1 || physical === 2 ? "whole" : physical === 4 || physical === 5 ? "number" : "text";
}

function thrift(data) {
  let at = 0;
  const varint = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = data[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  const zigzag = () => {
    const value = varint();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const text = () => {
    const length = varint();
    return new TextDecoder().decode(data.slice(at, (at += length)));
  };
  const list = () => {
    const head = data[at++];
    const count = head >> 4 === 15 ? varint() : head >> 4;
    return Array.from({ length: count }, () => value(head & 15));
  };
  function value(kind) {
    if (kind === 1 || kind === 2) return kind === 1;
    if (kind === 3) return data[at++];
    if (kind === 7) return (at += 8), null;
    if (kind === 8) return text();
    if (kind === 9 || kind === 10) return list();
    return kind === 12 ? struct() : zigzag();
  }
  function struct(wanted) {
    const fields = {};
    for (let id = 0, head; (head = data[at++]); ) {
      id = head >> 4 ? id + (head >> 4) : zigzag();
      fields[id] = value(head & 15) ?? true;
      if (id === wanted) break;
    }
    return fields;
  }
  return { fieldOf: (id) => struct(id)[id] };
}

// ---- Excel: two parts of a zip archive, each unpacked only as far as the first row needs

async function xlsx(file) {
  const parts = await zipped(file);
  const sheet = parts["xl/worksheets/sheet1.xml"] ?? Object.entries(parts).find(([name]) => name.startsWith("xl/worksheets/"))?.[1];
  const row = await unpackedUntil(file, sheet, (text) => text.indexOf("</row>"));
  const cells = [...row.slice(row.indexOf("<row")).matchAll(/<c\b([^>]*?)(?:\/>|>(.*?)<\/c>)/gs)];
  const places = cells.filter(([, given]) => /\bt="s"/.test(given)).map(([, , inside]) => Number(inside.match(/<v>(\d+)<\/v>/)[1]));
  const ends = (text) => text.split("</si>").length - 1 > Math.max(...places);
  const shared = places.length ? (await unpackedUntil(file, parts["xl/sharedStrings.xml"], (text) => (ends(text) ? text.length : -1))).split("</si>") : [];
  const written = (xml) => [...xml.matchAll(/<t\b[^>]*>(.*?)<\/t>/gs)].map(([, words]) => unescaped(words)).join("");
  return cells.map(([, given, inside = ""]) => {
    if (/\bt="s"/.test(given)) return { name: written(shared[Number(inside.match(/<v>(\d+)<\/v>/)[1])]), type: "" };
    return { name: written(inside) || unescaped(inside.match(/<v>(.*?)<\/v>/)?.[1] ?? ""), type: "" };
  });
}

const unescaped = (xml) => xml.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&apos;", "'").replaceAll("&amp;", "&");

async function zipped(file) {
  const tail = await bytes(file, Math.max(0, file.size - 66000), file.size);
  const view = new DataView(tail.buffer);
  let end = tail.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end -= 1;
  const from = view.getUint32(end + 16, true);
  const list = await bytes(file, from, from + view.getUint32(end + 12, true));
  const parts = {}, entries = new DataView(list.buffer);
  for (let at = 0; at + 46 <= list.length && entries.getUint32(at, true) === 0x02014b50; ) {
    const [name, extra, comment] = [28, 30, 32].map((place) => entries.getUint16(at + place, true));
    const path = new TextDecoder().decode(list.slice(at + 46, at + 46 + name));
    parts[path] = { packed: entries.getUint16(at + 10, true) === 8, length: entries.getUint32(at + 20, true), at: entries.getUint32(at + 42, true) };
    at += 46 + name + extra + comment;
  }
  return parts;
}

async function unpackedUntil(file, part, found) {
  const head = new DataView((await bytes(file, part.at, part.at + 30)).buffer);
  const from = part.at + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  let stream = file.slice(from, from + part.length).stream();
  if (part.packed) stream = stream.pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    text += value ?? "";
    const end = found(text);
    if (end < 0 && !done) continue;
    await reader.cancel();
    return end < 0 ? text : text.slice(0, end);
  }
}

// ---- SPSS: the records of the dictionary, up to its end

async function sav(file) {
  const data = await bytes(file, 0, Math.min(file.size, DICTIONARY));
  const view = new DataView(data.buffer);
  const little = view.getInt32(64, true) === 2 || view.getInt32(64, true) === 3;
  const int = (at) => view.getInt32(at, little);
  const parts = { variables: [], labels: [], long: {}, encoding: "utf-8" };
  let at = 176, last = [];
  const raw = (length) => data.slice(at, (at += length));
  for (let kind; (kind = int(at)) !== 999; ) {
    at += 4;
    if (kind === 2) {
      const [type, labelled, missing, format] = [0, 4, 8, 12].map((place) => int(at + place));
      at += 20;
      const variable = { type, format, name: raw(8) };
      if (labelled) (at += 4), (variable.title = raw(int(at - 4))), (at += -variable.title.length & 3);
      at += 8 * Math.abs(missing);
      parts.variables.push(variable);
    } else if (kind === 3) {
      const count = int(at);
      at += 4;
      last = Array.from({ length: count }, () => {
        const [number, text] = [view.getFloat64(at, little), data.slice(at, at + 8)];
        const length = data[at + 8], label = data.slice(at + 9, at + 9 + length);
        at += 8 + Math.ceil((1 + length) / 8) * 8;
        return { number, text, label };
      });
    } else if (kind === 4) {
      const count = int(at);
      for (let i = 1; i <= count; i += 1) parts.labels[int(at + 4 * i) - 1] = last;
      at += 4 + 4 * count;
    } else if (kind === 6) at += 4 + 80 * int(at);
    else if (kind === 7) {
      const [subtype, size, count] = [0, 4, 8].map((place) => int(at + place));
      at += 12;
      const inside = raw(size * count);
      if (subtype === 20) parts.encoding = new TextDecoder("ascii").decode(inside).trim();
      if (subtype === 13) parts.pairs = inside;
    } else refuse("The dictionary of this SPSS file cannot be read. Paste the names of its columns instead.");
  }
  const decoder = decoding(parts.encoding);
  const words = (given) => decoder.decode(given).replace(/[\s\0]+$/, "");
  const long = Object.fromEntries(parts.pairs ? words(parts.pairs).split("\t").map((pair) => pair.split("=")) : []);
  return parts.variables.flatMap(({ type, format, name, title }, place) => {
    if (type < 0) return []; // the rest of a long text
    const form = (format >> 16) & 255, short = words(name);
    const kind = type > 0 ? "text" : [20, 22, 23, 24, 38, 39].includes(form) ? "date" : format & 255 ? "number" : "whole";
    const values = (parts.labels[place] ?? []).map(({ number, text, label }) => [type > 0 ? words(text) : String(number), words(label)]);
    return [{ name: long[short] ?? short, type: kind, values, title: title ? words(title) : "" }];
  });
}

function decoding(name) {
  try {
    return new TextDecoder(name);
  } catch {
    return new TextDecoder("windows-1252");
  }
}
