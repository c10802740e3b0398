// What lies over a view: dialogs, menus, and what just happened with its undo.

/** A modal dialog. Escape and a click beside it close it; the focus returns to where it was. */
function Dialog({ title, onClose, children }) {
  const dialog = useRef(null);
  const close = useRef(onClose);
  const id = useId();
  close.current = onClose;
  useEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    const onCancel = (event) => {
      event.preventDefault();
      close.current();
    };
    const onPointer = (event) => event.target === element && close.current();
    element.addEventListener("cancel", onCancel);
    element.addEventListener("mousedown", onPointer);
    element.showModal();
    return () => {
      element.close();
      if (before && before.isConnected) before.focus();
    };
  }, []);
  return h(
    "dialog",
    { ref: dialog, className: "hpg-dialog", "aria-labelledby": id },
    h(
      "div",
      { className: "hpg-dialog-box" },
      h("div", { className: "hpg-dialog-head" }, h("h3", { id }, title), h("button", { type: "button", className: "hpg-close", "aria-label": "Close", onClick: onClose }, "×")),
      children,
    ),
  );
}

/** A button with further actions: `items` are {label, onClick, danger}. */
function MenuButton({ label, items }) {
  const [open, setOpen] = useState(false);
  const root = useRef(null);
  const choices = () => [...root.current.querySelectorAll("[role=menuitem]")];
  useEffect(() => {
    if (!open) return undefined;
    const first = choices()[0];
    if (first) first.focus();
    const outside = (event) => !root.current.contains(event.target) && setOpen(false);
    document.addEventListener("mousedown", outside);
    return () => document.removeEventListener("mousedown", outside);
  }, [open]);
  const shut = () => {
    setOpen(false);
    root.current.querySelector("button").focus();
  };
  const onKeyDown = (event) => {
    if (!open) return;
    const all = choices();
    const at = all.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 };
    if (event.key === "Tab") setOpen(false);
    if (event.key === "Escape") {
      event.stopPropagation();
      shut();
    }
    if (!(event.key in steps) || !all.length) return;
    event.preventDefault();
    all[steps[event.key] % all.length].focus();
  };
  const choose = (item) => () => {
    shut();
    item.onClick();
  };
  return h(
    "div",
    { className: "hpg-menu", ref: root, onKeyDown },
    h("button", { type: "button", className: "hpg-menu-button", "aria-haspopup": "menu", "aria-expanded": open ? "true" : "false", "aria-label": label, onClick: () => setOpen(!open) }, "⋯"),
    open &&
      h(
        "div",
        { className: "hpg-menu-items", role: "menu", "aria-label": label },
        items.map((item) => h("button", { key: item.label, type: "button", role: "menuitem", tabIndex: -1, className: cx(item.danger && "hpg-danger"), onClick: choose(item) }, item.label)),
      ),
  );
}

// ---- what just happened ----

const TOAST_MS = 8000;
const TOAST_UNDO_MS = 60000; // long enough to notice what went wrong
const TOASTS_MOST = 4;
let toasts = [];
const toastListeners = new Set();

function setToasts(next) {
  toasts = next.slice(-TOASTS_MOST);
  for (const listener of [...toastListeners]) listener(toasts);
}

function dismiss(id) {
  setToasts(toasts.filter((one) => one.id !== id));
}

/** Say what happened. `undo` is what a change answered; `problem` makes it stand out. */
function toast(says, { undo, problem } = {}) {
  const one = { id: ++lastId, says, undo: undo || null, problem: Boolean(problem), profile: profileInAddress() };
  setToasts([...toasts, one]);
  setTimeout(() => dismiss(one.id), undo || problem ? TOAST_UNDO_MS : TOAST_MS);
}

/** Take away a message whose button was pressed: the focus goes to the top of the view instead of nowhere. */
function putAway(one) {
  dismiss(one.id);
  setTimeout(focusTitleIfLost);
}

async function undoChange(one) {
  putAway(one);
  try {
    const found = await api.post("/undo", { token: one.undo.token });
    toast([found.says, ...(found.notes || [])].join("; "));
  } catch (error) {
    changed(); // it was refused for what is there now, which may not be what is shown
    // What was refused may work later, once what stands in its way was undone; the server keeps it.
    toast(error.message, { problem: true, undo: error.kind === "NothingToUndo" ? null : one.undo });
  }
}

/** What happened in a profile; that of another one can be undone there. */
function Toasts({ profile }) {
  const [shown, setShown] = useState(toasts);
  useEffect(() => {
    toastListeners.add(setShown);
    return () => toastListeners.delete(setShown);
  }, []);
  return h(
    "div",
    { className: "hpg-toasts", role: "status", "aria-live": "polite" },
    shown.filter((one) => one.profile === profile).map((one) =>
      h(
        "div",
        { key: one.id, className: cx("hpg-toast", one.problem && "hpg-toast-problem") },
        h("span", { className: "hpg-toast-says" }, one.says),
        one.undo && h(Act, { onClick: () => undoChange(one), title: one.undo.says }, "Undo"),
        h("button", { type: "button", className: "hpg-close", "aria-label": "Dismiss", onClick: () => putAway(one) }, "×"),
      ),
    ),
  );
}
