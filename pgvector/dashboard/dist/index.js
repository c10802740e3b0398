// Made of the files in ../page by scripts/make_dashboard_page.py.
(() => {
"use strict";

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

// What the views are made of.
const INVISIBLE =
  /(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\p{M}\p{Script=Arabic}])[\u200c\u200d]+|(?<![\p{Emoji}\p{Script=Han}])[\ufe00-\ufe0f]+|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\uffff\ud800-\udfff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]+/gu;
const AT_ONCE = 10000; // characters of a text; a browser takes minutes for a long one of many directions
const MARKS_MOST = 1000; // of either kind in one text; what is more would make the page slow

function numberText(value) {
  return typeof value === "number" ? value.toLocaleString() : "–";
}

function countText(count, one, many) {
  return `${numberText(count)} ${count === 1 ? one : many || `${one}s`}`;
}

function bytesText(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 && unit ? 1 : 0 })} ${units[unit]}`;
}

function durationText(ms) {
  if (ms === null || ms === undefined) return "–";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

// ---- the frame of a view ----

function Page({ title, actions, children }) {
  return h(
    "section",
    { className: "hpg-view", "aria-labelledby": "hpg-title" },
    h("div", { className: "hpg-head" }, h("h2", { id: "hpg-title", tabIndex: -1 }, title), actions && h("div", { className: "hpg-actions" }, actions)),
    children,
  );
}

function Panel({ title, actions, children, className }) {
  return h(
    Card,
    { className: cx("hpg-panel", className) },
    title && h("div", { className: "hpg-panel-head" }, h("h3", null, title), actions),
    h("div", { className: "hpg-panel-body" }, children),
  );
}

function Problem({ error, again }) {
  if (!error) return null;
  return h(
    "div",
    { className: "hpg-problem", role: "alert" },
    h(StoredText, { text: sentence(error.message), inline: true }),
    error.status === 401 ? h(Act, { onClick: () => window.location.reload() }, "Load again") : again && h(Act, { onClick: again }, "Try again"),
  );
}

function Empty({ title, children }) {
  return h("div", { className: "hpg-empty" }, h("p", { className: "hpg-empty-title" }, title), children && h("div", null, children));
}

function Loading({ when }) {
  return h("div", { className: "hpg-loading", role: "status" }, when && h("span", { className: "hpg-spinner", "aria-hidden": "true" }), when && "Loading…");
}

/** Show what `answer` (of useAnswer) holds: its problem, a spinner, or `children(data)`. */
function Answered({ answer, children }) {
  const { data, error, slow, stale, again } = answer;
  return h(
    Fragment,
    null,
    h(Problem, { error, again }),
    data ? h("div", { className: cx("hpg-answer", stale && slow && "hpg-stale"), "aria-busy": stale ? "true" : undefined }, children(data)) : !error && h(Loading, { when: slow }),
  );
}

/** The way to the pages before and after; `name` is where the address holds the offset. */
function Pager({ offset, limit, count, more, total, view, params, name = "offset" }) {
  const from = Number(offset) || 0;
  if (from === 0 && !more) return null;
  const to = (start) => ({ view, params: { ...params, [name]: start || undefined } });
  const end = typeof total === "number" ? ` of ${numberText(total)}` : "";
  return h(
    "nav",
    { className: "hpg-pager", "aria-label": "Pages" },
    from > 0 ? h(Link, { ...to(Math.max(0, from - limit)), rel: "prev" }, "← Previous") : h("span", { className: "hpg-off" }, "← Previous"),
    h("span", { className: "hpg-muted" }, count ? `${numberText(from + 1)}–${numberText(from + count)}${end}` : "Nothing here"),
    more ? h(Link, { ...to(from + limit), rel: "next" }, "Next →") : h("span", { className: "hpg-off" }, "Next →"),
  );
}

// ---- values ----

function agoText(then, now) {
  const s = Math.round((now - then) / 1000);
  const ahead = s < 0;
  const d = Math.abs(s);
  if (d < 45) return ahead ? "in a moment" : "just now";
  const [value, unit] = d < 3600 ? [d / 60, "min"] : d < 86400 ? [d / 3600, "h"] : [d / 86400, "d"];
  const text = `${Math.max(1, Math.round(value))} ${unit}`;
  return ahead ? `in ${text}` : `${text} ago`;
}

/** A time: near ones as how long ago, others as a date; the exact time in its title. */
function When({ at, exact }) {
  const date = at ? new Date(at) : null;
  if (!date || Number.isNaN(date.getTime())) return h("span", { className: "hpg-muted" }, "–");
  const full = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const near = Math.abs(Date.now() - date) < 7 * 86400 * 1000;
  const text = exact ? full : near ? agoText(date, Date.now()) : date.toLocaleDateString(undefined, { dateStyle: "medium" });
  return h("time", { dateTime: date.toISOString(), title: full, className: "hpg-when" }, text);
}

/** Return pieces [text, marked]; `marks` are [start, end] in characters, as Python counts them. */
function markedPieces(text, marks) {
  if (!marks || !marks.length) return [[text, false]];
  const units = [0];
  for (const character of text) units.push(units[units.length - 1] + character.length);
  const at = (index) => units[Math.max(0, Math.min(index, units.length - 1))];
  const pieces = [];
  let from = 0;
  for (const [start, end] of marks.slice(0, MARKS_MOST)) {
    if (at(start) < from || end <= start) continue;
    pieces.push([text.slice(from, at(start)), false], [text.slice(at(start), at(end)), true]);
    from = at(end);
  }
  pieces.push([text.slice(from), false]);
  return pieces.filter(([piece]) => piece);
}

function codeText(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Return children in which runs of characters that nobody sees stand as marks. */
function visible(text, room) {
  const children = [];
  let from = 0;
  for (const found of text.matchAll(INVISIBLE)) {
    if (room.left <= 0) break;
    room.left -= 1;
    const count = [...found[0]].length;
    const says = count > 1 ? `${codeText(found[0])} +${count - 1}` : codeText(found[0]);
    if (found.index > from) children.push(text.slice(from, found.index));
    children.push(h("span", { key: found.index, className: "hpg-unseen", title: "A character that does not show" }, says));
    from = found.index + found[0].length;
  }
  const rest = text.slice(from);
  if (room.left > 0) return [...children, rest];
  const unmarked = h("span", { key: "rest", className: "hpg-unseen" }, "more of them are not marked");
  return [...children, rest.replace(INVISIBLE, ""), unmarked];
}

/** A stored text, as text: what it holds is never markup. `lines` cuts what is shown, `inline` keeps it in one line. */
function StoredText({ text, ...rest }) {
  return text && text.length > AT_ONCE && !rest.lines && !rest.inline ? h(LongText, { text }) : h(ShownText, { text: text || "", ...rest });
}

function ShownText({ text, marks, lines, inline }) {
  const children = useMemo(() => {
    const room = { left: MARKS_MOST };
    return markedPieces(text, marks).map(([piece, marked], at) =>
      marked ? h("mark", { key: at }, visible(piece, room)) : h(Fragment, { key: at }, visible(piece, room)),
    );
  }, [text, marks]);
  const props = { dir: "auto", className: cx("hpg-text", inline && "hpg-text-inline", lines && "hpg-clamp") };
  if (lines) props.style = { WebkitLineClamp: lines };
  return h(inline ? "span" : "div", props, children);
}

/** A text a part at a time. */
function LongText({ text }) {
  const [parts, setParts] = useState(1);
  const ends = useMemo(() => partEnds(text), [text]);
  const shown = ends.slice(0, parts);
  return h(
    Fragment,
    null,
    shown.map((end, at) => h(ShownText, { key: at, text: text.slice(at ? ends[at - 1] : 0, end) })),
    parts < ends.length && h(Act, { onClick: () => setParts(parts + 1) }, `Show more of ${countText(text.length, "character")}`),
  );
}

/** Return where each part of a text ends: at a space or a new line, where there is one. */
function partEnds(text) {
  const ends = [];
  for (let from = 0; from < text.length; from = ends[ends.length - 1]) {
    const end = Math.min(from + AT_ONCE, text.length);
    const gap = Math.max(text.lastIndexOf("\n", end - 1), text.lastIndexOf(" ", end - 1));
    ends.push(end < text.length && gap > from ? gap + 1 : end);
  }
  return ends;
}

/** A theme's name, which leads to the theme unless it is `plain`. */
function ThemeName({ theme, private: hidden, plain }) {
  const name = h(StoredText, { text: theme, inline: true });
  return h(
    "span",
    { className: "hpg-theme" },
    plain ? name : h(Link, { view: "theme", params: { theme }, title: theme.length > 40 ? theme : undefined }, name),
    hidden && h(Badge, { className: "hpg-badge", tone: "outline", title: "Of a private surface, such as a direct message" }, "private"),
  );
}

function Tag({ tone, children, title }) {
  return h(Badge, { className: "hpg-badge", tone: tone || "secondary", title }, children);
}

function Stat({ label, value }) {
  return h("div", { className: "hpg-stat" }, h("dt", null, label), h("dd", null, value));
}

// ---- fields and buttons ----

/** A button; `tone` is main, plain (the default), quiet or danger. */
function Act({ tone, children, className, ...rest }) {
  const looks = { main: {}, plain: { outlined: true }, quiet: { ghost: true }, danger: { outlined: true, destructive: true } };
  return h(Button, { type: "button", size: "sm", ...looks[tone || "plain"], className: cx("hpg-act", className), ...rest }, children);
}

function Field({ label, help, problem, children }) {
  const id = useId();
  const said = cx(help && `${id}-help`, problem && `${id}-problem`) || undefined;
  return h(
    "div",
    { className: "hpg-field" },
    h("label", { htmlFor: id }, label),
    children({ id, "aria-describedby": said, "aria-invalid": problem ? "true" : undefined }),
    help && h("p", { id: `${id}-help`, className: "hpg-help" }, help),
    problem && h("p", { id: `${id}-problem`, className: "hpg-field-problem" }, problem),
  );
}

/** A text field, of several lines where `rows` is given. `onInput` gets the text. */
function TextField({ label, help, problem, value, onInput, rows, ...rest }) {
  const typed = { ...rest, value: value === null || value === undefined ? "" : value, onInput: (event) => onInput(event.target.value) };
  return h(Field, { label, help, problem }, (named) =>
    rows ? h("textarea", { ...typed, ...named, rows, dir: "auto", className: "hpg-input" }) : h(Input, { ...typed, ...named }),
  );
}

/** A choice among `choices`: texts or [value, label]. `onInput` gets the value. */
function SelectField({ label, help, problem, value, onInput, choices, ...rest }) {
  const options = choices.map((choice) => (Array.isArray(choice) ? choice : [choice, choice]));
  const props = { ...rest, className: "hpg-input", value: value === null || value === undefined ? "" : value, onInput: (event) => onInput(event.target.value) };
  return h(Field, { label, help, problem }, (named) =>
    h("select", { ...props, ...named }, options.map(([key, says]) => h("option", { key, value: key }, says))),
  );
}

/** A box to tick. `onInput` gets true or false. */
function CheckField({ label, help, value, onInput, ...rest }) {
  const id = useId();
  return h(
    "div",
    { className: "hpg-check" },
    h("input", { ...rest, id, type: "checkbox", checked: Boolean(value), "aria-describedby": help ? `${id}-help` : undefined, onChange: (event) => onInput(event.target.checked) }),
    h("label", { htmlFor: id }, label),
    help && h("p", { id: `${id}-help`, className: "hpg-help" }, help),
  );
}

/** Filters above a list, each a part of the address. `fields` are [key, label, choices or "text" or "date"]. */
function Filters({ view, params, fields }) {
  const set = (key) => (value) => go(view, { ...params, [key]: value || undefined, offset: undefined }, { replace: true });
  const inUse = fields.filter(([key]) => params[key]).length;
  return h(
    "details",
    { className: "hpg-group", open: useState(inUse > 0)[0] },
    h("summary", null, inUse ? `Filters (${inUse})` : "Filters"),
    h(
      "div",
      { className: "hpg-filters" },
      fields.map(([key, label, kind]) => {
        const props = { key, label, value: params[key], onInput: set(key) };
        return Array.isArray(kind) ? h(SelectField, { ...props, choices: kind }) : h(TextField, { ...props, type: kind });
      }),
    ),
  );
}

// What lies over a view: dialogs, menus, and what just happened with its undo.

/** A modal dialog. Escape and a click beside it close it; the focus returns to where it was. */
function Dialog({ title, onClose, children }) {
  const dialog = useRef(null);
  const close = useRef(onClose);
  const id = useId();
  close.current = onClose;
  useEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    const onCancel = (event) => {
      event.preventDefault();
      close.current();
    };
    const onPointer = (event) => event.target === element && close.current();
    element.addEventListener("cancel", onCancel);
    element.addEventListener("mousedown", onPointer);
    element.showModal();
    return () => {
      element.close();
      if (before && before.isConnected) before.focus();
    };
  }, []);
  return h(
    "dialog",
    { ref: dialog, className: "hpg-dialog", "aria-labelledby": id },
    h(
      "div",
      { className: "hpg-dialog-box" },
      h("div", { className: "hpg-dialog-head" }, h("h3", { id }, title), h("button", { type: "button", className: "hpg-close", "aria-label": "Close", onClick: onClose }, "×")),
      children,
    ),
  );
}

/** A button with further actions: `items` are {label, onClick, danger}. */
function MenuButton({ label, items }) {
  const [open, setOpen] = useState(false);
  const root = useRef(null);
  const choices = () => [...root.current.querySelectorAll("[role=menuitem]")];
  useEffect(() => {
    if (!open) return undefined;
    const first = choices()[0];
    if (first) first.focus();
    const outside = (event) => !root.current.contains(event.target) && setOpen(false);
    document.addEventListener("mousedown", outside);
    return () => document.removeEventListener("mousedown", outside);
  }, [open]);
  const shut = () => {
    setOpen(false);
    root.current.querySelector("button").focus();
  };
  const onKeyDown = (event) => {
    if (!open) return;
    const all = choices();
    const at = all.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 };
    if (event.key === "Tab") setOpen(false);
    if (event.key === "Escape") {
      event.stopPropagation();
      shut();
    }
    if (!(event.key in steps) || !all.length) return;
    event.preventDefault();
    all[steps[event.key] % all.length].focus();
  };
  const choose = (item) => () => {
    shut();
    item.onClick();
  };
  return h(
    "div",
    { className: "hpg-menu", ref: root, onKeyDown },
    h("button", { type: "button", className: "hpg-menu-button", "aria-haspopup": "menu", "aria-expanded": open ? "true" : "false", "aria-label": label, onClick: () => setOpen(!open) }, "⋯"),
    open &&
      h(
        "div",
        { className: "hpg-menu-items", role: "menu", "aria-label": label },
        items.map((item) => h("button", { key: item.label, type: "button", role: "menuitem", tabIndex: -1, className: cx(item.danger && "hpg-danger"), onClick: choose(item) }, item.label)),
      ),
  );
}

// ---- what just happened ----

const TOAST_MS = 8000;
const TOAST_UNDO_MS = 60000; // long enough to notice what went wrong
const TOASTS_MOST = 4;
let toasts = [];
const toastListeners = new Set();

function setToasts(next) {
  toasts = next.slice(-TOASTS_MOST);
  for (const listener of [...toastListeners]) listener(toasts);
}

function dismiss(id) {
  setToasts(toasts.filter((one) => one.id !== id));
}

/** Say what happened. `undo` is what a change answered; `problem` makes it stand out. */
function toast(says, { undo, problem } = {}) {
  const one = { id: ++lastId, says, undo: undo || null, problem: Boolean(problem), profile: profileInAddress() };
  setToasts([...toasts, one]);
  setTimeout(() => dismiss(one.id), undo || problem ? TOAST_UNDO_MS : TOAST_MS);
}

/** Take away a message whose button was pressed: the focus goes to the top of the view instead of nowhere. */
function putAway(one) {
  dismiss(one.id);
  setTimeout(focusTitleIfLost);
}

async function undoChange(one) {
  putAway(one);
  try {
    const found = await api.post("/undo", { token: one.undo.token });
    toast([found.says, ...(found.notes || [])].join("; "));
  } catch (error) {
    changed(); // it was refused for what is there now, which may not be what is shown
    // What was refused may work later, once what stands in its way was undone; the server keeps it.
    toast(error.message, { problem: true, undo: error.kind === "NothingToUndo" ? null : one.undo });
  }
}

/** What happened in a profile; that of another one can be undone there. */
function Toasts({ profile }) {
  const [shown, setShown] = useState(toasts);
  useEffect(() => {
    toastListeners.add(setShown);
    return () => toastListeners.delete(setShown);
  }, []);
  return h(
    "div",
    { className: "hpg-toasts", role: "status", "aria-live": "polite" },
    shown.filter((one) => one.profile === profile).map((one) =>
      h(
        "div",
        { key: one.id, className: cx("hpg-toast", one.problem && "hpg-toast-problem") },
        h("span", { className: "hpg-toast-says" }, one.says),
        one.undo && h(Act, { onClick: () => undoChange(one), title: one.undo.says }, "Undo"),
        h("button", { type: "button", className: "hpg-close", "aria-label": "Dismiss", onClick: () => putAway(one) }, "×"),
      ),
    ),
  );
}

// Charts: drawn for those who see them, a table for those who do not.
const CHART_HIGH = 100;

function dayText(name) {
  const date = new Date(name.length === 7 ? `${name}-01T00:00:00Z` : `${name}T00:00:00Z`);
  const shown = name.length === 7 ? { month: "short", year: "numeric" } : { day: "numeric", month: "short" };
  return date.toLocaleDateString(undefined, { ...shown, timeZone: "UTC" });
}

/** Bars of `rows` ({day or month, and a number for each of `series`: {key, label}}), one upon the other. */
function Bars({ rows, series, label }) {
  const named = rows.map((row) => ({ row, name: row.day || row.month, sum: series.reduce((sum, { key }) => sum + row[key], 0) }));
  const most = Math.max(1, ...named.map(({ sum }) => sum));
  if (!rows.length) return null;
  return h(
    "figure",
    null,
    h("figcaption", { className: "hpg-legend" }, series.map(({ key, label: says }, at) => h("span", { key, className: `hpg-series-${at}` }, says))),
    h(
      "div",
      { className: "hpg-plot", "aria-hidden": "true" },
      h("span", { className: "hpg-most" }, numberText(most)),
      h(
        "svg",
        { viewBox: `0 0 ${rows.length * 10} ${CHART_HIGH}`, preserveAspectRatio: "none" },
        named.map((each, at) => h(Bar, { key: each.name, at, series, most, ...each })),
      ),
      h("div", { className: "hpg-axis" }, h("span", null, dayText(named[0].name)), named.length > 1 && h("span", null, dayText(named[named.length - 1].name))),
    ),
    h("div", { className: "hpg-sr" }, h(ChartTable, { named, series, label })),
  );
}

function Bar({ at, row, name, series, most }) {
  let top = CHART_HIGH;
  const says = `${dayText(name)}: ${series.map(({ key, label }) => `${numberText(row[key])} ${label.toLowerCase()}`).join(", ")}`;
  return h(
    "g",
    null,
    h("title", null, says),
    // The whole height answers the pointer, also where there is little to hit.
    h("rect", { x: at * 10, y: 0, width: 10, height: CHART_HIGH, className: "hpg-bar-back" }),
    series.map(({ key }, which) => {
      const high = (row[key] / most) * CHART_HIGH;
      top -= high;
      return h("rect", { key, x: at * 10 + 1, y: top, width: 8, height: high, className: `hpg-bar-${which}` });
    }),
  );
}

function ChartTable({ named, series, label }) {
  const filled = named.filter(({ sum }) => sum > 0);
  return h(
    "table",
    null,
    h("caption", null, filled.length ? label : `${label}: nothing yet`),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "When"), series.map(({ key, label: says }) => h("th", { key, scope: "col" }, says)))),
    h("tbody", null, filled.map(({ row, name }) => h("tr", { key: name }, h("th", { scope: "row" }, dayText(name)), series.map(({ key }) => h("td", { key }, numberText(row[key])))))),
  );
}

/** A table whose rows become cards on a phone, unless it is `narrow`. `columns` are {label, cell(row), number, wide}. */
function Table({ label, columns, rows, keyOf, narrow }) {
  return h(
    "table",
    { className: cx("hpg-table", !narrow && "hpg-table-cards") },
    h("caption", { className: "hpg-sr" }, label),
    h("thead", null, h("tr", null, columns.map((column) => h("th", { key: column.label, scope: "col", className: cx(column.number && "hpg-number") }, column.label)))),
    h(
      "tbody",
      null,
      rows.map((row, at) =>
        h(
          "tr",
          { key: keyOf ? keyOf(row) : at },
          columns.map((column) => h("td", { key: column.label, "data-label": column.label, className: cx(column.number && "hpg-number", column.wide && "hpg-wide") }, column.cell(row))),
        ),
      ),
    ),
  );
}

// What the forms of the views share.

const THEMES_OFFERED = 20;

/**
 * Return what is typed into a form whose answers stand in the address of a view, and what its fields are given.
 *
 * It follows where the address leads. Choices take effect at once, unless `wait`, texts when the form is submitted.
 */
function useForm(view, names, params) {
  const now = Object.fromEntries(names.map((name) => [name, params[name] || ""]));
  const [asked, setAsked] = useState(now);
  useEffect(() => setAsked(now), [JSON.stringify(now)]);
  const set = (name, value) => setAsked((before) => ({ ...before, [name]: value }));
  const send = (more) => go(view, filledIn({ ...asked, ...more }));
  return {
    asked,
    submit: (event) => {
      event.preventDefault();
      send({});
    },
    text: (name) => ({ value: asked[name], onInput: (value) => set(name, value) }),
    choice: (name, choices, { wait = false } = {}) => ({
      value: asked[name],
      choices,
      onInput: (value) => {
        set(name, value);
        if (!wait) send({ [name]: value });
      },
    }),
  };
}

/** Return those of a form's answers that say something, for the address. */
function filledIn(asked) {
  return Object.fromEntries(
    Object.entries(asked)
      .map(([name, value]) => [name, value.trim()])
      .filter(([, value]) => value),
  );
}

/** The name of a theme, with those that fit what was typed. */
function ThemeField({ label, value, ...rest }) {
  const id = useId();
  const typed = useSettled(value || "", 250);
  const [near, setNear] = useState(false); // nothing is asked before somebody is there
  const { data } = useAnswer(near ? "/themes" : null, { search: typed, limit: THEMES_OFFERED });
  const names = ((data && data.rows) || []).map((row) => row.theme);
  return h(
    "div",
    { onFocusCapture: () => setNear(true) },
    h(TextField, { label: label || "Theme", value, list: id, autoComplete: "off", spellCheck: false, ...rest }),
    h("datalist", { id }, names.map((name) => h("option", { key: name, value: name }))),
  );
}

// A change is tried first: the dialog says what would happen, then it is done, and the toast offers to undo it.

const TRIAL_AFTER_MS = 350; // of silence while somebody types
const ROWS_SHOWN = 12;

// What somebody typed and did not save, by the dialog it was typed into: kept until it is saved or thrown away.
const drafts = new Map();

/** Return the name under which a draft is kept: each profile has its own, for its rows and settings are others. */
function draftKey(name) {
  return `${profileInAddress()}#${name}`;
}

