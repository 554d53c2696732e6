// Speaking with the server: one question at a time, the newest wins, and a server that is gone is noticed.

const page = crypto.randomUUID();
const SLOW = 300; // milliseconds: an answer that takes longer is not waited for when there is a newer question
const LOOK = 4000; // milliseconds between two looks whether the server is there

let next = null;
let asking = null;
let since = 0;
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

export async function post(path, body, signal, last = false) {
  const text = JSON.stringify({ page, ...body });
  try {
    const answer = await fetch(`.${path}`, { // below the page, wherever a proxy puts it
      method: "POST",
      headers: { "content-type": "application/json" },
      body: text,
      signal,
      keepalive: last && text.length < 60000, // what a page says while it is closed; browsers allow that much
    });
    const found = await answer.text(); // which can be broken off, too
    if (answer.status === 403) gone();
    else back();
    return answer.ok ? JSON.parse(found) : { error: found || "The planner did not answer." };
  } catch (problem) {
    if (signal?.aborted) return { superseded: true };
    gone();
    return { gone: true };
  }
}

// The plan of what `body` returns when its turn comes: at once, or after the one that is being made; only the newest waits.
export function soon(body, told) {
  next = { body, told };
  if (!asking) return follow();
  if (performance.now() - since > SLOW) asking.abort();
}

async function follow() {
  while (next) {
    const { body, told } = next;
    [next, asking, since] = [null, new AbortController(), performance.now()];
    told.began();
    const found = await post("/plan", body(), asking.signal);
    if (!found.superseded) told.ended(found);
    else await new Promise((go) => setTimeout(go, SLOW)); // whoever types on meanwhile is answered once
  }
  asking = null;
}

// Nothing that was asked is answered any more, as when another document is opened.
export function drop() {
  next = null;
  asking?.abort();
}

export async function stop() {
  drop();
  await post("/stop", {});
}

export function keep(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
