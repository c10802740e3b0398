// A change is tried first: the dialog says what would happen, then it is done, and the toast offers to undo it.

const TRIAL_AFTER_MS = 350; // of silence while somebody types
const ROWS_SHOWN = 12;

// What somebody typed and did not save, by the dialog it was typed into: kept until it is saved or thrown away.
const drafts = new Map();

/** Return the name under which a draft is kept: each profile has its own, for its rows and settings are others. */
function draftKey(name) {
  return `${profileInAddress()}#${name}`;
}

/**
 * Return [values, set, forget, dirty] of a form: `set({name: value})` changes some; a draft left behind comes back.
 *
 * It holds only what was typed: the other fields say what is stored now. `began` stays with it, as `draftOf` returns it.
 */
function useDraft(key, initial, began) {
  const first = useRef(initial);
  const [values, setValues] = useState(() => ({ ...first.current, ...draftOf(key).typed }));
  const typed = Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== first.current[name]));
  const dirty = Object.keys(typed).length > 0;
  useEffect(() => {
    if (dirty) drafts.set(key, { typed, began });
    else drafts.delete(key);
  }, [key, values, dirty, began]);
  const set = (some) => setValues((before) => ({ ...before, ...some }));
  const forget = () => {
    setValues({ ...first.current });
    drafts.delete(key);
  };
  return [values, set, forget, dirty];
}

/** Return {typed, began} of a draft that was left behind: what was typed, and over which text. */
function draftOf(key) {
  return drafts.get(key) || { typed: {} };
}

