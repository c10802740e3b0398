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
