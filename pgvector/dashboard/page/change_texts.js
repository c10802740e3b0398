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
