// Made of the files in ../page by scripts/make_dashboard_page.py.
(() => {
"use strict";

// What every view builds on: the host's parts, the API, the address, and questions that are asked again.
const SDK = window.__HERMES_PLUGIN_SDK__;
const { React } = SDK;
const { useState, useEffect, useCallback, useMemo, useRef } = SDK.hooks;
const { Card, CardHeader, CardTitle, CardContent, Badge, Button, Input } = SDK.components;
const { Fragment } = React;
const h = React.createElement;

const API = "/api/plugins/pgvector";
const SLOW_MS = 300; // no spinner before: a short wait should not flicker
const RETRY_FIRST_MS = 1500;
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

function withProfile(path) {
  const profile = new URLSearchParams(window.location.search).get("profile");
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

const api = {
  get(path, params, signal) {
    const query = String(queryOf(params));
    return asked(query ? `${path}?${query}` : path, { signal });
  },
  /** Send a change. Every question on the page is asked again after it, unless it was a dry run. */
  async post(path, body) {
    const found = await asked(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body || {}),
    });
    if (!(body && body.dry_run) && path !== "/settings/test") changed();
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
  const profile = new URLSearchParams(window.location.search).get("profile");
  const query = queryOf({ view, ...params, profile });
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
 * The former answer stays, with `stale`, until the next one is there. What is unavailable is tried again by itself.
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
      setState((before) => ({ key, path, data: before.path === path ? before.data : null, error: null, ...change }));
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
        if (everyS) later(everyS * 1000);
      } catch (error) {
        if (ended || mine !== asking || error.name === "AbortError") return;
        settle({ error });
        if (error.status === 503) {
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
const MARKS_MOST = 2000; // of either kind in one text; what is more would make the page slow

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
    h("span", null, error.message),
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
    data ? h("div", { className: cx(stale && slow && "hpg-stale"), "aria-busy": stale ? "true" : undefined }, children(data)) : h(Loading, { when: slow && !error }),
  );
}

function Pager({ offset, limit, count, more, total, view, params }) {
  const from = Number(offset) || 0;
  if (from === 0 && !more) return null;
  const to = (start) => ({ view, params: { ...params, offset: start || undefined } });
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
  children.push(room.left > 0 ? rest : rest.replace(INVISIBLE, "\ufffd"));
  return children;
}

/** A stored text, as text: what it holds is never markup. `lines` cuts what is shown, `inline` keeps it in one line. */
function StoredText({ text, marks, lines, inline }) {
  const children = useMemo(() => {
    const room = { left: MARKS_MOST };
    return markedPieces(text || "", marks).map(([piece, marked], at) =>
      marked ? h("mark", { key: at }, visible(piece, room)) : h(Fragment, { key: at }, visible(piece, room)),
    );
  }, [text, marks]);
  const props = { dir: "auto", className: cx("hpg-text", inline && "hpg-text-inline", lines && "hpg-clamp") };
  if (lines) props.style = { WebkitLineClamp: lines };
  return h(inline ? "span" : "div", props, children);
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

function Stat({ label, value, hint, tone }) {
  return h(
    "div",
    { className: cx("hpg-stat", tone && `hpg-tone-${tone}`) },
    h("dt", null, label),
    h("dd", null, value),
    hint && h("dd", { className: "hpg-stat-hint" }, hint),
  );
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
function TextField({ label, help, problem, value, onInput, rows, inputRef, ...rest }) {
  const typed = { ...rest, value: value === null || value === undefined ? "" : value, onInput: (event) => onInput(event.target.value) };
  return h(Field, { label, help, problem }, (named) =>
    rows ? h("textarea", { ...typed, ...named, rows, dir: "auto", className: "hpg-input", ref: inputRef }) : h(Input, { ...typed, ...named, ref: inputRef }),
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
  return h(
    "div",
    { className: "hpg-filters" },
    fields.map(([key, label, kind]) => {
      const props = { key, label, value: params[key], onInput: set(key) };
      return Array.isArray(kind) ? h(SelectField, { ...props, choices: kind }) : h(TextField, { ...props, type: kind });
    }),
  );
}

// What lies over a view: dialogs, menus, and what just happened with its undo.

/** A modal dialog. Escape and a click beside it close it; the focus returns to where it was. */
function Dialog({ title, onClose, children, wide }) {
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
    { ref: dialog, className: cx("hpg-dialog", wide && "hpg-dialog-wide"), "aria-labelledby": id },
    h(
      "div",
      { className: "hpg-dialog-box" },
      h("div", { className: "hpg-dialog-head" }, h("h3", { id }, title), h("button", { type: "button", className: "hpg-close", "aria-label": "Close", onClick: onClose }, "×")),
      children,
    ),
  );
}

/** A button with further actions: `items` are {label, onClick, danger, disabled}. */
function MenuButton({ label, items, children }) {
  const [open, setOpen] = useState(false);
  const root = useRef(null);
  const choices = () => [...root.current.querySelectorAll("[role=menuitem]:not(:disabled)")];
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
    h("button", { type: "button", className: "hpg-menu-button", "aria-haspopup": "menu", "aria-expanded": open ? "true" : "false", "aria-label": children ? undefined : label, onClick: () => setOpen(!open) }, children || "⋯"),
    open &&
      h(
        "div",
        { className: "hpg-menu-items", role: "menu", "aria-label": label },
        items.map((item) => h("button", { key: item.label, type: "button", role: "menuitem", tabIndex: -1, disabled: item.disabled, className: cx(item.danger && "hpg-danger"), onClick: choose(item) }, item.label)),
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
  const one = { id: ++lastId, says, undo: undo || null, problem: Boolean(problem) };
  setToasts([...toasts, one]);
  setTimeout(() => dismiss(one.id), undo || problem ? TOAST_UNDO_MS : TOAST_MS);
}

async function undoChange(one) {
  dismiss(one.id);
  try {
    const found = await api.post("/undo", { token: one.undo.token });
    toast(found.says);
  } catch (error) {
    toast(error.message, { problem: true });
  }
}

function Toasts() {
  const [shown, setShown] = useState(toasts);
  useEffect(() => {
    toastListeners.add(setShown);
    return () => toastListeners.delete(setShown);
  }, []);
  return h(
    "div",
    { className: "hpg-toasts", role: "status", "aria-live": "polite" },
    shown.map((one) =>
      h(
        "div",
        { key: one.id, className: cx("hpg-toast", one.problem && "hpg-toast-problem") },
        h("span", { className: "hpg-toast-says" }, one.says),
        one.undo && h(Act, { onClick: () => undoChange(one), title: one.undo.says }, "Undo"),
        h("button", { type: "button", className: "hpg-close", "aria-label": "Dismiss", onClick: () => dismiss(one.id) }, "×"),
      ),
    ),
  );
}

/** Bars a day, of one or several series, with a table of the same for those who do not see it. */
function Bars({ label }) {
  return h("figure", { className: "hpg-chart", "aria-label": label });
}

function OverviewView() {
  return h(Page, { title: "Overview" });
}

function SearchView() {
  return h(Page, { title: "Search" });
}

function AgentView() {
  return h(Page, { title: "As the agent sees it" });
}

function ThemesView() {
  return h(Page, { title: "Themes" });
}

function ThemeView() {
  return h(Page, { title: "Theme" });
}

function SessionView() {
  return h(Page, { title: "Session" });
}

function RowView() {
  return h(Page, { title: "One row" });
}

function HistoryView() {
  return h(Page, { title: "History" });
}

function RemovalsView() {
  return h(Page, { title: "Removals" });
}

function SettingsView() {
  return h(Page, { title: "Settings" });
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
  const name = VIEWS[view] ? view : "overview";
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
    h(Toasts),
  );
}

window.__HERMES_PLUGINS__.register("pgvector", MemoryPage);
})();
