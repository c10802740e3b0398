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