/**
 * Return [values, set, forget, dirty] of a form: `set({name: value})` changes some; a draft left behind comes back.
 *
 * It holds only what was typed: the other fields say what is stored now. `began` stays with it, as `draftOf` returns it.
 */
function useDraft(key, initial, began) {
  const first = useRef(initial);
  const [values, setValues] = useState(() => ({ ...first.current, ...draftOf(key).typed }));
  const typed = Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== first.current[name]));
  const dirty = Object.keys(typed).length > 0;
  useEffect(() => {
    if (dirty) drafts.set(key, { typed, began });
    else drafts.delete(key);
  }, [key, values, dirty, began]);
  const set = (some) => setValues((before) => ({ ...before, ...some }));
  const forget = () => {
    setValues({ ...first.current });
    drafts.delete(key);
  };
  return [values, set, forget, dirty];
}

/** Return {typed, began} of a draft that was left behind: what was typed, and over which text. */
function draftOf(key) {
  return drafts.get(key) || { typed: {} };
}

/** Ask before the page is left while something typed is unsaved. */
function useLeaveGuard(dirty) {
  useEffect(() => {
    if (!dirty) return undefined;
    const ask = (event) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [dirty]);
}

/** Return {told, error, again}: what a change would do. `body` null asks nothing; a late answer is dropped. */
function useTrial(path, body) {
  const key = body === null ? null : JSON.stringify(body);
  const [round, setRound] = useState(0);
  const [trial, setTrial] = useState({ key: null, told: null, error: null });
  const asked = useRef(false);
  useEffect(() => {
    if (key === null) return undefined;
    let late = false;
    const ask = async () => {
      const found = { key, told: null, error: null };
      try {
        found.told = await api.post(path, { ...JSON.parse(key), dry_run: true });
      } catch (error) {
        found.error = error;
      }
      if (!late) setTrial(found);
    };
    const timer = setTimeout(ask, asked.current ? TRIAL_AFTER_MS : 0);
    asked.current = true;
    return () => {
      late = true;
      clearTimeout(timer);
    };
  }, [path, key, round]);
  const again = () => setRound((before) => before + 1);
  const { told, error } = trial.key === key ? trial : { told: null, error: null };
  return { told, error, again };
}

/** Return whether a trial said that there is nothing to do. */
function isNothing(told) {
  const counts = Object.values(told.counts || {});
  return counts.length > 0 && counts.every((count) => !count);
}

/**
 * The frame of every change: `children` is the form, if there is one. `body` is what would be sent, null while it is
 * incomplete; `verb` is what the button says. `onDone(answer)` follows the change, `onRefused(error)` a refusal; while
 * `settling` the form itself tells of one.
 */
function ChangeDialog({ title, path, body, verb, danger, dirty, onClose, onDone, onRefused, settling, children }) {
  const trial = useTrial(path, body);
  const [failure, setFailure] = useState(null);
  const [leaving, setLeaving] = useState(false);
  const [doing, setDoing] = useState(false);
  const busy = useRef(false);
  const refused = useRef(false); // so what is shown behind the dialog may be out of date
  const form = useRef(null);
  useEffect(() => focusFirst(form.current), []);
  useLeaveGuard(Boolean(dirty));
  const key = JSON.stringify(body);
  useEffect(() => setFailure(null), [key]);
  const problem = failure || trial.error;
  useEffect(() => {
    if (!problem) return;
    refused.current = true;
    if (onRefused) onRefused(problem);
  }, [problem]);

  const ready = trial.told !== null && !isNothing(trial.told) && !doing;
  const act = async (event) => {
    if (event) event.preventDefault();
    if (!ready || busy.current) return;
    busy.current = true;
    setDoing(true);
    setFailure(null);
    try {
      // Only what was shown is changed: where somebody else was faster, the server says so.
      const answer = await api.post(path, { ...body, seen: trial.told.seen });
      const told = trial.told.notes || [];
      onDone({ ...answer, notes: (answer.notes || []).filter((note) => !told.includes(note)) });
    } catch (error) {
      setFailure(error);
      if (error.status === 400) trial.again();
    } finally {
      busy.current = false;
      setDoing(false);
    }
  };
  const retry = () => {
    if (failure && ready) return act();
    setFailure(null); // where not even the trial went through, that comes first
    return trial.again();
  };
  const leave = (gone) => {
    onClose(gone);
    if (refused.current) setTimeout(changed);
  };
  const close = () => {
    if (busy.current) return;
    if (dirty && !leaving) setLeaving(true);
    else leave(false); // a draft stays
  };
  return h(
    Dialog,
    { title, onClose: close },
    h(
      "form",
      { className: "hpg-form", onSubmit: act, noValidate: true, ref: form },
      children,
      h(
        "div",
        { className: "hpg-trial", role: "status", "aria-live": "polite" },
        body !== null && !trial.told && !problem && h("p", { className: "hpg-muted" }, "Looking at what would happen …"),
        trial.told && (!failure || failure.status === 400) && h(TrialTold, { told: trial.told }),
      ),
      problem && !settling && h(Problem, { error: problem, again: retry }),
      leaving
        ? h(LeaveQuestion, { onStay: () => setLeaving(false), onLeave: () => leave(true) })
        : h(
            "div",
            { className: "hpg-actions" },
            h(Act, { onClick: close }, "Cancel"),
            h(
              Act,
              { type: "submit", tone: danger ? "danger" : "main", "aria-disabled": ready ? undefined : "true" },
              doing ? "One moment …" : verb,
            ),
          ),
    ),
  );
}

/** Begin where somebody types; without a field at Cancel, so that Enter alone changes nothing. */
function focusFirst(form) {
  const first = form.querySelector("textarea, input, select") || form.querySelector(".hpg-actions button");
  if (first) first.focus();
}

function LeaveQuestion({ onStay, onLeave }) {
  const asking = useRef(null);
  useEffect(() => {
    const [, stay] = asking.current.querySelectorAll("button");
    stay.focus();
  }, []);
  return h(
    "div",
    { className: "hpg-leave", role: "alert", ref: asking },
    h("p", null, "What you typed is not saved."),
    h(
      "div",
      { className: "hpg-actions" },
      h(Act, { tone: "danger", onClick: onLeave }, "Throw it away"),
      h(Act, { tone: "main", onClick: onStay }, "Keep typing"),
    ),
  );
}

function TrialTold({ told }) {
  return h(
    Fragment,
    null,
    h("p", { className: "hpg-says" }, told.says),
    (told.notes || []).map((note, at) => h("p", { key: at, className: "hpg-note" }, note)),
    h(TrialRows, { rows: told.rows || [], counts: told.counts || {} }),
  );
}

/** The rows that a change is about, also those that nobody named. */
function TrialRows({ rows, counts }) {
  if (!rows.length) return null;
  const whole = Math.max(rows.length, (counts.memories || 0) + (counts.turns || 0));
  const more = whole - Math.min(rows.length, ROWS_SHOWN);
  return h(
    "ul",
    { className: "hpg-trial-rows", "aria-label": "What it is about" },
    rows.slice(0, ROWS_SHOWN).map((row, at) =>
      h(
        "li",
        { key: row.ref || at },
        row.ref && h("span", { className: "hpg-ref" }, row.ref),
        " ",
        row.content && h(StoredText, { text: cutText(row.content), lines: 2 }),
        row.changes && h(ChangedFields, { changes: row.changes }),
      ),
    ),
    more > 0 && h("li", { className: "hpg-muted" }, `and ${more.toLocaleString()} more`),
  );
}

function ChangedFields({ changes }) {
  const shown = (name, value) => {
    if (value === null || value === false || value === undefined) return "none";
    return name === "expires_at" ? h(When, { at: value, exact: true }) : String(value);
  };
  return h(
    "dl",
    { className: "hpg-changes" },
    Object.entries(changes).map(([name, [was, now]]) =>
      h(
        "div",
        { key: name },
        h("dt", null, fieldLabel(name)),
        h("dd", null, h("del", null, shown(name, was)), " ", h("ins", null, shown(name, now))),
      ),
    ),
  );
}

function cutText(text) {
  return text.length > 300 ? `${text.slice(0, 300)} …` : text;
}

function fieldLabel(name) {
  const words = name === "when" ? "applies when" : name.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}

/** Return onDone for a dialog: closes it, and says what was done, what the trial did not know, and the way back. */
function doneWith(onClose, onChanged) {
  return (answer) => {
    onClose(true);
    toast([answer.says, ...answer.notes].join("; "), { undo: answer.undo });
    if (onChanged) onChanged(answer);
  };
}

// Changes of what a memory says: add, edit, replace.

const KINDS = ["fact", "preference", "constraint", "decision", "value", "question", "procedure", "reflection"];
const STATES = ["active", "closed", "superseded", "archived"];
const TARGETS = [
  ["memory", "Notes (MEMORY.md)"],
  ["user", "About the user (USER.md)"],
];
const STRUCTURE = ["kind", "subject", "scope", "state", "expires_at", "applies_when", "pinned"];

/** Return the fields of a memory's structure as a form holds them. */
function structureFields(structure) {
  const said = structure || {};
  const fields = { ...said, applies_when: said.applies_when || said.when };
  return Object.fromEntries(
    STRUCTURE.map((name) => [name, name === "pinned" ? Boolean(fields.pinned) : fields[name] || ""]),
  );
}

/** Return what of a form differs from `before`, as the server takes it: null for what was emptied. */
function changedFields(values, before) {
  const changed = STRUCTURE.filter((name) => values[name] !== before[name]);
  return Object.fromEntries(changed.map((name) => [name, values[name] === "" ? null : values[name]]));
}

function choicesOf(names, none) {
  return [["", none], ...names.map((name) => [name, name])];
}

/** The fields that say something of a memory besides its text. */
function StructureFields({ values, set, withState }) {
  const field = (name) => ({ value: values[name], onInput: (value) => set({ [name]: value }) });
  const [open] = useState(STRUCTURE.some((name) => values[name])); // later on it is up to who types
  return h(
    "details",
    { className: "hpg-group", open },
    h("summary", null, "Kind, subject and validity"),
    h(
      "div",
      { className: "hpg-fields" },
      h(SelectField, { label: "Kind", choices: choicesOf(KINDS, "none"), ...field("kind") }),
      h(TextField, { label: "Subject", help: "Of one subject, one memory is current: srv.prod", ...field("subject") }),
      h(TextField, { label: "Scope", help: "The project or task it belongs to", ...field("scope") }),
      withState && h(SelectField, { label: "State", choices: choicesOf(STATES, "none"), ...field("state") }),
      h(TextField, { label: "Expires", help: "2026-12-24, or 7d for in seven days", ...field("expires_at") }),
      h(TextField, { label: "Applies when", help: "The situation it is for", ...field("applies_when") }),
    ),
    h(CheckField, { label: "Pinned: stands before every session of the theme", ...field("pinned") }),
  );
}

function ContentField({ label, value, onInput }) {
  return h(TextField, { label, value, onInput, rows: 6, required: true });
}

function DraftNote({ shown, onForget }) {
  if (!shown) return null;
  return h(
    "p",
    { className: "hpg-note" },
    "What you typed here before was kept. ",
    h(Act, { tone: "quiet", onClick: onForget }, "Start anew"),
  );
}

function AddDialog({ theme, onClose, onChanged }) {
  const blank = { theme: theme || "", target: "memory", content: "", ...structureFields(null) };
  const key = draftKey(`add:${theme || ""}`);
  const kept = useRef(drafts.has(key));
  const [values, set, forget, dirty] = useDraft(key, blank);
  const structure = changedFields(values, blank);
  const complete = values.content.trim() && values.theme.trim();
  const body = complete
    ? { theme: values.theme.trim(), target: values.target, content: values.content, ...structure }
    : null;
  const close = leaveDraft(forget, onClose);
  return h(
    ChangeDialog,
    { title: "Add a memory", path: "/add", body, verb: "Add", dirty, onClose: close, onDone: doneWith(close, onChanged) },
    h(DraftNote, { shown: kept.current && dirty, onForget: forget }),
    h(ContentField, { label: "Memory", value: values.content, onInput: (content) => set({ content }) }),
    h(ThemeField, { value: values.theme, onInput: (name) => set({ theme: name }), required: true }),
    h(SelectField, {
      label: "Among",
      value: values.target,
      choices: TARGETS,
      onInput: (target) => set({ target }),
    }),
    h(StructureFields, { values, set }),
  );
}

/** Return onClose for a form: what was saved or thrown away (`true`) leaves no draft. */
function leaveDraft(forget, onClose) {
  return (gone) => {
    if (gone === true) forget();
    onClose();
  };
}

/** Edit a memory: its text where the whole of it is here, and what it says of itself. */
function EditDialog({ row, onClose, onChanged }) {
  return h(WholeRow, { row, title: `Edit ${row.ref}`, onClose }, (whole) =>
    h(EditForm, { row: whole, onClose, onChanged }),
  );
}

/** A dialog about a row of which a list has only the beginning: `children(row)` once the whole of it is here. */
function WholeRow({ row, title, onClose, children }) {
  const { data, error, slow, again } = useAnswer(row.cut || !row.structure ? "/row" : null, { ref: row.ref });
  const whole = row.cut || !row.structure ? data : row;
  const kept = useRef(null); // what the form began with; what others write meanwhile is no reason to lose what is typed
  if (whole && !kept.current) kept.current = whole;
  if (kept.current) return children(kept.current);
  return h(
    Dialog,
    { title, onClose },
    error ? h(Problem, { error, again }) : h(Loading, { when: slow }),
    h("div", { className: "hpg-actions" }, h(Act, { onClick: onClose }, "Cancel")),
  );
}

function EditForm({ row, onClose, onChanged }) {
  const before = useRef({ content: row.content, ...structureFields(row.structure) }).current;
  const key = draftKey(`edit:${row.ref}`);
  const kept = useRef(drafts.has(key));
  const left = useRef(draftOf(key)).current;
  // A text that was typed over an earlier one is compared with that: what others wrote meanwhile has not been seen.
  const [expected, setExpected] = useState("content" in left.typed ? left.began : row.content);
  const [values, set, forget, dirty] = useDraft(key, before, expected);
  const [theirs, setTheirs] = useState(null);
  const changes = changedFields(values, before);
  const said = values.content !== before.content || expected !== row.content;
  if (said) Object.assign(changes, { content: values.content, expected });
  const body = Object.keys(changes).length && values.content.trim() ? { ref: row.ref, ...changes } : null;
  const close = leaveDraft(forget, onClose);
  const startAnew = () => {
    forget();
    setExpected(row.content);
    setTheirs(null);
  };
  const look = async () => {
    const now = await api.get("/row", { ref: row.ref }).catch(() => null);
    if (now && now.state !== "removed" && now.content !== expected) setTheirs(now.content);
  };
  const settle = (content) => {
    setExpected(theirs);
    setTheirs(null);
    set({ content });
  };
  return h(
    ChangeDialog,
    {
      title: `Edit ${row.ref}`,
      path: "/edit",
      body,
      verb: "Save",
      dirty,
      onClose: close,
      onDone: doneWith(close, onChanged),
      onRefused: look,
      settling: theirs !== null,
    },
    h(DraftNote, { shown: kept.current && dirty, onForget: startAnew }),
    row.cut
      ? h("p", { className: "hpg-note" }, `It has ${row.chars.toLocaleString()} characters: too long to edit here.`)
      : h(ContentField, { label: "Memory", value: values.content, onInput: (content) => set({ content }) }),
    theirs !== null && h(BothTexts, { theirs, mine: values.content, onSettle: settle }),
    h(StructureFields, { values, set, withState: true }),
  );
}

/** What somebody else made of a memory meanwhile, beside what was typed here. */
function BothTexts({ theirs, mine, onSettle }) {
  return h(
    "div",
    { className: "hpg-conflict", role: "alert" },
    h("p", null, "It was changed by somebody else while you typed. It says now:"),
    h("blockquote", null, h(StoredText, { text: theirs, lines: 6 })),
    h("p", null, "You typed:"),
    h("blockquote", null, h(StoredText, { text: mine, lines: 6 })),
    h(
      "div",
      { className: "hpg-actions" },
      h(Act, { onClick: () => onSettle(theirs) }, "Take what it says now"),
      h(Act, { onClick: () => onSettle(mine) }, "Go on with mine"),
    ),
  );
}

/** Write a new memory that takes the place of an old one. */
function ReplaceDialog({ row, onClose, onChanged }) {
  return h(WholeRow, { row, title: `Replace ${row.ref}`, onClose }, (whole) =>
    h(ReplaceForm, { row: whole, onClose, onChanged }),
  );
}

function ReplaceForm({ row, onClose, onChanged }) {
  const key = draftKey(`replace:${row.ref}`);
  const kept = useRef(drafts.has(key));
  const [values, set, forget, dirty] = useDraft(key, { content: "" });
  const [now, setNow] = useState(row);
  const expected = now.cut ? undefined : now.content;
  const body = values.content.trim() ? { ref: row.ref, content: values.content, expected } : null;
  const close = leaveDraft(forget, onClose);
  const look = async () => {
    const found = await api.get("/row", { ref: row.ref }).catch(() => null);
    if (found && found.content) setNow(found);
  };
  return h(
    ChangeDialog,
    {
      title: `Replace ${row.ref}`,
      path: "/replace",
      body,
      verb: "Replace",
      dirty,
      onClose: close,
      onDone: doneWith(close, onChanged),
      onRefused: look,
    },
    h(DraftNote, { shown: kept.current && dirty, onForget: forget }),
    now.content === row.content
      ? h("p", { className: "hpg-muted" }, "It says now:")
      : h("p", { className: "hpg-note", role: "alert" }, "It was changed by somebody else while you typed. It says now:"),
    h("blockquote", null, h(StoredText, { text: now.content, lines: 6 })),
    h(ContentField, { label: "What is true instead", value: values.content, onInput: (content) => set({ content }) }),
  );
}

// Changes of whole rows: forget, restore, pin, archive, and what the mirror holds.

/** Forget rows for good; the trial says what else would go. */
function ForgetDialog({ refs, theme, onClose, onChanged }) {
  return h(ChangeDialog, {
    title: refs.length === 1 ? `Forget ${refs[0]}` : `Forget ${refs.length} rows`,
    path: "/forget",
    body: theme ? { refs, theme } : { refs },
    verb: "Forget",
    danger: true,
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

function ForgetSessionDialog({ theme, session, onClose, onChanged }) {
  return h(
    ChangeDialog,
    {
      title: "Forget a session",
      path: "/forget-session",
      body: { theme, session },
      verb: "Forget the session",
      danger: true,
      onClose,
      onDone: doneWith(onClose, onChanged),
    },
    h("p", null, "Session ", h(StoredText, { text: session, inline: true }), " in ", h(ThemeName, { theme, plain: true })),
  );
}

function RestoreDialog({ refs, onClose, onChanged }) {
  return h(ChangeDialog, {
    title: refs.length === 1 ? `Restore ${refs[0]}` : `Restore ${refs.length} memories`,
    path: "/restore",
    body: { refs },
    verb: "Restore",
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

const DECISIONS = {
  confirm: { title: "Remove what the file lost", verb: "Remove", danger: true },
  dismiss: { title: "Keep what the file lost", verb: "Keep", danger: false },
};

function DecisionDialog({ decision, refs, onClose, onChanged }) {
  const { title, verb, danger } = DECISIONS[decision];
  return h(ChangeDialog, {
    title,
    path: "/removals",
    body: { decision, refs },
    verb,
    danger,
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

/** Pin, unpin, archive or reopen a memory: one field of it. */
function FieldDialog({ row, title, verb, changes, onClose, onChanged }) {
  return h(ChangeDialog, {
    title: `${title} ${row.ref}`,
    path: "/edit",
    body: { ref: row.ref, ...changes },
    verb,
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

const PIN = { title: "Pin", verb: "Pin", changes: { pinned: true } };
const UNPIN = { title: "Unpin", verb: "Unpin", changes: { pinned: false } };
const ARCHIVE = { title: "Archive", verb: "Archive", changes: { state: "archived" } };
const REOPEN = { title: "Make current again:", verb: "Make current", changes: { state: "active" } };

/** Return what can be done with a row: [{name, label, danger}]. */
function actionsFor(row) {
  const forget = { name: "forget", label: "Forget …", danger: true };
  if (row.store !== "memories") return [forget];
  const { pinned, state } = row.structure || {};
  const over = state && state !== "active";
  return [
    { name: "edit", label: "Edit …" },
    { name: "replace", label: "Replace …" },
    pinned ? { name: "unpin", label: "Unpin …" } : { name: "pin", label: "Pin …" },
    over ? { name: "reopen", label: "Make current …" } : { name: "archive", label: "Archive …" },
    forget,
  ];
}

const FIELD_CHANGES = { pin: PIN, unpin: UNPIN, archive: ARCHIVE, reopen: REOPEN };

/** The dialog of an action on a row; nothing without one. */
function RowDialog({ action, row, onClose, onChanged }) {
  if (action === "edit") return h(EditDialog, { row, onClose, onChanged });
  if (action === "replace") return h(ReplaceDialog, { row, onClose, onChanged });
  if (action === "forget") return h(ForgetDialog, { refs: [row.ref], onClose, onChanged });
  if (FIELD_CHANGES[action]) return h(FieldDialog, { row, ...FIELD_CHANGES[action], onClose, onChanged });
  return null;
}

function focusTitleIfLost() {
  const title = document.getElementById("hpg-title");
  if (title && (document.activeElement === document.body || !document.activeElement)) title.focus({ preventScroll: true });
}

/** The actions of one row: a menu in a list, buttons side by side with `open`. */
function RowActions({ row, open, onChanged }) {
  const [action, setAction] = useState(null);
  const acted = useRef(false);
  // Where the row goes away with its buttons, the focus goes to the top of the view instead of nowhere.
  useEffect(() => () => acted.current && setTimeout(focusTitleIfLost), []);
  const done = (answer) => {
    acted.current = true;
    if (onChanged) onChanged(answer);
  };
  const dialog = action && h(RowDialog, { action, row, onClose: () => setAction(null), onChanged: done });
  const actions = actionsFor(row).map((each) => ({ ...each, onClick: () => setAction(each.name) }));
  if (!open) return h(Fragment, null, h(MenuButton, { label: `Change ${row.ref}`, items: actions }), dialog);
  return h(
    "div",
    { className: "hpg-actions" },
    actions.map(({ name, label, danger, onClick }) =>
      h(Act, { key: name, tone: danger ? "danger" : "plain", onClick }, label),
    ),
    dialog,
  );
}

/** A button that opens a dialog: `dialog` is its component, with the other properties. */
function DialogButton({ label, dialog, tone, ...props }) {
  const [open, setOpen] = useState(false);
  return h(
    Fragment,
    null,
    h(Act, { tone, onClick: () => setOpen(true) }, label),
    open && h(dialog, { ...props, onClose: () => setOpen(false) }),
  );
}

function AddButton({ theme, onChanged }) {
  return h(DialogButton, { label: "Add a memory …", tone: "main", dialog: AddDialog, theme, onChanged });
}

function ForgetSessionButton({ theme, session, onChanged }) {
  return h(DialogButton, {
    label: "Forget the session …",
    tone: "danger",
    dialog: ForgetSessionDialog,
    theme,
    session,
    onChanged,
  });
}

// What happened to memories, with the differences in their texts.

const ACTIONS = ["added", "replaced", "moved", "removed", "superseded", "closed", "archived", "reopened"];

/** Events, the newest first; `whose` says of which memory each is. A text that is `known` is not told again. */
function Events({ events, whose, known }) {
  return h(
    "ol",
    { className: "hpg-events" },
    events.map((event, at) => h(EventItem, { key: `${event.ref} ${event.at} ${at}`, event, whose, known })),
  );
}

function EventItem({ event, whose, known }) {
  return h(
    "li",
    { className: "hpg-event" },
    h(
      "div",
      { className: "hpg-row-head" },
      h("strong", null, event.action),
      whose && h(Link, { view: "row", params: { ref: event.ref }, className: "hpg-ref" }, event.ref),
      whose && event.theme && h(ThemeName, { theme: event.theme, private: event.private }),
      h(When, { at: event.at }),
      event.by && h("span", { className: "hpg-muted" }, "by ", h(StoredText, { text: event.by, inline: true })),
    ),
    h(EventText, { event, known }),
  );
}

function EventText({ event, known }) {
  const { diff, content, old_theme: from } = event;
  if (diff) return h(Diff, { parts: diff });
  const told = content && !(known || "").startsWith(content);
  return h(
    Fragment,
    null,
    from && h("p", { className: "hpg-muted" }, "from the theme ", h(ThemeName, { theme: from })),
    told && h(StoredText, { text: content, lines: 3 }),
  );
}

/** A text with what was taken out and what was put in; said in words too, for those who do not see the marks. */
function Diff({ parts }) {
  return h(
    "p",
    { className: "hpg-diff", dir: "auto" },
    parts.map(([op, text], at) => h(DiffPart, { key: at, op, text })),
  );
}

function DiffPart({ op, text }) {
  if (op === "=") return h(StoredText, { text, inline: true });
  const [tag, before, after] = op === "-" ? ["del", "[removed: ", "]"] : ["ins", "[added: ", "]"];
  return h(
    tag,
    null,
    h("span", { className: "hpg-sr" }, before),
    h(StoredText, { text, inline: true }),
    h("span", { className: "hpg-sr" }, after),
  );
}

// How the memory is doing, live.
const OVERVIEW_EVERY_S = 4;
const GROWTH = [
  { key: "turns", label: "Turns" },
  { key: "memories", label: "Memories" },
];

function OverviewView() {
  const answer = useAnswer("/overview", {}, { every_s: OVERVIEW_EVERY_S });
  return h(Page, { title: "Overview", actions: h(AddButton, {}) }, h(Answered, { answer }, (data) => h(OverviewTold, { data })));
}

function OverviewTold({ data }) {
  const { health, totals, growth, themes } = data;
  if (!data.model) return h(Fragment, null, h(Health, { health, version: data.version }), h(Loading, { when: true }));
  const empty = totals.memories === 0 && totals.turns === 0;
  return h(
    Fragment,
    null,
    h(Health, { health, version: data.version }),
    empty && h(NothingYet, null),
    h(Totals, { totals, about: data.about || [] }),
    h("div", { className: "hpg-columns" }, h(Waiting, { waiting: data.waiting }), h(Recall, { recall: data.recall }), h(Model, { model: data.model })),
    !empty &&
      (growth.length > 0 || data.counting) &&
      h(
        "div",
        { className: "hpg-columns hpg-columns-wide" },
        h(Panel, { title: "The last 30 days (UTC)" }, growth.length ? h(Bars, { rows: growth, series: GROWTH, label: "Turns and memories a day" }) : h(StillCounting, null)),
        h(Panel, { title: "Largest themes", actions: h(Link, { view: "themes" }, "All themes") }, themes.length ? h(LargestThemes, { themes }) : h(StillCounting, null)),
      ),
    data.processes.length > 0 && h(Panel, { title: "Who uses it now" }, h(Processes, { processes: data.processes })),
  );
}

function StillCounting() {
  return h("p", { className: "hpg-muted" }, "Being counted …");
}

function Health({ health, version }) {
  const bad = health.ok === false;
  return h(
    "div",
    { className: cx("hpg-health", bad && "hpg-health-bad", health.ok === null && "hpg-health-unknown") },
    h(
      "div",
      { className: "hpg-health-line", role: "status" },
      h("span", { className: "hpg-dot", "aria-hidden": "true" }),
      h("strong", null, bad ? "Something needs you" : sentence(health.line)),
      h("span", { className: "hpg-muted hpg-health-more" }, `Version ${version}`, health.checked_at && h(Fragment, null, ", checked ", h(When, { at: health.checked_at }))),
    ),
    health.problems.length > 0 &&
      h(
        "ul",
        { className: "hpg-problems" },
        health.problems.map(({ name, says, fix }) => h("li", { key: name }, h("strong", null, name), " ", h(StoredText, { text: says, inline: true }), fix && h("p", { className: "hpg-fix" }, h(StoredText, { text: fix, inline: true })))),
      ),
  );
}

function NothingYet() {
  return h(
    Empty,
    { title: "Nothing is remembered yet" },
    h("p", null, "Talk to an agent of this profile: what is said is kept from the first message on. Or add a memory by hand."),
    h(AddButton, {}),
  );
}

function Totals({ totals, about }) {
  const size = totals.database_bytes;
  const count = (name) => `${about.includes(name) ? "about " : ""}${numberText(totals[name])}`;
  return h(
    "dl",
    { className: "hpg-stats" },
    h(Stat, { label: "Memories", value: count("memories") }),
    h(Stat, { label: "Turns", value: count("turns") }),
    h(Stat, { label: "Themes", value: h(Link, { view: "themes" }, count("themes")) }),
    h(Stat, { label: "Database", value: typeof size === "number" ? bytesText(size) : "–" }),
  );
}

function Waiting({ waiting }) {
  const { writes, rejected, pending_vectors: pending, held_removals: held } = waiting;
  return h(
    Panel,
    { title: "Waiting" },
    h(Figures, {
      rows: [
        ["Writes", numberText(writes), "Written down here, not yet in the database"],
        ["Rejected writes", numberText(rejected), "See: hermes-pgvector rejected", rejected > 0],
        ["Rows without a vector", numberText(pending), "Found by their words until they have one"],
        ["Held removals", held > 0 ? h(Link, { view: "removals" }, numberText(held)) : numberText(held), "Gone from a file, not yet from the memory", held > 0],
      ],
    }),
  );
}

function Recall({ recall }) {
  if (!recall) return h(Panel, { title: "Recall" }, h("p", { className: "hpg-muted" }, "Not known at the moment."));
  const { asked: times, found, hit_rate: rate } = recall;
  return h(
    Panel,
    { title: "Recall" },
    times === 0
      ? h("p", { className: "hpg-muted" }, "No agent has asked since it was started.")
      : h(Figures, {
          rows: [
            ["Asked", numberText(times)],
            ["Found something", rate === null ? numberText(found) : `${Math.round(rate * 100)} %`, countText(found, "recall")],
            ["Half were faster than", durationText(recall.p50_ms)],
            ["19 of 20 were faster than", durationText(recall.p95_ms)],
          ],
        }),
  );
}

function Model({ model }) {
  if (!model) return h(Panel, { title: "Search" }, h("p", { className: "hpg-muted" }, "Not known at the moment."));
  const byMeaning = model.mode === "hybrid";
  return h(
    Panel,
    { title: "Search" },
    h(Figures, {
      rows: [
        ["Finds by", byMeaning ? "words and meaning" : "words only", null, !byMeaning],
        ["Model", model.name ? h(StoredText, { text: model.name, inline: true }) : "none"],
        ["Dimensions", numberText(model.dims)],
        ["Reranker", model.reranker ? h(StoredText, { text: model.reranker, inline: true }) : "none"],
      ],
    }),
    !byMeaning && model.why && h("p", { className: "hpg-note" }, sentence(model.why)),
  );
}

/** Names with their values at the other end; `rows` are [name, value, hint, notable]. */
function Figures({ rows }) {
  return h(
    "dl",
    { className: "hpg-figures" },
    rows.map(([name, value, hint, notable]) => h("div", { key: name, title: hint || undefined }, h("dt", null, name), h("dd", { className: cx(notable && "hpg-notable") }, value))),
  );
}

function LargestThemes({ themes }) {
  const most = Math.max(1, ...themes.map(({ memories, turns }) => memories + turns));
  return h(
    "ol",
    { className: "hpg-largest" },
    themes.map((each) =>
      h(
        "li",
        { key: each.theme },
        h("div", { className: "hpg-largest-line" }, h(ThemeName, each), h("span", { className: "hpg-muted" }, `${countText(each.memories, "memory", "memories")}, ${countText(each.turns, "turn")}`)),
        h("div", { className: "hpg-share", "aria-hidden": "true" }, h("div", { style: { width: `${Math.max(1, ((each.memories + each.turns) / most) * 100)}%` } })),
      ),
    ),
  );
}

function Processes({ processes }) {
  const columns = [
    { label: "Process", cell: (each) => h(StoredText, { text: each.name, inline: true }) },
    { label: "Number", cell: (each) => each.pid, number: true },
    { label: "State", cell: (each) => (each.living ? "runs" : "has ended") },
    { label: "Writes waiting", cell: (each) => numberText(each.waiting), number: true },
  ];
  return h(Table, { label: "Processes", columns, rows: processes, keyOf: (each) => `${each.name}#${each.pid}` });
}

// Search in what this operator may see. The address holds the question and every filter.

const SEARCH_FILTERS = ["theme", "store", "role", "target", "type", "session", "since", "until", "rerank"];
const STORE_CHOICES = [
  ["", "Everything"],
  ["memories", "Memories"],
  ["turns", "Turns"],
];
const ROLE_CHOICES = [
  ["", "Any side"],
  ["user", "The user"],
  ["assistant", "The assistant"],
  ["tool", "A tool"],
];
const TARGET_CHOICES = [["", "Any"], ...TARGETS];
const TYPE_CHOICES = [
  ["", "Any"],
  ["facts", "Facts"],
  ["episodes", "Episodes (turns)"],
  ["procedures", "Procedures"],
  ["reflections", "Reflections"],
];
const RERANK_CHOICES = [
  ["", "As set up"],
  ["0", "Leave the order to the search"],
];

function SearchView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "Search" },
    h(SearchForm, { params }),
    (params.q || "").trim() ? h(SearchAnswer, { params }) : h(SearchHint),
  );
}

function SearchHint() {
  return h(
    Empty,
    { title: "Ask in plain words" },
    h("p", null, "Found are memories and turns that mean the same or use the same words, over every theme."),
  );
}

/** The question and its filters; choices take effect at once, texts with Enter or the button. */
function SearchForm({ params }) {
  const { asked, submit, text, choice } = useForm("search", ["q", ...SEARCH_FILTERS], params);
  const filter = (name, choices) => choice(name, choices, { wait: !asked.q.trim() });
  const chosen = SEARCH_FILTERS.filter((name) => params[name]).length;
  const [open] = useState(chosen > 0);
  const form = useRef(null);
  useEffect(() => {
    if (!params.q) form.current.querySelector("[data-hpg-search]").focus();
  }, []);
  return h(
    "form",
    { role: "search", className: "hpg-form", onSubmit: submit, ref: form },
    h(
      "div",
      { className: "hpg-search-line" },
      h(TextField, { label: "Question", type: "search", name: "q", "data-hpg-search": "", ...text("q") }),
      h(Act, { type: "submit", tone: "main" }, "Search"),
    ),
    h(
      "details",
      { className: "hpg-group", open },
      h("summary", null, chosen ? `Filters (${chosen} set)` : "Filters"),
      h(
        "div",
        { className: "hpg-fields" },
        h(ThemeField, { help: "Empty: every theme", ...text("theme") }),
        h(SelectField, { label: "Look among", ...filter("store", STORE_CHOICES) }),
        h(SelectField, { label: "Who said it (turns)", ...filter("role", ROLE_CHOICES) }),
        h(SelectField, { label: "About (memories)", ...filter("target", TARGET_CHOICES) }),
        h(SelectField, { label: "Kind", ...filter("type", TYPE_CHOICES) }),
        h(TextField, { label: "Since", help: "2026-05-03, 2026-05 or 7d", ...text("since") }),
        h(TextField, { label: "Until", help: "2026-05-03, 2026-05 or 7d", ...text("until") }),
        h(TextField, { label: "Session", ...text("session") }),
        h(SelectField, { label: "Reranker", ...filter("rerank", RERANK_CHOICES) }),
      ),
      chosen > 0 &&
        h(Link, { view: "search", params: { q: params.q } }, "Search without these filters"),
    ),
  );
}

/** Return what a search's address holds, without the page. */
function searchParams(params) {
  return filledIn(Object.fromEntries(["q", ...SEARCH_FILTERS].map((name) => [name, params[name] || ""])));
}

function SearchAnswer({ params }) {
  const limit = 20;
  const offset = Number(params.offset) || 0;
  const question = { ...searchParams(params), limit, offset };
  if (!params.theme) question.scope = "all";
  const answer = useAnswer("/search", question);
  const pager = { offset, limit, view: "search", params: searchParams(params) };
  return h(Answered, { answer }, (data) => h(SearchTold, { data, pager }));
}

function SearchTold({ data, pager }) {
  return h(
    "section",
    { className: "hpg-section", "aria-label": "Results" },
    h("p", { className: "hpg-muted", role: "status" }, searchSummary(data)),
    data.mode === "lexical" &&
      h("p", { className: "hpg-note" }, `Searched by words only${data.why_by_words ? `: ${data.why_by_words}` : ""}`),
    data.results.length
      ? h("ol", { className: "hpg-results", start: pager.offset + 1 }, data.results.map((row) => h(Found, { key: row.ref, row })))
      : h(
          Empty,
          { title: "Nothing was found" },
          h("p", null, "Ask with other words, or leave filters out."),
        ),
    h(Pager, { ...pager, count: data.results.length, more: data.more }),
  );
}

function searchSummary({ count, results, more, took_ms, reranked }) {
  const found = count ?? results.length;
  const many = found === 1 ? "1 result" : `${found.toLocaleString()}${more ? " or more" : ""} results`;
  return `${many} in ${durationText(took_ms)}${reranked ? ", ordered by the reranker" : ""}`;
}

/** One result: what it says, why it was found, and what was said around it. */
function Found({ row }) {
  const around = row.around || [];
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "article",
      { "aria-label": row.ref },
      h(RowHead, { row }, h(RowActions, { row })),
      h(StoredText, { text: row.content, marks: row.marks, lines: 8 }),
      row.cut && h("p", { className: "hpg-muted" }, `A part of ${row.chars.toLocaleString()} characters`),
      h(
        "details",
        null,
        h("summary", null, (row.why && row.why.said) || "Why it was found"),
        h(WhyFound, { row }),
      ),
      around.length > 0 &&
        h(
          "details",
          null,
          h("summary", null, around.length === 1 ? "1 turn around it" : `${around.length} turns around it`),
          h("ol", { className: "hpg-turns" }, around.map((turn) => h(TurnAround, { key: turn.ref, turn }))),
        ),
    ),
  );
}

/** What a row is, in one line: its number as the way to it, where it stands, and since when. */
function RowHead({ row, children }) {
  const { kind: said, subject, state, pinned } = row.structure || {};
  return h(
    "div",
    { className: "hpg-row-head" },
    h(Link, { view: "row", params: { ref: row.ref }, className: "hpg-ref" }, row.ref),
    h(Tag, null, row.store === "turns" ? row.kind : targetLabel(row.kind)),
    said && h(Tag, null, said),
    subject && h(Tag, null, h(StoredText, { text: subject, inline: true })),
    pinned && h(Tag, null, "pinned"),
    state && state !== "active" && h(Tag, { tone: "outline" }, state),
    row.pending && h(Tag, { tone: "outline" }, "waits for its vector"),
    row.theme && h(ThemeName, { theme: row.theme, private: row.private }),
    row.at && h(When, { at: row.at }),
    children,
  );
}

function targetLabel(target) {
  return target === "user" ? "about the user" : "note";
}

function WhyFound({ row }) {
  const why = row.why || {};
  const share = (value) => `${Math.round(value * 100)} %`;
  const rank = (value) => (value === null || value === undefined ? null : `rank ${value.toLocaleString()}`);
  const told = [
    ["By words", rank(why.words_rank)],
    ["Words of the question in it", why.words_coverage ? share(why.words_coverage) : null],
    ["By meaning", rank(why.meaning_rank)],
    ["Similarity", number(row.similarity)],
    ["Beside a match", why.beside_a_match ? "yes: the turn next to it was found, or it began a session on the day named" : null],
    ["By the reranker", rank(why.rerank_rank)],
    ["The reranker's score", number(why.rerank_score)],
    ["Score", number(why.score)],
  ].filter(([, value]) => value !== null);
  return h(Pairs, { pairs: told });
}

function number(value) {
  return value === null || value === undefined ? null : value.toFixed(3);
}

/** Names and values, one below the other. */
function Pairs({ pairs }) {
  return h(
    "dl",
    { className: "hpg-pairs" },
    pairs.map(([name, value], at) => h("div", { key: at }, h("dt", null, name), h("dd", null, value))),
  );
}

function TurnAround({ turn }) {
  return h(
    "li",
    null,
    h(
      "div",
      { className: "hpg-row-head" },
      h(Link, { view: "row", params: { ref: turn.ref }, className: "hpg-ref" }, turn.ref),
      h(Tag, null, turn.role),
      turn.at && h(When, { at: turn.at }),
    ),
    h(StoredText, { text: turn.content, lines: 6 }),
  );
}

// As the agent would see it: what stands before a message of a theme.

function AgentView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "As the agent would see it" },
    h("p", { className: "hpg-muted" }, "What an agent gets from its memory together with this message, to the letter."),
    h(AgentForm, { params }),
    params.message && params.theme
      ? h(AgentAnswer, { params })
      : h(Empty, { title: "Which message, in which theme?" }, h("p", null, "No agent hears of it, and nothing is stored.")),
  );
}

function AgentForm({ params }) {
  const { asked, text } = useForm("agent", ["message", "theme", "session"], params);
  const ready = asked.message.trim() && asked.theme.trim();
  const submit = (event) => {
    event.preventDefault();
    if (ready) go("agent", { ...filledIn(asked), message: asked.message });
  };
  return h(
    "form",
    { className: "hpg-form", onSubmit: submit },
    h(TextField, { label: "Message", rows: 3, required: true, ...text("message") }),
    h(
      "div",
      { className: "hpg-fields" },
      h(ThemeField, { required: true, ...text("theme") }),
      h(TextField, { label: "Session", help: "Empty: a new one", ...text("session") }),
    ),
    h(
      "div",
      { className: "hpg-actions" },
      h(Act, { type: "submit", tone: "main", "aria-disabled": ready ? undefined : "true" }, "Show"),
    ),
  );
}

/** Return from which similarity on a row is shown: of turns, of which there are many, it is another one. */
function agentBar({ bar, bar_of_turns: ofTurns }) {
  return ofTurns === bar ? number(bar) : `${number(bar)}, of turns ${number(ofTurns)}`;
}

function AgentAnswer({ params }) {
  const asked = { message: params.message, theme: params.theme, session: params.session };
  const answer = useAnswer("/agent-view", asked);
  return h(Answered, { answer }, (data) => h(AgentTold, { data }));
}

function AgentTold({ data }) {
  return h(
    Fragment,
    null,
    h("p", { role: "status", className: "hpg-muted" }, agentSummary(data)),
    data.silent && h("p", { className: "hpg-note" }, `Nothing is shown: ${data.silent}`),
    data.block && h(AgentBlock, { block: data.block, tokens: data.tokens, budget: data.budget_tokens }),
    h(AgentLines, { title: "In it", lines: data.lines || [], empty: "No row is in it." }),
    h(AgentLines, {
      title: typeof data.bar === "number" ? `Left out (the bar is ${agentBar(data)})` : "Left out",
      lines: data.below || [],
      empty: "Nothing was left out.",
    }),
  );
}

function agentSummary({ tokens, budget_tokens: budget, took_ms: took, mode, why_by_words: why, lines }) {
  const rows = (lines || []).length;
  return [
    `${(tokens || 0).toLocaleString()} of ${(budget || 0).toLocaleString()} tokens`,
    rows === 1 ? "1 row" : `${rows} rows`,
    mode === "hybrid" && "searched by words and meaning",
    mode === "lexical" && `searched by words only${why ? `: ${why}` : ""}`,
    durationText(took),
  ]
    .filter(Boolean)
    .join(" · ");
}

function AgentBlock({ block, tokens, budget }) {
  return h(
    "section",
    { "aria-label": "The block" },
    budget
      ? h("meter", { min: 0, max: budget, value: tokens, className: "hpg-meter", "aria-label": "Tokens of the budget" })
      : null,
    h("pre", { className: "hpg-block", tabIndex: 0, "aria-label": "What the agent gets" }, h(StoredText, { text: block })),
  );
}

function AgentLines({ title, lines, empty }) {
  return h(
    "section",
    { className: "hpg-section", "aria-label": title },
    h("h3", null, title),
    lines.length ? h("ol", { className: "hpg-results" }, lines.map((line) => h(AgentLine, { key: line.ref, line }))) : null,
    !lines.length && h("p", { className: "hpg-muted" }, empty),
  );
}

function AgentLine({ line }) {
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "div",
      { className: "hpg-row-head" },
      h(Link, { view: "row", params: { ref: line.ref }, className: "hpg-ref" }, line.ref),
      number(line.similarity) && h(Tag, null, `similarity ${number(line.similarity)}`),
      line.why && h("span", { className: "hpg-muted" }, line.why),
    ),
    h(StoredText, { text: line.content, lines: 4 }),
  );
}

// All themes, by their names.
const THEMES_A_PAGE = 50;
const COUNTED_MOST = 50000; // the server counts no further

function ThemesView() {
  const { params } = useAddress();
  const offset = Number(params.offset) || 0;
  const answer = useAnswer("/themes", { search: params.search, limit: THEMES_A_PAGE, offset });
  return h(
    Page,
    { title: "Themes" },
    h(ThemeSearch, { search: params.search || "" }),
    h(Answered, { answer }, ({ rows, total, more }) =>
      rows.length
        ? h(
            Fragment,
            null,
            h("p", { className: "hpg-muted", role: "status" }, countText(total, "theme")),
            h(ThemeTable, { rows }),
            h(Pager, { offset, limit: THEMES_A_PAGE, count: rows.length, more, total, view: "themes", params: { search: params.search } }),
          )
        : h(NoThemes, { search: params.search }),
    ),
  );
}

function ThemeSearch({ search }) {
  const [text, setText] = useState(search);
  const settled = useSettled(text, 250);
  useEffect(() => {
    if (settled !== search) go("themes", { search: settled }, { replace: true });
  }, [settled]);
  return h("search", { className: "hpg-narrow" }, h(TextField, { label: "Themes with this in their name", type: "search", value: text, onInput: setText, "data-hpg-search": "" }));
}

function NoThemes({ search }) {
  if (search) return h(Empty, { title: "No theme has that in its name" }, h("p", null, h(Link, { view: "themes" }, "Show all themes")));
  return h(
    Empty,
    { title: "There are no themes yet" },
    h("p", null, "A theme is what one agent, chat or project remembers. The first one is made by the first message to an agent, or by a memory that you add."),
    h(AddButton, {}),
  );
}

function upTo(count) {
  return count >= COUNTED_MOST ? `${numberText(COUNTED_MOST)}+` : numberText(count);
}

function ThemeTable({ rows }) {
  const columns = [
    { label: "Theme", cell: (each) => h(ThemeName, each), wide: true },
    { label: "Memories", cell: (each) => upTo(each.memories), number: true },
    { label: "Turns", cell: (each) => upTo(each.turns), number: true },
    { label: "Last written", cell: (each) => h(When, { at: each.last_at }) },
  ];
  return h(Table, { label: "Themes", columns, rows, keyOf: (each) => each.theme });
}

// One theme: what it holds, when that was written, and by whom.
const ROWS_A_PAGE = 50;
const TABS = {
  memories: { label: "Memories", view: ThemeMemories },
  turns: { label: "Turns", view: ThemeTurns },
  sessions: { label: "Sessions", view: ThemeSessions },
  timeline: { label: "Timeline", view: ThemeTimeline },
  writers: { label: "Who wrote", view: ThemeWriters },
};
const PENDING_CHOICES = [
  ["", "Any"],
  ["1", "Still without one"],
];

function ThemeView() {
  const { params } = useAddress();
  const { theme } = params;
  if (!theme) return h(Page, { title: "Theme" }, h(Empty, { title: "Which theme?" }, h("p", null, h(Link, { view: "themes" }, "Choose one from the list"))));
  return h(OneTheme, { key: theme, theme, params });
}

function OneTheme({ theme, params }) {
  const answer = useAnswer("/theme", { theme });
  const { data } = answer;
  const tab = Object.hasOwn(TABS, params.tab || "") ? params.tab : "memories";
  const title = h(ThemeName, { theme, private: data && data.private, plain: true });
  return h(
    Page,
    { title, actions: h(Fragment, null, h(Link, { view: "search", params: { theme } }, "Search in it"), h(AddButton, { theme })) },
    h(Answered, { answer }, (told) => h(ThemeFigures, { told })),
    h(ThemeTabs, { theme, tab }),
    h(TABS[tab].view, { key: tab, theme, params, told: data }),
  );
}

function ThemeFigures({ told }) {
  return h(
    "dl",
    { className: "hpg-stats" },
    h(Stat, { label: "Memories", value: numberText(told.memories) }),
    h(Stat, { label: "Turns", value: numberText(told.turns) }),
    h(Stat, { label: "Sessions", value: told.sessions === null ? "…" : numberText(told.sessions) }),
    h(Stat, { label: "First written", value: h(When, { at: told.first_at }) }),
    h(Stat, { label: "Last written", value: h(When, { at: told.last_at }) }),
  );
}

function ThemeTabs({ theme, tab }) {
  return h(
    "nav",
    { className: "hpg-tabs", "aria-label": "Of this theme" },
    Object.entries(TABS).map(([name, { label }]) => h(Link, { key: name, view: "theme", params: { theme, tab: name }, "aria-current": name === tab ? "page" : undefined }, label)),
  );
}

/** A page of what `path` answers for a theme: `children(rows)`, `empty` where there is nothing. */
function ThemePage({ path, theme, tab, params, names, empty, children }) {
  const offset = Number(params.offset) || 0;
  const asked = Object.fromEntries(names.filter((name) => params[name]).map((name) => [name, params[name]]));
  const answer = useAnswer(path, { theme, ...asked, limit: ROWS_A_PAGE, offset });
  const filtered = Object.keys(asked).length > 0;
  const all = { view: "theme", params: { theme, tab } };
  return h(Answered, { answer }, ({ rows, more }) =>
    rows.length
      ? h(
          Fragment,
          null,
          children(rows),
          h(Pager, { offset, limit: ROWS_A_PAGE, count: rows.length, more, view: "theme", params: { theme, tab, ...asked } }),
        )
      : filtered || offset
        ? h(Empty, { title: "Nothing fits" }, h("p", null, h(Link, { ...all }, "Show all of them")))
        : empty,
  );
}

function ThemeMemories({ theme, params, told }) {
  const structured = told && told.facts;
  const fields = [
    ["target", "About", TARGET_CHOICES],
    ...(structured ? [["kind", "Kind", choicesOf(KINDS, "Any")], ["state", "State", choicesOf(STATES, "Any")]] : []),
    ["pending", "Vector", PENDING_CHOICES],
    ["since", "From", "date"],
    ["until", "Until", "date"],
  ];
  const empty = h(Empty, { title: "No memories in this theme" }, h("p", null, "Its agent notes what matters with the tool remember. You can add one yourself."), h(AddButton, { theme }));
  return h(
    Fragment,
    null,
    h(Filters, { view: "theme", params: { ...params, tab: "memories" }, fields }),
    h(ThemePage, { path: "/memories", theme, tab: "memories", params, names: fields.map(([name]) => name), empty }, (rows) => h(StoredRows, { rows, label: "Memories" })),
  );
}

function ThemeTurns({ theme, params }) {
  const fields = [
    ["role", "Said by", ROLE_CHOICES],
    ["since", "From", "date"],
    ["until", "Until", "date"],
  ];
  const empty = h(Empty, { title: "No turns in this theme" }, h("p", null, "They come with the first message to its agent."));
  return h(
    Fragment,
    null,
    h(Filters, { view: "theme", params: { ...params, tab: "turns" }, fields }),
    h(ThemePage, { path: "/turns", theme, tab: "turns", params, names: fields.map(([name]) => name), empty }, (rows) => h(StoredRows, { rows, label: "Turns" })),
  );
}

function StoredRows({ rows, label }) {
  return h("ul", { className: "hpg-results", "aria-label": label }, rows.map((row) => h(StoredRow, { key: row.ref, row })));
}

/** A row of a theme's list. */
function StoredRow({ row }) {
  const { theme, session_id: session } = row;
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "article",
      { "aria-label": row.ref },
      h(
        RowHead,
        { row: { ...row, theme: undefined } },
        row.private && h(Tag, { tone: "outline", title: "Of a private surface, such as a direct message" }, "private"),
        row.store === "turns" && session && h(Link, { view: "session", params: { theme, session } }, "Session"),
        h(RowActions, { row }),
      ),
      h(StoredText, { text: row.content, lines: 6 }),
      row.cut && h(Cut, { row }),
    ),
  );
}

function Cut({ row }) {
  return h("p", { className: "hpg-muted" }, h(Link, { view: "row", params: { ref: row.ref } }, `All ${countText(row.chars, "character")}`));
}

function ThemeSessions({ theme, params }) {
  const empty = h(Empty, { title: "No sessions in this theme" }, h("p", null, "Each conversation with its agent is one."));
  const columns = [
    { label: "Session", cell: (each) => h(Link, { view: "session", params: { theme, session: each.session_id } }, h(StoredText, { text: each.title || each.session_id, inline: true })), wide: true },
    { label: "Turns", cell: (each) => numberText(each.turns), number: true },
    { label: "Began", cell: (each) => h(When, { at: each.first_at }) },
    { label: "Last turn", cell: (each) => h(When, { at: each.last_at }) },
  ];
  return h(ThemePage, { path: "/sessions", theme, tab: "sessions", params, names: [], empty }, (rows) => h(Table, { label: "Sessions", columns, rows, keyOf: (each) => each.session_id }));
}

function ThemeTimeline({ theme, told }) {
  if (!told || told.counting) return h(StillCounting, null);
  const history = h("p", null, h(Link, { view: "history", params: { theme } }, "What was added, changed and removed"));
  if (!told.timeline.length) return h(Empty, { title: "Nothing was written yet" }, history);
  const monthly = Boolean(told.timeline[0].month);
  const columns = [
    { label: monthly ? "Month" : "Day", cell: (each) => dayText(each.day || each.month) },
    { label: "Memories", cell: (each) => numberText(each.memories), number: true },
    { label: "Turns", cell: (each) => numberText(each.turns), number: true },
  ];
  return h(
    Fragment,
    null,
    h(Panel, { title: monthly ? "By month (UTC)" : "By day (UTC)" }, h(Bars, { rows: told.timeline, series: GROWTH, label: "Turns and memories" })),
    h(Table, { label: "Timeline", narrow: true, columns, rows: [...told.timeline].reverse(), keyOf: (each) => each.day || each.month }),
    history,
  );
}

function ThemeWriters({ told }) {
  if (!told || told.counting) return h(StillCounting, null);
  if (!told.writers.length) return h(Empty, { title: "Nobody wrote here yet" });
  const named = (name) => (each) => (each[name] ? h(StoredText, { text: each[name], inline: true }) : h("span", { className: "hpg-muted" }, "not known"));
  const columns = [
    { label: "Profile", cell: named("profile") },
    { label: "Surface", cell: named("platform") },
    { label: "Host", cell: named("host") },
    { label: "Through", cell: named("source") },
    { label: "Memories", cell: (each) => numberText(each.memories), number: true },
    { label: "Turns", cell: (each) => numberText(each.turns), number: true },
    { label: "Last written", cell: (each) => h(When, { at: each.last_at }) },
  ];
  return h(Table, { label: "Who wrote", columns, rows: told.writers });
}

// A session's transcript.
function SessionView() {
  const { params } = useAddress();
  const { theme, session } = params;
  const offset = Number(params.offset) || 0;
  const answer = useAnswer(session ? "/session" : null, { theme, session, limit: ROWS_A_PAGE, offset });
  if (!session) return h(Page, { title: "Session" }, h(Empty, { title: "Which session?" }, h("p", null, h(Link, { view: "themes" }, "Choose a theme, and there a session"))));
  const { data, stale } = answer;
  const title = data && data.title ? h(StoredText, { text: data.title, inline: true }) : "Session";
  const onForgotten = () => go("theme", { theme: data.theme, tab: "sessions" });
  const actions = data && !stale && h(ForgetSessionButton, { theme: data.theme, session, onChanged: onForgotten });
  return h(
    Page,
    { title, actions },
    h(Answered, { answer }, (told) => h(Transcript, { told, offset })),
  );
}

function Transcript({ told, offset }) {
  const { theme, private: hidden, session_id: session, parent_session_id: parent, rows } = told;
  return h(
    Fragment,
    null,
    h(
      "dl",
      { className: "hpg-line" },
      h("div", null, h("dt", null, "Theme"), h("dd", null, h(ThemeName, { theme, private: hidden }))),
      h("div", null, h("dt", null, "Session"), h("dd", null, h(StoredText, { text: session, inline: true }))),
      h("div", null, h("dt", null, "Began"), h("dd", null, h(When, { at: told.first_at, exact: true }))),
      h("div", null, h("dt", null, "Last turn"), h("dd", null, h(When, { at: told.last_at, exact: true }))),
      h("div", null, h("dt", null, "Turns"), h("dd", null, numberText(told.turns))),
      parent && h("div", null, h("dt", null, "Goes on from"), h("dd", null, h(Link, { view: "session", params: { theme, session: parent } }, h(StoredText, { text: parent, inline: true })))),
    ),
    rows.length ? h("ol", { className: "hpg-transcript", start: offset + 1, "aria-label": "What was said" }, rows.map((row) => h(Said, { key: row.ref, row }))) : h(Empty, { title: "Nothing was said here" }, h("p", null, "Its turns were forgotten, or have not been written yet.")),
    h(Pager, { offset, limit: ROWS_A_PAGE, count: rows.length, more: told.more, total: told.turns, view: "session", params: { theme, session } }),
  );
}

function Said({ row }) {
  return h(
    "li",
    { className: cx("hpg-said", row.kind === "user" && "hpg-said-user") },
    h(
      "article",
      { "aria-label": `${row.kind}, ${row.ref}` },
      h(
        "div",
        { className: "hpg-row-head" },
        h("strong", null, row.kind),
        h(When, { at: row.at, exact: true }),
        h(Link, { view: "row", params: { ref: row.ref }, className: "hpg-ref" }, row.ref),
        row.pending && h(Tag, { tone: "outline" }, "waits for its vector"),
        h(RowActions, { row }),
      ),
      h(StoredText, { text: row.content }),
      row.cut && h(Cut, { row }),
    ),
  );
}

// One memory or turn, whole, with all that is known of it.

function RowView() {
  const { params } = useAddress();
  const answer = useAnswer(params.ref ? "/row" : null, { ref: params.ref });
  if (!params.ref) {
    return h(Page, { title: "One row" }, h(Empty, { title: "Which row?" }, h("p", null, "Open one from a list, such as m12 or t345.")));
  }
  const { data, stale } = answer;
  const there = data && !stale && data.state !== "removed";
  return h(
    Page,
    { title: `${params.ref.startsWith("t") ? "Turn" : "Memory"} ${params.ref}`, actions: there && h(RowActions, { row: data, open: true }) },
    h(Answered, { answer }, (row) => h(WholeRowTold, { row })),
  );
}

function WholeRowTold({ row }) {
  const history = row.history || [];
  const gone = row.state === "removed";
  return h(
    Fragment,
    null,
    gone
      ? h(GoneRow, { row, kept: history.length > 0 && Boolean(history[0].diff) })
      : h(
          Panel,
          null,
          h(RowHead, { row }),
          h(StoredText, { text: row.content }),
          row.cut && h("p", { className: "hpg-note" }, `The first part of ${countText(row.chars, "character")}.`),
        ),
    h(RowStructure, { structure: row.structure }),
    !gone && h(RowFacts, { row }),
    history.length > 0 && h(Panel, { title: "History" }, h(Events, { events: history, known: row.content })),
  );
}

/** Where a memory stood; what a file let go of is kept for a while and comes back, what was forgotten does not. */
function GoneRow({ row, kept }) {
  return h(
    Empty,
    { title: "It is not there any more" },
    h("p", null, kept ? "What it said is kept, and can be restored." : "What it said is not kept. Its history is below."),
    kept && h(DialogButton, { label: "Restore …", tone: "main", dialog: RestoreDialog, refs: [row.ref] }),
  );
}

/** What a memory says of itself besides its text. */
function RowStructure({ structure }) {
  const pairs = Object.entries(structure || {}).filter(([, value]) => value !== null && value !== "" && value !== false);
  if (!pairs.length) return null;
  return h(
    Panel,
    { title: "What it says of itself" },
    h(Pairs, { pairs: pairs.map(([name, value]) => [fieldLabel(name), h(StructureValue, { name, value })]) }),
  );
}

function StructureValue({ name, value }) {
  if (name === "expires_at") return h(When, { at: value, exact: true });
  if (name === "replaces" || name === "replaced_by") return h(RowLink, { at: value });
  if (name === "sources") return value.map((at) => h(Fragment, { key: at }, h(RowLink, { at }), " "));
  if (value === true) return "yes";
  return h(StoredText, { text: String(value), inline: true });
}

function RowLink({ at }) {
  return h(Link, { view: "row", params: { ref: at }, className: "hpg-ref" }, at);
}

/** Where it came from, and its metadata. */
function RowFacts({ row }) {
  const { theme, session_id: session, source, metadata } = row;
  const told = [
    ["Theme", theme && h(ThemeName, { theme, private: row.private })],
    ["Session", session && h(Link, { view: "session", params: { theme, session } }, h(StoredText, { text: session, inline: true }))],
    ["Written", row.at && h(When, { at: row.at, exact: true })],
    ["Characters", numberText(row.chars)],
    ["Vector", row.pending ? "waits for it" : "there"],
    ["Source", typeof source === "string" && source && h(StoredText, { text: source, inline: true })],
    ...Object.entries(metadata || {}).filter(([name]) => name !== "source" && name !== "session_id").map(([name, value]) => [
      h(StoredText, { text: name, inline: true }),
      h(StoredText, { text: typeof value === "string" ? value : JSON.stringify(value), inline: true }),
    ]),
  ];
  return h(Panel, { title: "Where it came from" }, h(Pairs, { pairs: told.filter(([, value]) => value) }));
}

// What happened to memories, of one theme or of all.

const ACTION_CHOICES = [["", "Everything"], ...ACTIONS.map((name) => [name, name])];

function HistoryView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "History" },
    h(HistoryForm, { params }),
    h(HistoryAnswer, { params }),
  );
}

