// Optional functions of the pages: keyboard, copying, loading of messages, live answers. All pages work without them.
// No text is converted to HTML here: fragments come from the server, which has sanitised them.

const root = document.documentElement;
root.classList.add("js");

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const one = (selector, within = document) => within.querySelector(selector);

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

let toastTimer = 0;
function toast(words) {
  const box = one("#toast");
  if (!box) return;
  box.textContent = words;
  box.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove("shown"), 1800);
}

async function fetched(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer;
}

async function fragmentOf(address) {
  const text = await (await fetched(address)).text();
  const parsed = new DOMParser().parseFromString(text, "text/html");
  const found = document.createDocumentFragment();
  found.append(...[...parsed.body.childNodes].map((node) => document.adoptNode(node)));
  return found;
}

// --- theme -------------------------------------------------------------------------------------

function setTheme(theme) {
  root.style.colorScheme = theme || "";
}
let theme = "";
try {
  theme = localStorage.getItem("cannery-theme") || "";
} catch {
  // Storage may be disabled; the page then uses the theme of the system.
}
setTheme(theme);

function toggleTheme() {
  const isDark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme = isDark ? "light" : "dark";
  setTheme(theme);
  try {
    localStorage.setItem("cannery-theme", theme);
  } catch {
    // The choice lasts as long as the page.
  }
}

// --- times -------------------------------------------------------------------------------------

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

function localTimes(within = document) {
  for (const each of all("time[datetime]", within)) {
    const when = new Date(each.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    each.title = full.format(when);
    each.textContent = each.classList.contains("when") ? relative(when) : each.closest(".message") ? clock.format(when) : full.format(when);
  }
}

function relative(when) {
  const minutes = Math.round((when - Date.now()) / 60000);
  if (Math.abs(minutes) < 60) return ago.format(minutes, "minute");
  if (Math.abs(minutes) < 1440) return ago.format(Math.round(minutes / 60), "hour");
  if (Math.abs(minutes) < 10080) return ago.format(Math.round(minutes / 1440), "day");
  return day.format(when);
}

// --- copying -----------------------------------------------------------------------------------

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or not over HTTPS: use the legacy API.
    const box = make("textarea");
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  toast("Copied");
}

async function copyFrom(address) {
  try {
    await copy(await (await fetched(address)).text());
  } catch (problem) {
    toast(`Could not be copied (${problem.message})`);
  }
}

const toolbar = make("span", "toolbar");
toolbar.setAttribute("role", "group");
toolbar.setAttribute("aria-label", "Copy this message");
for (const [ending, label] of [["txt", "Text"], ["md", "Markdown"], ["json", "JSON"]]) {
  const button = make("button", "", label);
  button.type = "button";
  button.title = `Copy as ${label}`;
  button.addEventListener("click", () => {
    const message = toolbar.closest(".message");
    if (message) copyFrom(messageAddress(message, ending));
  });
  toolbar.append(button);
}

function conversationPath() {
  return location.pathname.match(/^\/ui\/c\/[^/]+/)?.[0];
}

function messageAddress(message, ending) {
  return `${conversationPath()}/m/${message.dataset.position}.${ending}`;
}

function offerToolbar(event) {
  const message = event.target.closest?.(".message[data-position]");
  const head = message && one(":scope > header", message);
  if (head && conversationPath() && toolbar.parentNode !== head && !message.classList.contains("running")) {
    head.insertBefore(toolbar, one("time", head));
  }
}
document.addEventListener("mouseover", offerToolbar, { passive: true });
document.addEventListener("focusin", offerToolbar);

// --- clicks ------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const target = event.target.closest("a, button");
  if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (target.dataset.action === "theme") toggleTheme();
  else if (target.dataset.action === "help") one("#help").showModal();
  else if (target.matches("a.copy")) {
    event.preventDefault();
    copyFrom(target.href);
  } else if (target.matches("a.permalink")) {
    event.preventDefault();
    const address = new URL(target.href, location.href);
    history.replaceState(null, "", address);
    select(one(address.hash), { scroll: false });
    copy(address.href);
  }
});
document.addEventListener("toggle", (event) => {
  // One picker at a time.
  if (event.target.matches?.(".picker details[open]")) {
    for (const other of all(".picker details[open]")) if (other !== event.target) other.open = false;
  }
}, true);
addEventListener("beforeprint", () => {
  for (const each of all(".messages details:not([open], .picker *)")) each.open = true;
});

