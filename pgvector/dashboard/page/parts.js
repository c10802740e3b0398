// What the views are made of.
const INVISIBLE =
  /(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\p{M}\p{Script=Arabic}])[\u200c\u200d]+|(?<![\p{Emoji}\p{Script=Han}])[\ufe00-\ufe0f]+|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\uffff\ud800-\udfff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]+/gu;
const AT_ONCE = 10000; // characters of a text; a browser takes minutes for a long one of many directions
const MARKS_MOST = 1000; // of either kind in one text; what is more would make the page slow

function numberText(value) {
  return typeof value === "number" ? value.toLocaleString() : "–";
}

function countText(count, one, many) {
  return `${numberText(count)} ${count === 1 ? one : many || `${one}s`}`;
}

function bytesText(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 && unit ? 1 : 0 })} ${units[unit]}`;
}

function durationText(ms) {
  if (ms === null || ms === undefined) return "–";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

// ---- the frame of a view ----

function Page({ title, actions, children }) {
  return h(
    "section",
    { className: "hpg-view", "aria-labelledby": "hpg-title" },
    h("div", { className: "hpg-head" }, h("h2", { id: "hpg-title", tabIndex: -1 }, title), actions && h("div", { className: "hpg-actions" }, actions)),
    children,
  );
}

function Panel({ title, actions, children, className }) {
  return h(
    Card,
    { className: cx("hpg-panel", className) },
    title && h("div", { className: "hpg-panel-head" }, h("h3", null, title), actions),
    h("div", { className: "hpg-panel-body" }, children),
  );
}

function Problem({ error, again }) {
  if (!error) return null;
  return h(
    "div",
    { className: "hpg-problem", role: "alert" },
    h(StoredText, { text: sentence(error.message), inline: true }),
    error.status === 401 ? h(Act, { onClick: () => window.location.reload() }, "Load again") : again && h(Act, { onClick: again }, "Try again"),
  );
}

function Empty({ title, children }) {
  return h("div", { className: "hpg-empty" }, h("p", { className: "hpg-empty-title" }, title), children && h("div", null, children));
}

function Loading({ when }) {
  return h("div", { className: "hpg-loading", role: "status" }, when && h("span", { className: "hpg-spinner", "aria-hidden": "true" }), when && "Loading…");
}

/** Show what `answer` (of useAnswer) holds: its problem, a spinner, or `children(data)`. */
function Answered({ answer, children }) {
  const { data, error, slow, stale, again } = answer;
  return h(
    Fragment,
    null,
    h(Problem, { error, again }),
    data ? h("div", { className: cx("hpg-answer", stale && slow && "hpg-stale"), "aria-busy": stale ? "true" : undefined }, children(data)) : !error && h(Loading, { when: slow }),
  );
}

/** The way to the pages before and after; `name` is where the address holds the offset. */
function Pager({ offset, limit, count, more, total, view, params, name = "offset" }) {
  const from = Number(offset) || 0;
  if (from === 0 && !more) return null;
  const to = (start) => ({ view, params: { ...params, [name]: start || undefined } });
  const end = typeof total === "number" ? ` of ${numberText(total)}` : "";
  return h(
    "nav",
    { className: "hpg-pager", "aria-label": "Pages" },
    from > 0 ? h(Link, { ...to(Math.max(0, from - limit)), rel: "prev" }, "← Previous") : h("span", { className: "hpg-off" }, "← Previous"),
    h("span", { className: "hpg-muted" }, count ? `${numberText(from + 1)}–${numberText(from + count)}${end}` : "Nothing here"),
    more ? h(Link, { ...to(from + limit), rel: "next" }, "Next →") : h("span", { className: "hpg-off" }, "Next →"),
  );
}

// ---- values ----

function agoText(then, now) {
  const s = Math.round((now - then) / 1000);
  const ahead = s < 0;
  const d = Math.abs(s);
  if (d < 45) return ahead ? "in a moment" : "just now";
  const [value, unit] = d < 3600 ? [d / 60, "min"] : d < 86400 ? [d / 3600, "h"] : [d / 86400, "d"];
  const text = `${Math.max(1, Math.round(value))} ${unit}`;
  return ahead ? `in ${text}` : `${text} ago`;
}

/** A time: near ones as how long ago, others as a date; the exact time in its title. */
function When({ at, exact }) {
  const date = at ? new Date(at) : null;
  if (!date || Number.isNaN(date.getTime())) return h("span", { className: "hpg-muted" }, "–");
  const full = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const near = Math.abs(Date.now() - date) < 7 * 86400 * 1000;
  const text = exact ? full : near ? agoText(date, Date.now()) : date.toLocaleDateString(undefined, { dateStyle: "medium" });
  return h("time", { dateTime: date.toISOString(), title: full, className: "hpg-when" }, text);
}

/** Return pieces [text, marked]; `marks` are [start, end] in characters, as Python counts them. */
function markedPieces(text, marks) {
  if (!marks || !marks.length) return [[text, false]];
  const units = [0];
  for (const character of text) units.push(units[units.length - 1] + character.length);
  const at = (index) => units[Math.max(0, Math.min(index, units.length - 1))];
  const pieces = [];
  let from = 0;
  for (const [start, end] of marks.slice(0, MARKS_MOST)) {
    if (at(start) < from || end <= start) continue;
    pieces.push([text.slice(from, at(start)), false], [text.slice(at(start), at(end)), true]);
    from = at(end);
  }
  pieces.push([text.slice(from), false]);
  return pieces.filter(([piece]) => piece);
}

function codeText(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Return children in which runs of characters that nobody sees stand as marks. */
function visible(text, room) {
  const children = [];
  let from = 0;
  for (const found of text.matchAll(INVISIBLE)) {
    if (room.left <= 0) break;
    room.left -= 1;
    const count = [...found[0]].length;
    const says = count > 1 ? `${codeText(found[0])} +${count - 1}` : codeText(found[0]);
    if (found.index > from) children.push(text.slice(from, found.index));
    children.push(h("span", { key: found.index, className: "hpg-unseen", title: "A character that does not show" }, says));
    from = found.index + found[0].length;
  }
  const rest = text.slice(from);
  if (room.left > 0) return [...children, rest];
  const unmarked = h("span", { key: "rest", className: "hpg-unseen" }, "more of them are not marked");
  return [...children, rest.replace(INVISIBLE, ""), unmarked];
}

/** A stored text, as text: what it holds is never markup. `lines` cuts what is shown, `inline` keeps it in one line. */
function StoredText({ text, ...rest }) {
  return text && text.length > AT_ONCE && !rest.lines && !rest.inline ? h(LongText, { text }) : h(ShownText, { text: text || "", ...rest });
}

function ShownText({ text, marks, lines, inline }) {
  const children = useMemo(() => {
    const room = { left: MARKS_MOST };
    return markedPieces(text, marks).map(([piece, marked], at) =>
      marked ? h("mark", { key: at }, visible(piece, room)) : h(Fragment, { key: at }, visible(piece, room)),
    );
  }, [text, marks]);
  const props = { dir: "auto", className: cx("hpg-text", inline && "hpg-text-inline", lines && "hpg-clamp") };
  if (lines) props.style = { WebkitLineClamp: lines };
  return h(inline ? "span" : "div", props, children);
}

/** A text a part at a time. */
function LongText({ text }) {
  const [parts, setParts] = useState(1);
  const ends = useMemo(() => partEnds(text), [text]);
  const shown = ends.slice(0, parts);
  return h(
    Fragment,
    null,
    shown.map((end, at) => h(ShownText, { key: at, text: text.slice(at ? ends[at - 1] : 0, end) })),
    parts < ends.length && h(Act, { onClick: () => setParts(parts + 1) }, `Show more of ${countText(text.length, "character")}`),
  );
}

/** Return where each part of a text ends: at a space or a new line, where there is one. */
function partEnds(text) {
  const ends = [];
  for (let from = 0; from < text.length; from = ends[ends.length - 1]) {
    const end = Math.min(from + AT_ONCE, text.length);
    const gap = Math.max(text.lastIndexOf("\n", end - 1), text.lastIndexOf(" ", end - 1));
    ends.push(end < text.length && gap > from ? gap + 1 : end);
  }
  return ends;
}

/** A theme's name, which leads to the theme unless it is `plain`. */
function ThemeName({ theme, private: hidden, plain }) {
  const name = h(StoredText, { text: theme, inline: true });
  return h(
    "span",
    { className: "hpg-theme" },
    plain ? name : h(Link, { view: "theme", params: { theme }, title: theme.length > 40 ? theme : undefined }, name),
    hidden && h(Badge, { className: "hpg-badge", tone: "outline", title: "Of a private surface, such as a direct message" }, "private"),
  );
}

function Tag({ tone, children, title }) {
  return h(Badge, { className: "hpg-badge", tone: tone || "secondary", title }, children);
}

function Stat({ label, value }) {
  return h("div", { className: "hpg-stat" }, h("dt", null, label), h("dd", null, value));
}

// ---- fields and buttons ----

/** A button; `tone` is main, plain (the default), quiet or danger. */
function Act({ tone, children, className, ...rest }) {
  const looks = { main: {}, plain: { outlined: true }, quiet: { ghost: true }, danger: { outlined: true, destructive: true } };
  return h(Button, { type: "button", size: "sm", ...looks[tone || "plain"], className: cx("hpg-act", className), ...rest }, children);
}

function Field({ label, help, problem, children }) {
  const id = useId();
  const said = cx(help && `${id}-help`, problem && `${id}-problem`) || undefined;
  return h(
    "div",
    { className: "hpg-field" },
    h("label", { htmlFor: id }, label),
    children({ id, "aria-describedby": said, "aria-invalid": problem ? "true" : undefined }),
    help && h("p", { id: `${id}-help`, className: "hpg-help" }, help),
    problem && h("p", { id: `${id}-problem`, className: "hpg-field-problem" }, problem),
  );
}

/** A text field, of several lines where `rows` is given. `onInput` gets the text. */
function TextField({ label, help, problem, value, onInput, rows, ...rest }) {
  const typed = { ...rest, value: value === null || value === undefined ? "" : value, onInput: (event) => onInput(event.target.value) };
  return h(Field, { label, help, problem }, (named) =>
    rows ? h("textarea", { ...typed, ...named, rows, dir: "auto", className: "hpg-input" }) : h(Input, { ...typed, ...named }),
  );
}

/** A choice among `choices`: texts or [value, label]. `onInput` gets the value. */
function SelectField({ label, help, problem, value, onInput, choices, ...rest }) {
  const options = choices.map((choice) => (Array.isArray(choice) ? choice : [choice, choice]));
  const props = { ...rest, className: "hpg-input", value: value === null || value === undefined ? "" : value, onInput: (event) => onInput(event.target.value) };
  return h(Field, { label, help, problem }, (named) =>
    h("select", { ...props, ...named }, options.map(([key, says]) => h("option", { key, value: key }, says))),
  );
}

/** A box to tick. `onInput` gets true or false. */
function CheckField({ label, help, value, onInput, ...rest }) {
  const id = useId();
  return h(
    "div",
    { className: "hpg-check" },
    h("input", { ...rest, id, type: "checkbox", checked: Boolean(value), "aria-describedby": help ? `${id}-help` : undefined, onChange: (event) => onInput(event.target.checked) }),
    h("label", { htmlFor: id }, label),
    help && h("p", { id: `${id}-help`, className: "hpg-help" }, help),
  );
}

/** Filters above a list, each a part of the address. `fields` are [key, label, choices or "text" or "date"]. */
function Filters({ view, params, fields }) {
  const set = (key) => (value) => go(view, { ...params, [key]: value || undefined, offset: undefined }, { replace: true });
  const inUse = fields.filter(([key]) => params[key]).length;
  return h(
    "details",
    { className: "hpg-group", open: useState(inUse > 0)[0] },
    h("summary", null, inUse ? `Filters (${inUse})` : "Filters"),
    h(
      "div",
      { className: "hpg-filters" },
      fields.map(([key, label, kind]) => {
        const props = { key, label, value: params[key], onInput: set(key) };
        return Array.isArray(kind) ? h(SelectField, { ...props, choices: kind }) : h(TextField, { ...props, type: kind });
      }),
    ),
  );
}
