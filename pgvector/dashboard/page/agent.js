function AgentView() {
  return h(Page, { title: "As the agent sees it" });
}
