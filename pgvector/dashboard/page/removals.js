function RemovalsView() {
  return h(Page, { title: "Removals" });
}
