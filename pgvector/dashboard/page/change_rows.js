// Changes of whole rows: forget, restore, pin, archive, and what the mirror holds.

/** Forget rows for good; the trial says what else would go. */
function ForgetDialog({ refs, theme, onClose, onChanged }) {
  return h(ChangeDialog, {
    title: refs.length === 1 ? `Forget ${refs[0]}` : `Forget ${refs.length} rows`,
    path: "/forget",
    body: theme ? { refs, theme } : { refs },
    verb: "Forget",
    danger: true,
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

function ForgetSessionDialog({ theme, session, onClose, onChanged }) {
  return h(
    ChangeDialog,
    {
      title: "Forget a session",
      path: "/forget-session",
      body: { theme, session },
      verb: "Forget the session",
      danger: true,
      onClose,
      onDone: doneWith(onClose, onChanged),
    },
    h("p", null, "Session ", h(StoredText, { text: session, inline: true }), " in ", h(ThemeName, { theme, plain: true })),
  );
}

function RestoreDialog({ refs, onClose, onChanged }) {
  return h(ChangeDialog, {
    title: refs.length === 1 ? `Restore ${refs[0]}` : `Restore ${refs.length} memories`,
    path: "/restore",
    body: { refs },
    verb: "Restore",
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

const DECISIONS = {
  confirm: { title: "Remove what the file lost", verb: "Remove", danger: true },
  dismiss: { title: "Keep what the file lost", verb: "Keep", danger: false },
};

function DecisionDialog({ decision, refs, onClose, onChanged }) {
  const { title, verb, danger } = DECISIONS[decision];
  return h(ChangeDialog, {
    title,
    path: "/removals",
    body: { decision, refs },
    verb,
    danger,
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

/** Pin, unpin, archive or reopen a memory: one field of it. */
function FieldDialog({ row, title, verb, changes, onClose, onChanged }) {
  return h(ChangeDialog, {
    title: `${title} ${row.ref}`,
    path: "/edit",
    body: { ref: row.ref, ...changes },
    verb,
    onClose,
    onDone: doneWith(onClose, onChanged),
  });
}

const PIN = { title: "Pin", verb: "Pin", changes: { pinned: true } };
const UNPIN = { title: "Unpin", verb: "Unpin", changes: { pinned: false } };
const ARCHIVE = { title: "Archive", verb: "Archive", changes: { state: "archived" } };
const REOPEN = { title: "Make current again:", verb: "Make current", changes: { state: "active" } };

/** Return what can be done with a row: [{name, label, danger}]. */
function actionsFor(row) {
  const forget = { name: "forget", label: "Forget …", danger: true };
  if (row.store !== "memories") return [forget];
  const { pinned, state } = row.structure || {};
  const over = state && state !== "active";
  return [
    { name: "edit", label: "Edit …" },
    { name: "replace", label: "Replace …" },
    pinned ? { name: "unpin", label: "Unpin …" } : { name: "pin", label: "Pin …" },
    over ? { name: "reopen", label: "Make current …" } : { name: "archive", label: "Archive …" },
    forget,
  ];
}

const FIELD_CHANGES = { pin: PIN, unpin: UNPIN, archive: ARCHIVE, reopen: REOPEN };

/** The dialog of an action on a row; nothing without one. */
function RowDialog({ action, row, onClose, onChanged }) {
  if (action === "edit") return h(EditDialog, { row, onClose, onChanged });
  if (action === "replace") return h(ReplaceDialog, { row, onClose, onChanged });
  if (action === "forget") return h(ForgetDialog, { refs: [row.ref], onClose, onChanged });
  if (FIELD_CHANGES[action]) return h(FieldDialog, { row, ...FIELD_CHANGES[action], onClose, onChanged });
  return null;
}

function focusTitleIfLost() {
  const title = document.getElementById("hpg-title");
  if (title && (document.activeElement === document.body || !document.activeElement)) title.focus({ preventScroll: true });
}

/** The actions of one row: a menu in a list, buttons side by side with `open`. */
function RowActions({ row, open, onChanged }) {
  const [action, setAction] = useState(null);
  const acted = useRef(false);
  // Where the row goes away with its buttons, the focus goes to the top of the view instead of nowhere.
  useEffect(() => () => acted.current && setTimeout(focusTitleIfLost), []);
  const done = (answer) => {
    acted.current = true;
    if (onChanged) onChanged(answer);
  };
  const dialog = action && h(RowDialog, { action, row, onClose: () => setAction(null), onChanged: done });
  const actions = actionsFor(row).map((each) => ({ ...each, onClick: () => setAction(each.name) }));
  if (!open) return h(Fragment, null, h(MenuButton, { label: `Change ${row.ref}`, items: actions }), dialog);
  return h(
    "div",
    { className: "hpg-actions" },
    actions.map(({ name, label, danger, onClick }) =>
      h(Act, { key: name, tone: danger ? "danger" : "plain", onClick }, label),
    ),
    dialog,
  );
}

/** A button that opens a dialog: `dialog` is its component, with the other properties. */
function DialogButton({ label, dialog, tone, ...props }) {
  const [open, setOpen] = useState(false);
  return h(
    Fragment,
    null,
    h(Act, { tone, onClick: () => setOpen(true) }, label),
    open && h(dialog, { ...props, onClose: () => setOpen(false) }),
  );
}

function AddButton({ theme, onChanged }) {
  return h(DialogButton, { label: "Add a memory …", tone: "main", dialog: AddDialog, theme, onChanged });
}

function ForgetSessionButton({ theme, session, onChanged }) {
  return h(DialogButton, {
    label: "Forget the session …",
    tone: "danger",
    dialog: ForgetSessionDialog,
    theme,
    session,
    onChanged,
  });
}