function HistoryForm({ params }) {
  const { submit, text, choice } = useForm("history", ["theme", "action", "since", "until"], params);
  return h(
    "form",
    { className: "hpg-form", onSubmit: submit },
    h(
      "div",
      { className: "hpg-fields" },
      h(ThemeField, { help: "Empty: every theme", ...text("theme") }),
      h(SelectField, { label: "What was done", ...choice("action", ACTION_CHOICES) }),
      h(TextField, { label: "Since", help: "2026-05-03, 2026-05 or 7d", ...text("since") }),
      h(TextField, { label: "Until", help: "2026-05-03, 2026-05 or 7d", ...text("until") }),
    ),
    h("div", { className: "hpg-actions" }, h(Act, { type: "submit", tone: "main" }, "Show")),
  );
}

function HistoryAnswer({ params }) {
  const limit = 50;
  const offset = Number(params.offset) || 0;
  const { theme, action, since, until } = params;
  const answer = useAnswer("/history", { theme, action, since, until, limit, offset });
  return h(Answered, { answer }, ({ rows, more }) =>
    rows.length
      ? h(
          Fragment,
          null,
          h(Events, { events: rows, whose: true }),
          h(Pager, { offset, limit, count: rows.length, more, view: "history", params: { theme, action, since, until } }),
        )
      : h(Empty, { title: "Nothing happened" }, h("p", null, "Nothing of that kind, at that time.")),
  );
}

