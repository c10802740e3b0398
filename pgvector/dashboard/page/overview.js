function OverviewView() {
  return h(Page, { title: "Overview" });
}
