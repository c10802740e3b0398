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