// Removals by memory files that wait for a decision, and memories that can be brought back.

const FILE_TROUBLES = { missing: "is missing", empty: "is empty", damaged: "is damaged", shorter: "lost much at once" };

const REMOVALS_A_PAGE = 50;

function RemovalsView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "Removals" },
    h(HeldRemovals, { params }),
    h(RemovedMemories, { params }),
  );
}

/** A page of one of the two lists, of which the address holds an offset each, by `name`. */
function RemovalPage({ path, name, params, empty, children }) {
  const offset = Number(params[name]) || 0;
  const asked = { theme: params.theme, since: params.since, limit: REMOVALS_A_PAGE, offset };
  const answer = useAnswer(path, asked);
  return h(Answered, { answer }, ({ rows, more }) =>
    h(
      Fragment,
      null,
      rows.length ? children(rows) : empty,
      h(Pager, { offset, limit: REMOVALS_A_PAGE, count: rows.length, more, view: "removals", params, name }),
    ),
  );
}

function HeldRemovals({ params }) {
  const empty = h(Empty, { title: "Nothing waits" }, h("p", null, "No removal needs a decision."));
  return h(
    "section",
    { className: "hpg-section", "aria-labelledby": "hpg-held" },
    h("h3", { id: "hpg-held" }, "Waiting for a decision"),
    h("p", { className: "hpg-muted" }, "A memory file lost these entries in a way that may be an accident. Undecided, they are kept."),
    h(RemovalPage, { path: "/removals", name: "offset", params, empty }, (rows) => h(HeldRows, { rows })),
  );
}

