// The settings that matter: tried before they are saved. A secret goes in and never comes out.

function SettingsView() {
  const answer = useAnswer("/settings", {});
  return h(
    Page,
    { title: "Settings" },
    h(Answered, { answer }, (data) => h(SettingsForm, { key: data.file, data })),
  );
}

/** Return what a field holds as a form holds it. */
function settingShown({ type, value }) {
  if (type === "secret") return "";
  if (type === "bool") return value === true || value === "true";
  return value === null || value === undefined ? "" : String(value);
}

function SettingsForm({ data }) {
  const initial = Object.fromEntries(data.fields.map((field) => [field.key, settingShown(field)]));
  const draft = drafts.get(draftKey("settings")) || { typed: {}, shown: {} };
  const [typed, setTyped] = useState(draft.typed); // what differs from what is saved, by key
  const [shown, setShown] = useState(draft.shown); // what a field held when one began to type in it
  const changes = Object.fromEntries(Object.entries(typed).filter(([key, value]) => key in initial && value !== initial[key]));
  const dirty = Object.keys(changes).length > 0;
  const trial = useSettingsTrial(changes, shown, (now) => setShown((before) => ({ ...before, ...now })));
  useLeaveGuard(dirty);
  // A secret is not kept where another view could come upon it.
  const secrets = data.fields.filter(({ type }) => type === "secret").map(({ key }) => key);
  useEffect(() => {
    const kept = Object.fromEntries(Object.entries(typed).filter(([key]) => !secrets.includes(key)));
    drafts.set(draftKey("settings"), { typed: kept, shown });
  }, [typed, shown]);
  useEffect(() => setShown((before) => Object.fromEntries(Object.entries(before).filter(([key]) => key in typed))), [data]);
  const problems = Object.fromEntries(((trial.told && trial.told.problems) || []).map((each) => [each.key, each]));
  const clear = () => {
    setTyped({});
    setShown({});
  };
  const submit = (event) => {
    event.preventDefault();
    if (trial.passed) trial.save(clear);
    else if (dirty) trial.test();
  };
  return h(
    "form",
    { className: "hpg-form hpg-settings", onSubmit: submit, noValidate: true },
    data.file && h("p", { className: "hpg-muted" }, "Kept in ", h(StoredText, { text: data.file, inline: true })),
    (data.notes || []).map((note, at) => h("p", { key: at, className: "hpg-note" }, note)),
    h(
      Panel,
      null,
      data.fields.map((field) =>
        h(SettingField, {
          key: field.key,
          field,
          value: field.key in typed ? typed[field.key] : initial[field.key],
          problem: problems[field.key],
          onInput: (value) => {
            if (field.type !== "secret") setShown((before) => ({ [field.key]: field.value, ...before }));
            setTyped((before) => ({ ...before, [field.key]: value }));
          },
        }),
      ),
    ),
    h(
      "div",
      { className: "hpg-settings-foot" },
      h(SettingsTold, { trial, dirty }),
      h(
        "div",
        { className: "hpg-actions" },
        h(Act, { onClick: trial.test, "aria-disabled": dirty && !trial.busy ? undefined : "true" }, "Test"),
        h(Act, { type: "submit", tone: "main", "aria-disabled": trial.passed && !trial.busy ? undefined : "true" }, "Save"),
        dirty && h(Act, { tone: "quiet", onClick: clear }, "Throw changes away"),
      ),
    ),
  );
}

/**
 * Return {told, error, passed, busy, test, save}; what was told holds for exactly these changes. `learn` is called
 * with the values that are not, or no longer, those in `shown`.
 */
function useSettingsTrial(changes, shown, learn) {
  const key = JSON.stringify(changes);
  const [state, setState] = useState({ key: null, told: null, error: null, failed: null });
  const [busy, setBusy] = useState("");
  const running = useRef(false);
  const send = async (what, path, then) => {
    if (running.current || key === "{}") return;
    running.current = true;
    setBusy(what);
    try {
      const told = await api.post(path, { changes, shown });
      if (then && told.ok) then(told);
      learn(told.now || {});
      setState({ key: then && told.ok ? null : key, told, error: null, failed: null });
    } catch (error) {
      setState((before) => ({ ...before, key, error, failed: what }));
    } finally {
      running.current = false;
      setBusy("");
    }
  };
  const { told, error, failed } = state.key === key ? state : { told: null, error: null, failed: null };
  const test = () => send("test", "/settings/test");
  const save = (cleared) =>
    send("save", "/settings", (saved) => {
      cleared();
      toast([saved.says, saved.restart && "restart what runs, so that it takes effect"].filter(Boolean).join("; "));
    });
  return { told, error, failed, busy, test, save, passed: Boolean(told && told.ok && !error) };
}

function SettingsTold({ trial, dirty }) {
  const { told, error, busy, test } = trial;
  const hint = !dirty ? "Nothing is changed." : "Test what you changed; then it can be saved.";
  const says = busy ? (busy === "test" ? "Testing …" : "Saving …") : told ? told.says : hint;
  return h(
    Fragment,
    null,
    h(
      "div",
      { role: "status", "aria-live": "polite", className: cx("hpg-trial", told && !told.ok && "hpg-trial-failed") },
      h("p", { className: "hpg-says" }, says),
      !busy && told && (told.notes || []).map((note, at) => h("p", { key: at, className: "hpg-note" }, note)),
      !busy && told && (told.problems || []).map((each, at) => h("p", { key: at, className: "hpg-note" }, problemText(each))),
    ),
    h(Problem, { error, again: test }),
  );
}

function problemText({ key, says, fix }) {
  return [key && `${key}: `, says, fix && ` To mend it: ${fix}`].filter(Boolean).join("");
}

function SettingField({ field, value, problem, onInput }) {
  const { key, label, help, type, choices, source } = field;
  const props = { label, value, onInput, name: key, problem: problem && problem.says };
  const said = sentences(help, source && `From ${source}`);
  if (type === "bool") return h(CheckField, { ...props, help: said });
  if (type === "choice") return h(SelectField, { ...props, choices: choices || [], help: said });
  if (type === "secret") {
    const set = field.set ? "It is set. Leave it empty to keep it" : "It is not set";
    return h(TextField, { ...props, type: "password", autoComplete: "new-password", help: sentences(said, set) });
  }
  const number = type === "number" ? { inputMode: "decimal" } : {};
  return h(TextField, { ...props, ...number, help: said, placeholder: defaultShown(field), spellCheck: false });
}

function sentences(...said) {
  return said
    .filter(Boolean)
    .map((each) => (/[.!?]$/.test(each) ? each : `${each}.`))
    .join(" ");
}

function defaultShown({ default: value }) {
  return value === null || value === undefined || value === "" ? undefined : String(value);
}
