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
