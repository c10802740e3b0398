// What the host's dashboard gives a plugin's page, where `hermes-pgvector web` serves it: React's place is taken by Preact.
(() => {
"use strict";

const { h, Fragment, createContext, options } = window.preact;
const hooks = window.preactHooks;
const HEADER = "X-Hermes-Session-Token";
const KEPT = "session";

// ---- who is asking ----
// The session is kept by this tab alone, which other programs' pages on this machine cannot read; a further tab asks the others.

const tabs = new BroadcastChannel("hermes-pgvector");
let session = sessionStorage.getItem(KEPT) || "";
const ended = new Set(); // sessions of former servers, which other tabs may still have

tabs.addEventListener("message", ({ data }) => {
  if (data === "who has the session?" && session) tabs.postMessage({ session });
});

function keep(found) {
  session = found;
  if (found) sessionStorage.setItem(KEPT, found);
  else sessionStorage.removeItem(KEPT);
  return Boolean(found);
}

/** Exchange what the address carries for a session; an address works once. */
async function exchanged(token) {
  const answer = await fetch("/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  return answer.ok ? (await answer.json()).session : "";
}

function askedOfOtherTabs() {
  return new Promise((resolve) => {
    const done = (found) => {
      clearTimeout(patience);
      tabs.removeEventListener("message", hear);
      resolve(found);
    };
    const hear = ({ data }) => data && data.session && !ended.has(data.session) && done(data.session);
    const patience = setTimeout(done, 300, "");
    tabs.addEventListener("message", hear);
    tabs.postMessage("who has the session?");
  });
}

/** Return whether this tab may ask now. */
async function admitted() {
  const token = window.location.hash.slice(1);
  if (token) {
    history.replaceState(history.state, "", window.location.pathname + window.location.search);
    const found = await exchanged(token);
    if (found) return keep(found);
  }
  return Boolean(session) || keep(await askedOfOtherTabs());
}

function sent(url, init) {
  const headers = new Headers(init.headers);
  headers.set(HEADER, session);
  return fetch(url, { ...init, headers, credentials: "omit", redirect: "error" });
}

/** Ask the server; where it was started anew, with the session of a tab that has its new address. */
async function authedFetch(url, init = {}) {
  for (;;) {
    const used = session;
    const answer = await sent(url, init);
    if (answer.status !== 401) return answer;
    ended.add(used);
    if (session === used) keep("");
    if (session || keep(await askedOfOtherTabs())) continue;
    // As before leaving: where something typed is unsaved, the page stays, and tells of it itself.
    if (used && window.dispatchEvent(new Event("beforeunload", { cancelable: true }))) {
      window.dispatchEvent(new Event("hermes-pgvector-left"));
    }
    return answer;
  }
}

async function fetchJSON(url, init) {
  const answer = await authedFetch(url, init);
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  return answer.json();
}

// ---- the host's components, as plain elements ----

const classes = (...names) => names.filter(Boolean).join(" ");

/** Return a component that is one element of a class; what it does not know passes through. */
const plain = (tag, name, own = {}) => ({ className, ...rest }) =>
  h(tag, { ...own, ...rest, className: classes(name, className) });

function Button({ className, variant, size, ghost, destructive, outlined, ...rest }) {
  const kind = variant || (ghost && "ghost") || (destructive && "destructive") || (outlined && "outline");
  const names = classes("sh-button", kind && `sh-${kind}`, size && `sh-${size}`, className);
  return h("button", { type: "button", ...rest, className: names });
}

function Badge({ className, tone, variant, ...rest }) {
  return h("span", { ...rest, className: classes("sh-badge", `sh-${tone || variant || "default"}`, className) });
}

function Checkbox({ className, onCheckedChange, ...rest }) {
  const onChange = onCheckedChange && ((event) => onCheckedChange(event.currentTarget.checked));
  return h("input", { onChange, ...rest, type: "checkbox", className: classes("sh-checkbox", className) });
}

function Select({ className, onValueChange, ...rest }) {
  const onChange = onValueChange && ((event) => onValueChange(event.currentTarget.value));
  return h("select", { onChange, ...rest, className: classes("sh-input", className) });
}

function Tabs({ className, defaultValue, children, ...rest }) {
  const [active, setActive] = hooks.useState(defaultValue);
  const inner = typeof children === "function" ? children(active, setActive) : children;
  return h("div", { ...rest, className: classes("sh-tabs", className) }, inner);
}

function TabsTrigger({ className, active, value, ...rest }) {
  const names = classes("sh-button", "sh-ghost", className);
  return h("button", { type: "button", "aria-pressed": String(Boolean(active)), ...rest, className: names });
}

const components = {
  Card: plain("div", "sh-card"),
  CardHeader: plain("div", "sh-card-header"),
  CardTitle: plain("h3", "sh-card-title"),
  CardContent: plain("div", "sh-card-content"),
  Badge,
  Button,
  Checkbox,
  Input: plain("input", "sh-input"),
  Label: plain("label", "sh-label"),
  Select,
  SelectOption: plain("option", ""),
  Separator: plain("hr", "sh-separator"),
  Tabs,
  TabsList: plain("div", "sh-tabs-list"),
  TabsTrigger,
  PluginSlot: () => null,
};

// React writes attributes of SVG in camel case and Preact takes them as they stand in the document.
const CAMEL = /^(stroke|fill|text|font|dominant|alignment|clip|marker|stop|shape|vector)[A-Z]/;
const before = options.vnode;
options.vnode = (vnode) => {
  if (typeof vnode.type === "string" && vnode.props) {
    for (const name of Object.keys(vnode.props)) {
      if (!CAMEL.test(name)) continue;
      vnode.props[name.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase())] = vnode.props[name];
      delete vnode.props[name];
    }
  }
  if (before) before(vnode);
};

const { useState, useEffect, useCallback, useMemo, useRef, useContext } = hooks;
const given = { useState, useEffect, useCallback, useMemo, useRef, useContext, createContext };
const registered = new Map();

window.__HERMES_PLUGIN_SDK__ = {
  sdkVersion: "1.1.0",
  React: { ...hooks, createElement: h, Fragment, createContext, Component: window.preact.Component },
  hooks: given,
  fetchJSON,
  authedFetch,
  components,
  utils: { cn: classes },
};
window.__HERMES_PLUGINS__ = {
  register: (name, component) => registered.set(name, component),
  registerSlot: () => {},
};
window.__HERMES_PGVECTOR_SHELL__ = { admitted, page: () => registered.get("pgvector") };
})();