function HeldRows({ rows }) {
  const [chosen, setChosen] = useState([]);
  const picked = chosen.filter((ref) => rows.some((row) => row.ref === ref));
  return h(
    Fragment,
    null,
    h(ChooseBar, { rows, picked, setChosen }),
    h(
      "ul",
      { className: "hpg-results" },
      rows.map((row, at) => h(HeldRow, { key: `${row.ref} ${at}`, row, picked: picked.includes(row.ref), setChosen })),
    ),
  );
}

function ChooseBar({ rows, picked, setChosen }) {
  const all = picked.length === rows.length;
  return h(
    "div",
    { className: "hpg-actions hpg-choose" },
    h(CheckField, {
      label: picked.length ? `${picked.length} chosen` : "Choose all",
      value: all,
      onInput: () => setChosen(all ? [] : rows.map((row) => row.ref)),
    }),
    picked.length > 0 && h(Decide, { refs: picked, what: "chosen" }),
  );
}

function Decide({ refs, what }) {
  return h(
    Fragment,
    null,
    h(DialogButton, { label: `Keep ${what} …`, dialog: DecisionDialog, decision: "dismiss", refs }),
    h(DialogButton, {
      label: `Remove ${what} …`,
      tone: "danger",
      dialog: DecisionDialog,
      decision: "confirm",
      refs,
    }),
  );
}