// --- the keyboard ------------------------------------------------------------------------------

let current = null;

function select(message, { scroll = true } = {}) {
  const found = message?.closest(".message") || message;
  if (!found) return;
  current?.classList.remove("current");
  current = found;
  current.classList.add("current");
  current.tabIndex = -1;
  current.focus({ preventScroll: true });
  if (scroll) current.scrollIntoView({ block: "start", behavior: "instant" });
}

function step(selector, by) {
  const found = all(selector);
  if (!found.length) return;
  let at = found.indexOf(current);
  if (at < 0) {
    const top = (current ?? document.body).getBoundingClientRect().top;
    const anchor = current ? top : 60;
    at = found.findIndex((each) => each.getBoundingClientRect().top > anchor + 1);
    at = by > 0 ? (at < 0 ? found.length - 1 : at) : at < 0 ? found.length - 1 : at - 1;
  } else at += by;
  select(found[Math.max(0, Math.min(found.length - 1, at))]);
}

function toggleAll(selector) {
  const found = all(selector);
  const open = found.some((each) => !each.open);
  for (const each of found) each.open = open;
}

const keys = {
  j: () => step(".message, .row", 1),
  k: () => step(".message, .row", -1),
  "]": () => step(".message.user", 1),
  "[": () => step(".message.user", -1),
  t: () => toggleAll(".thought"),
  o: () => toggleAll(".invocation details:not(.raw), article.result details"),
  b: () => {
    const picker = one(".parting");
    const path = conversationPath();
    const top = picker?.getBoundingClientRect().top ?? 0;
    if (picker && (top < 60 || top > innerHeight - 60)) picker.scrollIntoView({ block: "center" });
    else if (path) location.href = `${path}/tree`;
  },
  y: () => current?.dataset.position && copyFrom(messageAddress(current, "txt")),
  g: () => (location.href = "/ui"),
  "/": () => one("#search")?.focus(),
  "?": () => one("#help")?.showModal(),
  Enter: () => current?.matches(".row") && one("a", current)?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input, select, textarea, dialog[open]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const act = keys[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

// --- windows of messages -----------------------------------------------------------------------

async function loadMore(more) {
  const link = one("a", more);
  if (!link || more.dataset.loading) return;
  more.dataset.loading = "true";
  const address = new URL(link.href);
  const isEarlier = more.dataset.more === "earlier";
  const start = Number(address.searchParams.get("start"));
  const stop = Number(address.searchParams.get("stop"));
  const length = Number(one("#messages").dataset.length);
  address.searchParams.set("part", "messages");
  try {
    const added = await fragmentOf(address);
    localTimes(added);
    if (isEarlier) {
      const anchor = more.nextElementSibling;
      const before = anchor?.getBoundingClientRect().top ?? 0;
      more.after(added);
      scrollBy({ top: (anchor?.getBoundingClientRect().top ?? 0) - before, behavior: "instant" });
      if (start <= 0) return more.remove();
      address.searchParams.set("start", Math.max(0, start - 200));
      address.searchParams.set("stop", start);
      link.textContent = `${start.toLocaleString()} earlier messages`;
    } else {
      more.before(added);
      if (stop >= length) return more.remove();
      address.searchParams.set("start", stop);
      address.searchParams.set("stop", stop + 200);
      link.textContent = `${(length - stop).toLocaleString()} later messages`;
    }
    address.searchParams.delete("part");
    link.href = address;
    delete more.dataset.loading;
    watchMore(more);
  } catch {
    delete more.dataset.loading;
    toast("More messages could not be loaded");
  }
}

const nearEnd = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      nearEnd.unobserve(entry.target);
      loadMore(entry.target);
    }
  }
}, { rootMargin: "600px" });

function watchMore(more) {
  nearEnd.unobserve(more);
  // Earlier messages are loaded on request only: inserting them while scrolling would move the page.
  if (more.dataset.more === "later") nearEnd.observe(more);
}
for (const more of all("[data-more]")) {
  watchMore(more);
  more.addEventListener("click", (event) => {
    event.preventDefault();
    loadMore(more);
  });
}

// Messages get their real height when they become visible, which moves those below: scroll until the position is stable.
function settleOn(target, frames = 12) {
  select(target);
  let last = NaN;
  const again = () => {
    const top = target.getBoundingClientRect().top;
    if (top !== last) target.scrollIntoView({ block: "start", behavior: "instant" });
    last = target.getBoundingClientRect().top;
    frames -= 1;
    if (frames > 0) requestAnimationFrame(again);
  };
  requestAnimationFrame(again);
}

