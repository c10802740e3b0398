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