function HeldRow({ row, picked, setChosen }) {
  const choose = (wanted) =>
    setChosen((before) => (wanted ? [...before, row.ref] : before.filter((ref) => ref !== row.ref)));
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "div",
      { className: "hpg-row-head" },
      h(CheckField, { label: h("span", { className: "hpg-sr" }, `Choose ${row.ref}`), value: picked, onInput: choose }),
      h(Link, { view: "row", params: { ref: row.ref }, className: "hpg-ref" }, row.ref),
      h(ThemeName, { theme: row.theme, private: row.private }),
    ),
    h(StoredText, { text: row.content, lines: 4 }),
    h(
      "p",
      { className: "hpg-muted" },
      `${row.file} ${FILE_TROUBLES[row.why] || row.why} · held `,
      h(When, { at: row.held_at }),
      row.stays_from && " · asked about until ",
      row.stays_from && h(When, { at: row.stays_from, exact: true }),
    ),
    h("div", { className: "hpg-actions" }, h(Decide, { refs: [row.ref], what: row.ref })),
  );
}

function RemovedMemories({ params }) {
  const empty = h(
    Empty,
    { title: "Nothing was removed" },
    h("p", null, "What a memory file lets go of can be restored here for a while."),
  );
  return h(
    "section",
    { className: "hpg-section", "aria-labelledby": "hpg-removed" },
    h("h3", { id: "hpg-removed" }, "Can be brought back"),
    h(RemovalPage, { path: "/removed", name: "removed_offset", params, empty }, (rows) => h(RemovedRows, { rows })),
  );
}

