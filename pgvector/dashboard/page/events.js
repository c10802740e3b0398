// What happened to memories, with the differences in their texts.

const ACTIONS = ["added", "replaced", "moved", "removed", "superseded", "closed", "archived", "reopened"];

/** Events, the newest first; `whose` says of which memory each is. */
function Events({ events, whose }) {
  return h(
    "ol",
    { className: "hpg-events" },
    events.map((event, at) => h(EventItem, { key: `${event.ref} ${event.at} ${at}`, event, whose })),
  );
}

function EventItem({ event, whose }) {
  return h(
    "li",
    { className: "hpg-event" },
    h(
      "div",
      { className: "hpg-row-head" },
      h("strong", null, event.action),
      whose && h(Link, { view: "row", params: { ref: event.ref }, className: "hpg-ref" }, event.ref),
      h(When, { at: event.at }),
      event.by && h("span", { className: "hpg-muted" }, "by ", h(StoredText, { text: event.by, inline: true })),
    ),
    h(EventText, { event }),
  );
}

function EventText({ event }) {
  if (event.diff) return h(Diff, { parts: event.diff });
  const was = event.old_content || event.content;
  if (was) return h("blockquote", null, h(StoredText, { text: was, lines: 6 }));
  if (event.old_theme) return h("p", null, "from the theme ", h(ThemeName, { theme: event.old_theme }));
  if (event.says) return h("p", { className: "hpg-muted" }, event.says);
  return null;
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
