// What every view builds on: the host's parts, the API, the address, and questions that are asked again.
const SDK = window.__HERMES_PLUGIN_SDK__;
const { React } = SDK;
const { useState, useEffect, useMemo, useRef } = SDK.hooks;
const { Card, Badge, Button, Input } = SDK.components;
const { Fragment } = React;
const h = React.createElement;

const API = "/api/plugins/pgvector";
const SLOW_MS = 300; // no spinner before: a short wait should not flicker
const RETRY_FIRST_MS = 1500;
const LOADING_MS = 1000; // an answer that lacks a model which is being loaded is asked for again
const RETRY_MOST_MS = 30000;

function cx(...names) {
  return names.filter(Boolean).join(" ");
}

// ---- the API ----

class ApiError extends Error {
  constructor(message, kind, status) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

function queryOf(params) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params || {})) {
    if (value === undefined || value === null || value === "" || value === false) continue;
    query.set(key, value === true ? "1" : String(value));
  }
  return query;
}

function profileInAddress() {
  return new URLSearchParams(window.location.search).get("profile") || "";
}

function withProfile(path) {
  const profile = profileInAddress();
  if (!profile) return API + path;
  return API + path + (path.includes("?") ? "&" : "?") + queryOf({ profile });
}

async function asked(path, init) {
  let answer;
  try {
    answer = await SDK.authedFetch(withProfile(path), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The dashboard does not answer. Is it still running?", "Unreachable", 503);
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found) return found;
  if (answer.status === 401) throw new ApiError("Your session here has ended. Load the page again.", "Unauthorized", 401);
  const says = found && (found.error || found.detail);
  throw new ApiError(typeof says === "string" ? says : `The dashboard answered ${answer.status}.`, (found && found.kind) || "", answer.status);
}

const PERIOD = /^([1-8]\d{3})(?:-(\d{2})(?:-(\d{2}))?)?$/;
const TIME_WITHOUT_ZONE = /^\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}(:\d{2})?$/;
const DAYS_BACK = { today: 0, yesterday: 1 };

/** Return the year, month and day of a period that was typed; the last ones are undefined where it is longer. */
function periodOf(word) {
  if (word in DAYS_BACK) {
    const day = new Date();
    day.setDate(day.getDate() - DAYS_BACK[word]);
    return [day.getFullYear(), day.getMonth() + 1, day.getDate()];
  }
  const found = PERIOD.exec(word);
  return found && found.slice(1).map((part) => part && Number(part));
}

/**
 * Return a time as the server takes it. Days, months and years are those of the browser's zone, as are the times that
 * are shown; with `end` the end of one. Anything else stays as it was typed.
 */
function momentOf(text, end) {
  const word = text.trim().toLowerCase();
  if (TIME_WITHOUT_ZONE.test(word)) {
    const time = new Date(word.replace("t", " "));
    return Number.isNaN(time.getTime()) ? text : time.toISOString();
  }
  const period = periodOf(word);
  if (!period) return text;
  const [year, month, day] = period;
  const first = new Date(year, (month || 1) - 1, day || 1);
  // What the calendar does not have is for the server to refuse.
  if (first.getMonth() !== (month || 1) - 1 || first.getDate() !== (day || 1)) return text;
  const after = day ? new Date(year, month - 1, day + 1) : month ? new Date(year, month, 1) : new Date(year + 1, 0, 1);
  return (end ? after : first).toISOString();
}

const MOMENTS = { since: false, until: true, expires_at: true }; // whether the end of a period is meant

/** Return the parameters of a request with its times as the server takes them. */
function withMoments(params) {
  const timed = Object.entries(params || {}).map(([name, value]) =>
    typeof value === "string" && name in MOMENTS ? [name, momentOf(value, MOMENTS[name])] : [name, value],
  );
  return Object.fromEntries(timed);
}

const api = {
  get(path, params, signal) {
    const query = String(queryOf(withMoments(params)));
    return asked(query ? `${path}?${query}` : path, { signal });
  },
  /** Send a change. Every question on the page is asked again after it, unless it was a dry run. */
  async post(path, body) {
    const found = await asked(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(withMoments(body)),
    });
    // After whoever sent it: a view of what is gone is left then, and does not ask for it.
    if (!(body && body.dry_run) && path !== "/settings/test") setTimeout(changed);
    return found;
  },
};

// ---- the address ----

const addressListeners = new Set();

function tellAddress() {
  for (const listener of [...addressListeners]) listener();
}

// The host changes the profile in the address without a popstate; newer browsers tell of that as well.
window.addEventListener("popstate", tellAddress);
if (window.navigation) window.navigation.addEventListener("currententrychange", tellAddress);