function RemovedRows({ rows }) {
  return h(
    Fragment,
    null,
    rows.length > 1 &&
      h(DialogButton, { label: "Restore all shown …", dialog: RestoreDialog, refs: rows.map((row) => row.ref) }),
    h("ul", { className: "hpg-results" }, rows.map((row) => h(RemovedRow, { key: row.ref, row }))),
  );
}

function RemovedRow({ row }) {
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "div",
      { className: "hpg-row-head" },
      h(Link, { view: "row", params: { ref: row.ref }, className: "hpg-ref" }, row.ref),
      h(ThemeName, { theme: row.theme, private: row.private }),
      h("span", { className: "hpg-muted" }, "removed ", h(When, { at: row.removed_at })),
      row.by && h("span", { className: "hpg-muted" }, "by ", h(StoredText, { text: row.by, inline: true })),
      h(DialogButton, { label: "Restore …", dialog: RestoreDialog, refs: [row.ref] }),
    ),
    h(StoredText, { text: row.content, lines: 4 }),
  );
}

// The settings that matter: tried before they are saved. A secret goes in and never comes out.

function SettingsView() {
  const answer = useAnswer("/settings", {});
  return h(
    Page,
    { title: "Settings" },
    h(Answered, { answer }, (data) => h(SettingsForm, { key: data.file, data })),
  );
}

