// Speaking with the server: one question at a time, the newest wins, and a server that is gone is noticed.

const page = crypto.randomUUID();
const PAUSE = 120; // milliseconds after the last change
const LOOK = 4000; // milliseconds between two looks whether the server is there

let waiting = null;
let asking = null;
let gone = () => {};
let back = () => {};

export function whenGone(stopped, again) {
  gone = stopped;
  back = again;
  setInterval(look, LOOK);
}

export async function look() {
  if (document.hidden) return;
  try {
    const answer = await fetch("alive");
    if (answer.ok) back();
    else gone();
  } catch {
    gone();
  }
}

export async function post(path, body, signal) {
  try {
    const answer = await fetch(`.${path}`, { // below the page, wherever a proxy puts it
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ page, ...body }),
      signal,
    });
    const text = await answer.text(); // which can be broken off, too
    if (answer.status === 403) gone();
    else back();
    return answer.ok ? JSON.parse(text) : { error: text || "The planner did not answer." };
  } catch (problem) {
    if (signal?.aborted) return { superseded: true };
    gone();
    return { gone: true };
  }
}

// The plan of what `body` returns when its turn comes; only the newest question is answered.
export function soon(body, told, pause = PAUSE) {
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    asking?.abort();
    const mine = (asking = new AbortController());
    told.began();
    const found = await post("/plan", body(), mine.signal);
    if (mine !== asking || found.superseded) return;
    asking = null;
    told.ended(found);
  }, pause);
}

export async function stop() {
  asking?.abort();
  asking = null;
  await post("/stop", {});
}

export function keep(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
