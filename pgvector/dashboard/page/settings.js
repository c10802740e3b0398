function SettingsView() {
  return h(Page, { title: "Settings" });
}