function useAddress() {
  const [search, setSearch] = useState(window.location.search);
  useEffect(() => {
    const listener = () => setSearch(window.location.search);
    addressListeners.add(listener);
    listener();
    return () => addressListeners.delete(listener);
  }, []);
  return useMemo(() => {
    const { view, profile, ...params } = Object.fromEntries(new URLSearchParams(search));
    return { view: view || "overview", params, profile: profile || "" };
  }, [search]);
}

function hrefOf(view, params) {
  const query = queryOf({ view, ...params, profile: profileInAddress() });
  return `${window.location.pathname}?${query}`;
}

/** Show a view; `replace` for what the back button should not stop at, such as every letter of a search. */
function go(view, params, { replace = false } = {}) {
  const href = hrefOf(view, params);
  if (href === window.location.pathname + window.location.search) return;
  const before = window.history.state || {};
  // The host's router counts its entries in `idx`, and learns of this one by the event.
  const state = replace ? before : { ...before, idx: (before.idx || 0) + 1, key: Math.random().toString(36).slice(2, 10) };
  window.history[replace ? "replaceState" : "pushState"](state, "", href);
  window.dispatchEvent(new PopStateEvent("popstate", { state }));
  if (!replace) scrollUp();
}

function scrollUp() {
  const page = document.querySelector(".hpg-page");
  if (page) page.scrollIntoView({ block: "start" });
}

function Link({ view, params, children, ...rest }) {
  const onClick = (event) => {
    if (rest.onClick) rest.onClick(event);
    const elsewhere = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button > 0;
    if (elsewhere || event.defaultPrevented) return;
    event.preventDefault();
    go(view, params);
  };
  return h("a", { ...rest, href: hrefOf(view, params), onClick }, children);
}

// ---- questions ----

const changeListeners = new Set();

/** Have every question on the page asked again. */
function changed() {
  for (const listener of [...changeListeners]) listener();
}

/**
 * Ask `path` (null asks nothing) and keep the answer; `every_s` asks again while the page is visible.
 * The former answer stays, with `stale`, until the next one or an error is there. What is unavailable is tried again by
 * itself.
 */
function useAnswer(path, params, { every_s: everyS } = {}) {
  const { profile } = useAddress();
  const key = path === null ? null : `${path}?${queryOf(params)}#${profile}`;
  const [state, setState] = useState({ key: null, path: null, data: null, error: null });
  const [slow, setSlow] = useState(false);
  const again = useRef(() => {});

  useEffect(() => {
    if (key === null) return undefined;
    let ended = false;
    let asking = null;
    let timer = 0;
    let retryMs = RETRY_FIRST_MS;
    const spinner = setTimeout(() => setSlow(true), SLOW_MS);

    const later = (ms) => {
      clearTimeout(timer);
      timer = setTimeout(ask, ms);
    };
    const settle = (change) => {
      clearTimeout(spinner);
      setSlow(false);
      // Under a problem stands what the same question had for an answer, never another one's.
      setState((before) => ({ key, path, data: before.key === key ? before.data : null, error: null, ...change }));
    };
    let due = false; // asked for while nobody looked
    async function ask() {
      due = document.hidden;
      if (due) return;
      if (asking) asking.abort();
      const mine = (asking = new AbortController());
      try {
        const data = await api.get(path, params, mine.signal);
        if (ended || mine !== asking) return;
        retryMs = RETRY_FIRST_MS;
        settle({ data });
        if (data.loading || data.counting) later(LOADING_MS);
        else if (everyS) later(everyS * 1000);
      } catch (error) {
        if (ended || mine !== asking || error.name === "AbortError") return;
        const unavailable = error.status === 503;
        // Of what is only just being opened nothing is said: the second time it is a problem.
        if (!unavailable || retryMs > RETRY_FIRST_MS) settle({ error });
        if (unavailable) {
          later(retryMs);
          retryMs = Math.min(retryMs * 2, RETRY_MOST_MS);
        }
      } finally {
        if (mine === asking) asking = null;
      }
    }
    const onVisible = () => due && ask();
    again.current = ask;
    changeListeners.add(ask);
    document.addEventListener("visibilitychange", onVisible);
    ask();
    return () => {
      ended = true;
      clearTimeout(timer);
      clearTimeout(spinner);
      setSlow(false);
      if (asking) asking.abort();
      changeListeners.delete(ask);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [key, everyS]);

  const current = state.key === key;
  const data = current || state.path === path ? state.data : null;
  return { data, error: current ? state.error : null, slow, stale: !current, again: () => again.current() };
}

/** Return `value` once it has not changed for `ms`. */
function useSettled(value, ms) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

let lastId = 0;

/** Return an id of this component's own, for labels and descriptions. */
function useId() {
  return useState(() => `hpg-${++lastId}`)[0];
}