/** Return what a field holds as a form holds it. */
function settingShown({ type, value }) {
  if (type === "secret") return "";
  if (type === "bool") return value === true || value === "true";
  return value === null || value === undefined ? "" : String(value);
}

function SettingsForm({ data }) {
  const initial = Object.fromEntries(data.fields.map((field) => [field.key, settingShown(field)]));
  const draft = drafts.get(draftKey("settings")) || { typed: {}, shown: {} };
  const [typed, setTyped] = useState(draft.typed); // what differs from what is saved, by key
  const [shown, setShown] = useState(draft.shown); // what a field held when one began to type in it
  const changes = Object.fromEntries(Object.entries(typed).filter(([key, value]) => key in initial && value !== initial[key]));
  const dirty = Object.keys(changes).length > 0;
  const trial = useSettingsTrial(changes, shown, (now) => setShown((before) => ({ ...before, ...now })));
  useLeaveGuard(dirty);
  // A secret is not kept where another view could come upon it.
  const secrets = data.fields.filter(({ type }) => type === "secret").map(({ key }) => key);
  useEffect(() => {
    const kept = Object.fromEntries(Object.entries(typed).filter(([key]) => !secrets.includes(key)));
    drafts.set(draftKey("settings"), { typed: kept, shown });
  }, [typed, shown]);
  useEffect(() => setShown((before) => Object.fromEntries(Object.entries(before).filter(([key]) => key in typed))), [data]);
  const problems = Object.fromEntries(((trial.told && trial.told.problems) || []).map((each) => [each.key, each]));
  const clear = () => {
    setTyped({});
    setShown({});
  };
  const submit = (event) => {
    event.preventDefault();
    if (trial.passed) trial.save(clear);
    else if (dirty) trial.test();
  };
  return h(
    "form",
    { className: "hpg-form hpg-settings", onSubmit: submit, noValidate: true },
    data.file && h("p", { className: "hpg-muted" }, "Kept in ", h(StoredText, { text: data.file, inline: true })),
    (data.notes || []).map((note, at) => h("p", { key: at, className: "hpg-note" }, note)),
    h(
      Panel,
      null,
      data.fields.map((field) =>
        h(SettingField, {
          key: field.key,
          field,
          value: field.key in typed ? typed[field.key] : initial[field.key],
          problem: problems[field.key],
          onInput: (value) => {
            if (field.type !== "secret") setShown((before) => ({ [field.key]: field.value, ...before }));
            setTyped((before) => ({ ...before, [field.key]: value }));
          },
        }),
      ),
    ),
    h(
      "div",
      { className: "hpg-settings-foot" },
      h(SettingsTold, { trial, dirty }),
      h(
        "div",
        { className: "hpg-actions" },
        h(Act, { onClick: trial.test, "aria-disabled": dirty && !trial.busy ? undefined : "true" }, "Test"),
        h(Act, { type: "submit", tone: "main", "aria-disabled": trial.passed && !trial.busy ? undefined : "true" }, "Save"),
        dirty && h(Act, { tone: "quiet", onClick: clear }, "Throw changes away"),
      ),
    ),
  );
}

/**
 * Return {told, error, passed, busy, test, save}; what was told holds for exactly these changes. `learn` is called
 * with the values that are not, or no longer, those in `shown`.
 */
function useSettingsTrial(changes, shown, learn) {
  const key = JSON.stringify(changes);
  const [state, setState] = useState({ key: null, told: null, error: null, failed: null });
  const [busy, setBusy] = useState("");
  const running = useRef(false);
  const send = async (what, path, then) => {
    if (running.current || key === "{}") return;
    running.current = true;
    setBusy(what);
    try {
      const told = await api.post(path, { changes, shown });
      if (then && told.ok) then(told);
      learn(told.now || {});
      setState({ key: then && told.ok ? null : key, told, error: null, failed: null });
    } catch (error) {
      setState((before) => ({ ...before, key, error, failed: what }));
    } finally {
      running.current = false;
      setBusy("");
    }
  };
  const { told, error, failed } = state.key === key ? state : { told: null, error: null, failed: null };
  const test = () => send("test", "/settings/test");
  const save = (cleared) =>
    send("save", "/settings", (saved) => {
      cleared();
      toast([saved.says, saved.restart && "restart what runs, so that it takes effect"].filter(Boolean).join("; "));
    });
  return { told, error, failed, busy, test, save, passed: Boolean(told && told.ok && !error) };
}

function SettingsTold({ trial, dirty }) {
  const { told, error, busy, test } = trial;
  const hint = !dirty ? "Nothing is changed." : "Test what you changed; then it can be saved.";
  const says = busy ? (busy === "test" ? "Testing …" : "Saving …") : told ? told.says : hint;
  return h(
    Fragment,
    null,
    h(
      "div",
      { role: "status", "aria-live": "polite", className: cx("hpg-trial", told && !told.ok && "hpg-trial-failed") },
      h("p", { className: "hpg-says" }, says),
      !busy && told && (told.notes || []).map((note, at) => h("p", { key: at, className: "hpg-note" }, note)),
      !busy && told && (told.problems || []).map((each, at) => h("p", { key: at, className: "hpg-note" }, problemText(each))),
    ),
    h(Problem, { error, again: test }),
  );
}

function problemText({ key, says, fix }) {
  return [key && `${key}: `, says, fix && ` To mend it: ${fix}`].filter(Boolean).join("");
}

function SettingField({ field, value, problem, onInput }) {
  const { key, label, help, type, choices, source } = field;
  const props = { label, value, onInput, name: key, problem: problem && problem.says };
  const said = sentences(help, source && `From ${source}`);
  if (type === "bool") return h(CheckField, { ...props, help: said });
  if (type === "choice") return h(SelectField, { ...props, choices: choices || [], help: said });
  if (type === "secret") {
    const set = field.set ? "It is set. Leave it empty to keep it" : "It is not set";
    return h(TextField, { ...props, type: "password", autoComplete: "new-password", help: sentences(said, set) });
  }
  const number = type === "number" ? { inputMode: "decimal" } : {};
  return h(TextField, { ...props, ...number, help: said, placeholder: defaultShown(field), spellCheck: false });
}

function sentences(...said) {
  return said
    .filter(Boolean)
    .map((each) => (/[.!?]$/.test(each) ? each : `${each}.`))
    .join(" ");
}

function defaultShown({ default: value }) {
  return value === null || value === undefined || value === "" ? undefined : String(value);
}

// The views by the name in the address; those with a label are in the navigation.
const VIEWS = {
  overview: { view: OverviewView, label: "Overview" },
  search: { view: SearchView, label: "Search" },
  themes: { view: ThemesView, label: "Themes" },
  theme: { view: ThemeView, within: "themes" },
  session: { view: SessionView, within: "themes" },
  agent: { view: AgentView, label: "Agent’s view" },
  history: { view: HistoryView, label: "History" },
  removals: { view: RemovalsView, label: "Removals" },
  settings: { view: SettingsView, label: "Settings" },
  row: { view: RowView, within: "search" },
};

function Navigation({ current }) {
  const chosen = VIEWS[current].within || current;
  return h(
    "nav",
    { className: "hpg-nav", "aria-label": "Memory" },
    Object.entries(VIEWS)
      .filter(([, { label }]) => label)
      .map(([name, { label }]) => h(Link, { key: name, view: name, "aria-current": name === chosen ? "page" : undefined }, label)),
  );
}

function inField(target) {
  return target instanceof Element && (target.closest("input, textarea, select, dialog") || target.isContentEditable);
}

/** "/" leads to the search box: the one on the page (`data-hpg-search`), or that of the search. */
function onKey(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
  event.preventDefault();
  const box = document.querySelector(".hpg-page [data-hpg-search]");
  if (box) box.focus();
  else go("search");
}

function MemoryPage() {
  const { view, profile } = useAddress();
  const name = Object.hasOwn(VIEWS, view) ? view : "overview";
  const former = useRef(name);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    if (former.current === name) return;
    former.current = name;
    // Who does not see the page hears where they are now; a view that put the focus elsewhere keeps it.
    const title = document.getElementById("hpg-title");
    const inside = document.activeElement && document.activeElement.closest(".hpg-view");
    if (title && !inside) title.focus({ preventScroll: true });
  }, [name]);
  return h(
    "div",
    { className: "hpg-page" },
    h(Navigation, { current: name }),
    h(VIEWS[name].view, { key: `${name}#${profile}` }),
    h(Toasts, { profile }),
  );
}

window.__HERMES_PLUGINS__.register("pgvector", MemoryPage);
})();