/** Ask before the page is left while something typed is unsaved. */
function useLeaveGuard(dirty) {
  useEffect(() => {
    if (!dirty) return undefined;
    const ask = (event) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [dirty]);
}

/** Return {told, error, again}: what a change would do. `body` null asks nothing; a late answer is dropped. */
function useTrial(path, body) {
  const key = body === null ? null : JSON.stringify(body);
  const [round, setRound] = useState(0);
  const [trial, setTrial] = useState({ key: null, told: null, error: null });
  const asked = useRef(false);
  useEffect(() => {
    if (key === null) return undefined;
    let late = false;
    const ask = async () => {
      const found = { key, told: null, error: null };
      try {
        found.told = await api.post(path, { ...JSON.parse(key), dry_run: true });
      } catch (error) {
        found.error = error;
      }
      if (!late) setTrial(found);
    };
    const timer = setTimeout(ask, asked.current ? TRIAL_AFTER_MS : 0);
    asked.current = true;
    return () => {
      late = true;
      clearTimeout(timer);
    };
  }, [path, key, round]);
  const again = () => setRound((before) => before + 1);
  const { told, error } = trial.key === key ? trial : { told: null, error: null };
  return { told, error, again };
}

/** Return whether a trial said that there is nothing to do. */
function isNothing(told) {
  const counts = Object.values(told.counts || {});
  return counts.length > 0 && counts.every((count) => !count);
}

/**
 * The frame of every change: `children` is the form, if there is one. `body` is what would be sent, null while it is
 * incomplete; `verb` is what the button says. `onDone(answer)` follows the change, `onRefused(error)` a refusal; while
 * `settling` the form itself tells of one.
 */
function ChangeDialog({ title, path, body, verb, danger, dirty, onClose, onDone, onRefused, settling, children }) {
  const trial = useTrial(path, body);
  const [failure, setFailure] = useState(null);
  const [leaving, setLeaving] = useState(false);
  const [doing, setDoing] = useState(false);
  const busy = useRef(false);
  const refused = useRef(false); // so what is shown behind the dialog may be out of date
  const form = useRef(null);
  useEffect(() => focusFirst(form.current), []);
  useLeaveGuard(Boolean(dirty));
  const key = JSON.stringify(body);
  useEffect(() => setFailure(null), [key]);
  const problem = failure || trial.error;
  useEffect(() => {
    if (!problem) return;
    refused.current = true;
    if (onRefused) onRefused(problem);
  }, [problem]);

  const ready = trial.told !== null && !isNothing(trial.told) && !doing;
  const act = async (event) => {
    if (event) event.preventDefault();
    if (!ready || busy.current) return;
    busy.current = true;
    setDoing(true);
    setFailure(null);
    try {
      // Only what was shown is changed: where somebody else was faster, the server says so.
      const answer = await api.post(path, { ...body, seen: trial.told.seen });
      const told = trial.told.notes || [];
      onDone({ ...answer, notes: (answer.notes || []).filter((note) => !told.includes(note)) });
    } catch (error) {
      setFailure(error);
      if (error.status === 400) trial.again();
    } finally {
      busy.current = false;
      setDoing(false);
    }
  };
  const retry = () => {
    if (failure && ready) return act();
    setFailure(null); // where not even the trial went through, that comes first
    return trial.again();
  };
  const leave = (gone) => {
    onClose(gone);
    if (refused.current) setTimeout(changed);
  };
  const close = () => {
    if (busy.current) return;
    if (dirty && !leaving) setLeaving(true);
    else leave(false); // a draft stays
  };
  return h(
    Dialog,
    { title, onClose: close },
    h(
      "form",
      { className: "hpg-form", onSubmit: act, noValidate: true, ref: form },
      children,
      h(
        "div",
        { className: "hpg-trial", role: "status", "aria-live": "polite" },
        body !== null && !trial.told && !problem && h("p", { className: "hpg-muted" }, "Looking at what would happen …"),
        trial.told && (!failure || failure.status === 400) && h(TrialTold, { told: trial.told }),
      ),
      problem && !settling && h(Problem, { error: problem, again: retry }),
      leaving
        ? h(LeaveQuestion, { onStay: () => setLeaving(false), onLeave: () => leave(true) })
        : h(
            "div",
            { className: "hpg-actions" },
            h(Act, { onClick: close }, "Cancel"),
            h(
              Act,
              { type: "submit", tone: danger ? "danger" : "main", "aria-disabled": ready ? undefined : "true" },
              doing ? "One moment …" : verb,
            ),
          ),
    ),
  );
}

/** Begin where somebody types; without a field at Cancel, so that Enter alone changes nothing. */
function focusFirst(form) {
  const first = form.querySelector("textarea, input, select") || form.querySelector(".hpg-actions button");
  if (first) first.focus();
}

function LeaveQuestion({ onStay, onLeave }) {
  const asking = useRef(null);
  useEffect(() => {
    const [, stay] = asking.current.querySelectorAll("button");
    stay.focus();
  }, []);
  return h(
    "div",
    { className: "hpg-leave", role: "alert", ref: asking },
    h("p", null, "What you typed is not saved."),
    h(
      "div",
      { className: "hpg-actions" },
      h(Act, { tone: "danger", onClick: onLeave }, "Throw it away"),
      h(Act, { tone: "main", onClick: onStay }, "Keep typing"),
    ),
  );
}

function TrialTold({ told }) {
  return h(
    Fragment,
    null,
    h("p", { className: "hpg-says" }, told.says),
    (told.notes || []).map((note, at) => h("p", { key: at, className: "hpg-note" }, note)),
    h(TrialRows, { rows: told.rows || [], counts: told.counts || {} }),
  );
}

/** The rows that a change is about, also those that nobody named. */
function TrialRows({ rows, counts }) {
  if (!rows.length) return null;
  const whole = Math.max(rows.length, (counts.memories || 0) + (counts.turns || 0));
  const more = whole - Math.min(rows.length, ROWS_SHOWN);
  return h(
    "ul",
    { className: "hpg-trial-rows", "aria-label": "What it is about" },
    rows.slice(0, ROWS_SHOWN).map((row, at) =>
      h(
        "li",
        { key: row.ref || at },
        row.ref && h("span", { className: "hpg-ref" }, row.ref),
        " ",
        row.content && h(StoredText, { text: cutText(row.content), lines: 2 }),
        row.changes && h(ChangedFields, { changes: row.changes }),
      ),
    ),
    more > 0 && h("li", { className: "hpg-muted" }, `and ${more.toLocaleString()} more`),
  );
}

function ChangedFields({ changes }) {
  const shown = (name, value) => {
    if (value === null || value === false || value === undefined) return "none";
    return name === "expires_at" ? h(When, { at: value, exact: true }) : String(value);
  };
  return h(
    "dl",
    { className: "hpg-changes" },
    Object.entries(changes).map(([name, [was, now]]) =>
      h(
        "div",
        { key: name },
        h("dt", null, fieldLabel(name)),
        h("dd", null, h("del", null, shown(name, was)), " ", h("ins", null, shown(name, now))),
      ),
    ),
  );
}

function cutText(text) {
  return text.length > 300 ? `${text.slice(0, 300)} …` : text;
}

function fieldLabel(name) {
  const words = name === "when" ? "applies when" : name.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}

/** Return onDone for a dialog: closes it, and says what was done, what the trial did not know, and the way back. */
function doneWith(onClose, onChanged) {
  return (answer) => {
    onClose(true);
    toast([answer.says, ...answer.notes].join("; "), { undo: answer.undo });
    if (onChanged) onChanged(answer);
  };
}
