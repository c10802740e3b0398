function ThemeView() {
  return h(Page, { title: "Theme" });
}
