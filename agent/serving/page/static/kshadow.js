// What makes the page live: news, filter, sorting and keys. All of it works without, by loading pages.
//
// The server renders; this asks for the main part again (`live=1`, with the version it has) and changes what differs
// in place. It never moves the focus or the scroll position, and rows do not change places under a pointer.

const $ = (id) => document.getElementById(id);
const stored = {
  get(name) {
    try { return localStorage.getItem(name); } catch { return null; }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(name);
      else localStorage.setItem(name, value);
    } catch { /* not kept, then */ }
  },
};

// ---- Time. The server's clock counts; ours only tells how long ago it was asked.

let serverNow = 0;
let heardAt = 0;
const now = () => serverNow + (performance.now() - heardAt);

function heard(main) {
  serverNow = Number(main.dataset.now);
  heardAt = performance.now();
}

function rough(ms) {
  const seconds = Math.floor(Math.max(ms, 0) / 1000);
  if (seconds >= 172800) return `${Math.floor(seconds / 86400)} d`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h`;
  if (seconds >= 60) return `${Math.floor(seconds / 60)} min`;
  return `${seconds} s`;
}

function tellTimes() {
  const at = now();
  for (const it of document.querySelectorAll("time[data-ago]")) {
    const age = at - Number(it.dataset.ago);
    const words = age < 5000 && it.dataset.after === " ago" ? "just now" : rough(age) + it.dataset.after;
    if (it.textContent !== words) it.textContent = words;
  }
}

// ---- Changing what is shown.

const keyOf = (node) => (node.nodeType === 1 ? node.dataset.key || node.id || null : null);

function morph(old, made, held) {
  if (old.isEqualNode(made)) return;
  if (old.nodeName === "svg") {
    old.replaceWith(made);
    return;
  }
  for (const { name } of [...old.attributes]) {
    // What is open stays open, and what is new stays marked until it fades.
    if (!made.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of [...made.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.tagName === "TIME" && old.dataset.ago) return;
  if (old.tagName === "INPUT" || old.tagName === "SELECT") return;
  morphChildren(old, made, held);
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function morphChildren(old, made, held) {
  const keyed = new Map();
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key !== null) keyed.set(key, child);
  }
  const isRows = old.tagName === "TBODY" || old.classList.contains("findings");
  if (isRows && held(old)) {
    // Somebody points at a row or is in one: what it says may change, where it stands may not.
    for (const child of made.children) {
      const there = keyed.get(keyOf(child));
      if (there) morph(there, child, held);
    }
    old.dataset.held = "";
    return;
  }
  let at = old.firstChild;
  for (const child of [...made.childNodes]) {
    const key = keyOf(child);
    const there = key !== null ? keyed.get(key) : at && keyOf(at) === null && alike(at, child) ? at : null;
    if (there && alike(there, child)) {
      if (there === at) at = at.nextSibling;
      else old.insertBefore(there, at);
      if (there.nodeType === 1) morph(there, child, held);
      else if (there.nodeValue !== child.nodeValue) there.nodeValue = child.nodeValue;
    } else {
      if (isRows && child.nodeType === 1) child.classList.add("new");
      old.insertBefore(child, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const isHeld = (rows) => rows.matches(":hover") || rows.contains(document.activeElement);
const isFree = () => false;

function show(html, { byReader }) {
  const made = new DOMParser().parseFromString(html, "text/html").getElementById("main");
  if (!made) throw new Error("an answer of another kind came");
  const main = $("main");
  const said = main.dataset.says;
  const x = window.scrollX;
  const y = window.scrollY;
  const focused = document.activeElement;
  morph(main, made, byReader ? isFree : isHeld);
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  if (window.scrollX !== x || window.scrollY !== y) window.scrollTo(x, y);
  document.title = main.dataset.title;
  heard(main);
  tellTimes();
  if (byReader) {
    const count = $("count");
    if (count) say(count.textContent);
  } else if (main.dataset.says !== said) say(main.dataset.says);
}

// ---- Saying it aloud, politely: the newest only, and not all the time.

const QUIET_MS = 8000;
let toSay = null;
let saidAt = -QUIET_MS;
let sayTimer = 0;

function say(words) {
  toSay = words;
  if (sayTimer) return;
  sayTimer = setTimeout(() => {
    sayTimer = 0;
    saidAt = performance.now();
    $("announce").textContent = toSay;
  }, Math.max(300, saidAt + QUIET_MS - performance.now()));
}

// ---- Asking.

const MOST_WAIT_MS = 30000;
const GIVE_UP_MS = 20000;
const LATE_MS = 10000;
let timer = 0;
let failures = 0;
let asking = null;
let isAwaited = false; // A reader waits for what this address shows, however often it has to be asked for.
let paused = false;
let trouble = null;

function liveAddress(href) {
  const url = new URL(href);
  url.searchParams.set("live", "1");
  url.hash = "";
  return url;
}

async function ask(href, { byReader = false } = {}) {
  if (asking) asking.abort();
  clearTimeout(timer); // Or it would end this one, and ask anew.
  isAwaited ||= byReader;
  const mine = (asking = new AbortController());
  const giveUp = setTimeout(() => mine.abort(new Error("no answer")), GIVE_UP_MS);
  const known = !isAwaited && $("main").dataset.etag;
  try {
    const answer = await fetch(liveAddress(href), {
      signal: mine.signal,
      headers: known ? { "If-None-Match": known } : {},
      cache: "no-store",
      redirect: "error",
    });
    if (answer.status === 304) {
      heardAgain();
    } else if (answer.status === 200 || answer.status === 503 || answer.status === 404) {
      const html = await answer.text();
      if (mine !== asking) return;
      if (!(answer.headers.get("content-type") || "").startsWith("text/html")) throw new Error("the agent is busy");
      show(html, { byReader: isAwaited });
      isAwaited = false;
    } else throw new Error(answer.status === 401 ? "sign in again: reload the page" : `status ${answer.status}`);
    if (failures > 1) say("Connected again");
    failures = 0;
    trouble = null;
  } catch (error) {
    if (mine !== asking) return; // Somebody asked for something else meanwhile.
    failures += 1;
    if (failures === 2) say("Disconnected: the page is no longer updated");
    trouble = error instanceof TypeError ? "the agent does not answer" : error.message;
  } finally {
    clearTimeout(giveUp);
    if (mine === asking) {
      asking = null;
      tellState();
      plan();
    }
  }
}

function heardAgain() {
  // Nothing changed up to now.
  serverNow = now();
  heardAt = performance.now();
  tellTimes();
}

function plan() {
  clearTimeout(timer);
  const every = Number($("main").dataset.poll) * 1000;
  if (!every || paused || document.hidden) return;
  timer = setTimeout(() => ask(location.href), Math.min(every * 2 ** Math.min(failures, 5), Math.max(every, MOST_WAIT_MS)));
}

function tellState() {
  const live = $("live");
  const age = rough(performance.now() - heardAt);
  const polls = Boolean(Number($("main").dataset.poll));
  let state = "live";
  let words = "Live";
  if (trouble !== null && failures > 1) {
    state = "lost";
    words = `Disconnected: ${trouble}. Data is ${age} old`;
  } else if (polls && !paused && performance.now() - heardAt > LATE_MS) {
    // An agent that hangs refuses nothing: until it is given up, nothing fails.
    state = "lost";
    words = `Waiting for an answer. Data is ${age} old`;
  } else if (paused) {
    state = "paused";
    words = `Paused. Data is ${age} old`;
  } else if (!polls) {
    state = "still";
    words = "";
  }
  if (live.dataset.state !== state) live.dataset.state = state;
  if (live.textContent !== words) live.textContent = words;
}

function pause(it) {
  paused = it;
  $("pause").textContent = paused ? "Go on" : "Pause";
  $("pause").setAttribute("aria-pressed", String(paused));
  tellState();
  if (paused) clearTimeout(timer);
  else ask(location.href);
}

// ---- The reader's own changes: the address says them, so that they can be sent on.

function go(href, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  return ask(href, { byReader: true });
}

let typing = 0;

function filtered(form) {
  const url = new URL(form.action);
  for (const [name, value] of new FormData(form)) if (value !== "") url.searchParams.set(name, value);
  return url.href;
}

document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-filter]");
  if (!form) return;
  clearTimeout(typing);
  const wait = event.target.tagName === "SELECT" ? 0 : 140;
  typing = setTimeout(() => go(filtered(form), { replace: true }), wait);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-filter]")) return;
  event.preventDefault();
  clearTimeout(typing);
  go(filtered(form), { replace: true });
});

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-swap]");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const wasPager = link.closest(".pager");
  go(link.href).then(() => {
    if (wasPager) $("groups").scrollIntoView({ block: "start" });
  });
});

window.addEventListener("popstate", () => {
  const filter = $("q");
  if (filter) filter.value = new URL(location.href).searchParams.get("q") || "";
  ask(location.href, { byReader: true });
});

// ---- Keys.

const keysOn = () => $("keys-on").checked;

function rowLinks() {
  return [...document.querySelectorAll(".rows [data-key] th a, .rows [data-key] .where a, .findings [data-key] .where a")];
}

function step(by) {
  const links = rowLinks();
  if (!links.length) return;
  const row = document.activeElement.closest?.("[data-key]");
  const at = row ? links.findIndex((it) => row.contains(it)) : -1;
  const to = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1);
  links[to].focus();
}

const KEYS = {
  "/": () => { const it = $("q") || document.querySelector("form[data-filter] select"); it?.focus(); it?.select?.(); },
  j: () => step(1),
  k: () => step(-1),
  h: () => { location.href = document.querySelector(".brand").href; },
  f: () => { location.href = document.querySelector('nav a[href^="/findings"]').href; },
  p: () => pause(!paused),
  t: () => nextTheme(),
  "?": () => $("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const target = event.target;
  const writes = target.matches?.("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && target.id === "q") {
    if (target.value) {
      target.value = "";
      target.dispatchEvent(new Event("input", { bubbles: true }));
    } else target.blur();
    event.preventDefault();
    return;
  }
  if (writes) {
    if (target.id === "q" && event.key === "ArrowDown") {
      step(1);
      event.preventDefault();
    }
    return;
  }
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && target.closest?.(".rows [data-key], .findings [data-key]")) {
    step(event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
    return;
  }
  if (!Object.hasOwn(KEYS, event.key) || !keysOn()) return;
  event.preventDefault();
  KEYS[event.key]();
});

// ---- Theme.

const THEMES = [["", "System theme"], ["light", "Light theme"], ["dark", "Dark theme"]];

function tellTheme() {
  const chosen = document.documentElement.dataset.theme || "";
  const [, words] = THEMES.find(([name]) => name === chosen);
  $("theme").setAttribute("aria-label", `${words}; press for the next`);
  $("theme").title = words;
  $("theme").dataset.now = chosen || "system";
}

function nextTheme() {
  const chosen = document.documentElement.dataset.theme || "";
  const [next] = THEMES[(THEMES.findIndex(([name]) => name === chosen) + 1) % THEMES.length];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  stored.set("kshadow-theme", next || null);
  tellTheme();
}

// ---- Begin.

heard($("main"));
for (const id of ["theme", "help"]) $(id).hidden = false;
$("pause").hidden = !Number($("main").dataset.poll);
$("keys-on").checked = stored.get("kshadow-keys") !== "off";
$("keys-on").addEventListener("change", () => stored.set("kshadow-keys", keysOn() ? null : "off"));
$("pause").addEventListener("click", () => pause(!paused));
$("keys").addEventListener("close", () => {
  // A browser may leave the focus in what is closed.
  if ($("keys").contains(document.activeElement)) document.activeElement.blur();
});
$("theme").addEventListener("click", nextTheme);
$("help").addEventListener("click", () => $("keys").showModal());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else if (!paused) ask(location.href);
});
window.addEventListener("online", () => { if (!paused) ask(location.href); });
window.addEventListener("pageshow", (event) => { if (event.persisted && !paused) ask(location.href); });
setInterval(() => { tellTimes(); tellState(); }, 1000);
tellTheme();
tellState();
plan();
document.documentElement.dataset.ready = "";
