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