// A link to a message that is not on this page opens the page that contains it.
function followHash() {
  const found = location.hash.match(/^#m(\d+)$/);
  if (!found || !one("#messages")) return;
  const target = document.getElementById(location.hash.slice(1));
  if (target) settleOn(target);
  else if (new URLSearchParams(location.search).get("at") !== found[1] && Number(found[1]) < Number(one("#messages").dataset.length)) {
    location.replace(`${location.pathname}?at=${found[1]}${location.hash}`);
  }
}
addEventListener("hashchange", followHash);

// --- the outline -------------------------------------------------------------------------------

const outlined = new Map(all(".outline a").map((link) => [link.hash.slice(1), link]));
if (outlined.size) {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      one(".outline a.here")?.classList.remove("here");
      outlined.get(entry.target.id)?.classList.add("here");
    }
  }, { rootMargin: "-10% 0px -70% 0px" });
  for (const name of outlined.keys()) {
    const target = document.getElementById(name);
    if (target) seen.observe(target);
  }
}

// --- live --------------------------------------------------------------------------------------

function follow(address, on, lost) {
  const source = new EventSource(address);
  for (const [name, act] of Object.entries(on)) {
    source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  }
  source.addEventListener("open", () => lost(false));
  source.addEventListener("error", () => lost(true));
  addEventListener("pagehide", () => source.close());
}

function followList(rows) {
  let isLoading = false;
  follow(`/ui/events?seen=${encodeURIComponent(rows.dataset.seen)}`, {
    changed: async () => {
      if (isLoading || document.activeElement?.closest("#rows")) return;
      isLoading = true;
      try {
        const address = new URL(location.href);
        if (address.searchParams.get("after")) return;
        address.searchParams.set("part", "rows");
        rows.replaceChildren(await fragmentOf(address));
        localTimes(rows);
      } finally {
        isLoading = false;
      }
    },
  }, () => {});
}

function followConversation(tail) {
  const path = conversationPath();
  const state = make("p", "live-state");
  state.setAttribute("role", "status");
  let end = Number(tail.dataset.end);
  const parts = new Map();
  const isNear = () => innerHeight + scrollY > document.body.scrollHeight - 240;

  function partFor(part) {
    let found = parts.get(part.index);
    if (!found) {
      const box = make("article", `message running ${part.kind}`);
      const head = make("header");
      head.append(make("h3", "", part.title));
      const said = make("div", "said live-part");
      box.append(head, said);
      tail.insertBefore(box, state.parentNode === tail ? state : null);
      found = said;
      parts.set(part.index, found);
    }
    return found;
  }

  follow(`${path}/events?from=${end}`, {
    said: (told) => {
      const wasNear = isNear();
      for (const part of told.parts) {
        const box = partFor(part);
        if (part.from === 0) box.textContent = "";
        box.append(part.text);
      }
      state.textContent = "The answer is being given";
      state.classList.remove("lost");
      tail.append(state);
      if (wasNear) scrollTo({ top: document.body.scrollHeight, behavior: "instant" });
    },
    filed: async (told) => {
      if (tail.dataset.unfiled) return location.reload();
      if (told.length <= end && !parts.size) return;
      const wasNear = isNear();
      const start = end;
      end = Math.max(end, told.length);
      try {
        const added = told.length > start ? await fragmentOf(`${path}?part=messages&start=${start}&stop=${told.length}`) : null;
        parts.clear();
        tail.replaceChildren();
        if (added) {
          localTimes(added);
          tail.before(added);
          one("#messages").dataset.length = String(end);
        }
        if (wasNear) scrollTo({ top: document.body.scrollHeight, behavior: "instant" });
      } catch {
        end = start;
      }
    },
    gone: () => {
      parts.clear();
      tail.replaceChildren();
    },
  }, (isLost) => {
    if (isLost) {
      state.textContent = "The connection is gone. This page no longer follows; it tries again.";
      state.classList.add("lost");
      tail.append(state);
    } else if (state.classList.contains("lost")) {
      state.classList.remove("lost");
      state.remove();
    }
  });
}

// --- beginning ---------------------------------------------------------------------------------

localTimes();
followHash();
const rows = one('#rows[data-live="list"]');
if (rows) followList(rows);
const tail = one('#tail[data-at-end="true"]');
if (tail) followConversation(tail);
