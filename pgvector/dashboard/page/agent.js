// As the agent would see it: what stands before a message of a theme.

function AgentView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "As the agent would see it" },
    h("p", { className: "hpg-muted" }, "What an agent gets from its memory together with this message, to the letter."),
    h(AgentForm, { params }),
    params.message && params.theme
      ? h(AgentAnswer, { params })
      : h(Empty, { title: "Which message, in which theme?" }, h("p", null, "No agent hears of it, and nothing is stored.")),
  );
}

function AgentForm({ params }) {
  const { asked, text } = useForm("agent", ["message", "theme", "session"], params);
  const ready = asked.message.trim() && asked.theme.trim();
  const submit = (event) => {
    event.preventDefault();
    if (ready) go("agent", { ...filledIn(asked), message: asked.message });
  };
  return h(
    "form",
    { className: "hpg-form", onSubmit: submit },
    h(TextField, { label: "Message", rows: 3, required: true, ...text("message") }),
    h(
      "div",
      { className: "hpg-fields" },
      h(ThemeField, { required: true, ...text("theme") }),
      h(TextField, { label: "Session", help: "Empty: a new one", ...text("session") }),
    ),
    h(
      "div",
      { className: "hpg-actions" },
      h(Act, { type: "submit", tone: "main", "aria-disabled": ready ? undefined : "true" }, "Show"),
    ),
  );
}

/** Return from which similarity on a row is shown: of turns, of which there are many, it is another one. */
function agentBar({ bar, bar_of_turns: ofTurns }) {
  return ofTurns === bar ? number(bar) : `${number(bar)}, of turns ${number(ofTurns)}`;
}

function AgentAnswer({ params }) {
  const asked = { message: params.message, theme: params.theme, session: params.session };
  const answer = useAnswer("/agent-view", asked);
  return h(Answered, { answer }, (data) => h(AgentTold, { data }));
}

function AgentTold({ data }) {
  return h(
    Fragment,
    null,
    h("p", { role: "status", className: "hpg-muted" }, agentSummary(data)),
    data.silent && h("p", { className: "hpg-note" }, `Nothing is shown: ${data.silent}`),
    data.block && h(AgentBlock, { block: data.block, tokens: data.tokens, budget: data.budget_tokens }),
    h(AgentLines, { title: "In it", lines: data.lines || [], empty: "No row is in it." }),
    h(AgentLines, {
      title: typeof data.bar === "number" ? `Left out (the bar is ${agentBar(data)})` : "Left out",
      lines: data.below || [],
      empty: "Nothing was left out.",
    }),
  );
}

function agentSummary({ tokens, budget_tokens: budget, took_ms: took, mode, why_by_words: why, lines }) {
  const rows = (lines || []).length;
  return [
    `${(tokens || 0).toLocaleString()} of ${(budget || 0).toLocaleString()} tokens`,
    rows === 1 ? "1 row" : `${rows} rows`,
    mode === "hybrid" && "searched by words and meaning",
    mode === "lexical" && `searched by words only${why ? `: ${why}` : ""}`,
    durationText(took),
  ]
    .filter(Boolean)
    .join(" · ");
}

function AgentBlock({ block, tokens, budget }) {
  return h(
    "section",
    { "aria-label": "The block" },
    budget
      ? h("meter", { min: 0, max: budget, value: tokens, className: "hpg-meter", "aria-label": "Tokens of the budget" })
      : null,
    h("pre", { className: "hpg-block", tabIndex: 0, "aria-label": "What the agent gets" }, h(StoredText, { text: block })),
  );
}

function AgentLines({ title, lines, empty }) {
  return h(
    "section",
    { className: "hpg-section", "aria-label": title },
    h("h3", null, title),
    lines.length ? h("ol", { className: "hpg-results" }, lines.map((line) => h(AgentLine, { key: line.ref, line }))) : null,
    !lines.length && h("p", { className: "hpg-muted" }, empty),
  );
}

function AgentLine({ line }) {
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "div",
      { className: "hpg-row-head" },
      h(Link, { view: "row", params: { ref: line.ref }, className: "hpg-ref" }, line.ref),
      number(line.similarity) && h(Tag, null, `similarity ${number(line.similarity)}`),
      line.why && h("span", { className: "hpg-muted" }, line.why),
    ),
    h(StoredText, { text: line.content, lines: 4 }),
  );
}
