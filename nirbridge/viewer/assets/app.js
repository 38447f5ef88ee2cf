"use strict";
/* The page: a file is dropped or opened, its views are tabs, a search box finds, the panel tells. */
class Viewer {
  constructor() {
    this.by = (id) => document.getElementById(id);
    this.document = null;
    this.views = [];
    this.active = null;
    this.found = [];
    this.at = -1;
    this.open = 0;
    this.screen("welcome");
    this.files();
    this.theme();
    this.finder();
    this.help();
    document.addEventListener("keydown", (event) => this.key(event));
  }

  // -- files ---------------------------------------------------------------------------------------------------------

  files() {
    const input = this.by("pick"), veil = this.by("veil");
    for (const id of ["open", "open-first"]) this.by(id).addEventListener("click", () => input.click());
    input.addEventListener("change", () => { if (input.files.length) this.read(input.files[0]); input.value = ""; });
    let inside = 0;
    const carries = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
    addEventListener("dragenter", (event) =>
      { if (carries(event)) { event.preventDefault(); inside += 1; veil.hidden = false; } });
    addEventListener("dragover", (event) => { if (carries(event)) event.preventDefault(); });
    addEventListener("dragleave", () => { inside = Math.max(0, inside - 1); veil.hidden = inside === 0; });
    addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      inside = 0;
      veil.hidden = true;
      if (event.dataTransfer.files.length) this.read(event.dataTransfer.files[0]);
    });
  }
  async read(file) {
    let bytes;
    try { checkSize(file.name, file.size); } catch (error) { this.fail(file.name, error); return; }
    try { bytes = new Uint8Array(await file.arrayBuffer()); }
    catch { this.fail(file.name, { subject: file.name, found: "a file that the browser cannot read",
      limit: "a file that may be read, not a folder", hint: "open the file itself" }); return; }
    await this.take(file.name, bytes);
  }
  /** Reads and shows; of two files at once the later one. */
  async take(name, bytes) {
    const turn = ++this.open;
    Kit.say(`reading ${name}`);
    document.body.setAttribute("aria-busy", "true");
    await new Promise((done) => setTimeout(done, 20));
    try {
      const read = await readDocument(name, bytes);
      if (turn === this.open) this.show(read);
    } catch (error) {
      if (turn === this.open) this.fail(name, error);
    } finally { document.body.removeAttribute("aria-busy"); }
  }
  /** A file that the page itself carries (`nirbridge view`). */
  async carried() {
    const held = embeddedFile();
    if (held) await this.take(held.name || "file", held.bytes);
  }

  screen(name) {
    document.body.dataset.screen = name;
    this.by("welcome").hidden = name !== "welcome";
    this.by("failure").hidden = name !== "failure";
    this.by("views").hidden = name !== "document";
    Kit.tip(null);
  }
  fail(name, error) {
    this.clear();
    const parts = [["what", error.subject], ["found", error.found], ["allowed", error.limit],
      ["what helps", error.hint]].filter(([, said]) => said);
    if (!parts.length) parts.push(["found", error.message || error]);
    const again = Kit.el("button", { type: "button", class: "primary", on: { click: () => this.by("pick").click() } },
      "Open another file");
    this.by("failure").replaceChildren(
      Kit.el("div", { role: "alert" }, Kit.el("h2", { class: "bidi" }, `${Kit.short(name, 120)} cannot be shown`),
      Kit.el("dl", {}, parts.flatMap(([label, said]) =>
        [Kit.el("dt", {}, label), Kit.el("dd", { class: "bidi" }, Kit.short(said, 600))])), again));
    this.name(name, "");
    this.screen("failure");
  }
  name(title, kind) {
    const said = Kit.short(title, 160);
    this.by("title").textContent = said;
    this.by("title").title = said;
    this.by("kind").textContent = kind;
    document.title = kind ? `${said} · nirbridge viewer` : "nirbridge viewer";
  }

  // -- views ---------------------------------------------------------------------------------------------------------

  clear() {
    this.by("stage").replaceChildren();
    this.by("tabs").replaceChildren();
    this.by("panel").replaceChildren();
    this.views = [];
    this.active = null;
    this.unlist();
    this.by("search").value = "";
  }
  /** Shows a document of `readDocument`. */
  show(shown) {
    this.clear();
    this.document = shown;
    this.name(shown.title, shown.kind);
    this.screen("document");
    const kinds = [["graph", "Graph", GraphView], ["plan", "Floor plan", PlanView],
      ["recording", "Recording", RecordingView]].filter(([part]) => shown[part]);
    for (const [part, label, View] of kinds) {
      const host = Kit.el("div", { class: "view", id: `view-${part}`, role: "tabpanel",
        "aria-labelledby": `tab-${part}` });
      const tab = Kit.el("button", { type: "button", role: "tab", id: `tab-${part}`, "aria-controls": `view-${part}`,
        on: { click: () => this.turn(part) } }, label);
      this.by("stage").append(host);
      if (kinds.length > 1) this.by("tabs").append(tab); else host.setAttribute("aria-label", label),
        host.removeAttribute("role"), host.removeAttribute("aria-labelledby"), host.setAttribute("role", "region");
      this.views.push({ part, host, tab, View, data: shown[part], view: null });
    }
    if (kinds.length) this.turn(shown.kind === "map" && shown.plan ? "plan" : shown.kind === "recording"
      && shown.recording ? "recording" : kinds[0][0]);
    else this.overview(Kit.section("Content", null,
      Kit.el("p", { class: "note" }, "There is nothing to draw in this file.")));
    Kit.say(`${shown.title}: ${shown.kind}, ${shown.facts.map(([label, value]) => `${label} ${value}`).join(", ")}`);
  }
  turn(part) {
    for (const each of this.views) {
      const on = each.part === part;
      each.host.hidden = !on;
      each.tab.setAttribute("aria-selected", String(on));
      each.tab.tabIndex = on ? 0 : -1;
      if (!on) continue;
      this.active = each.view || (each.view = new each.View(this, each.data, each.host));
    }
    this.by("search").placeholder = { graph: "Search nodes and types", plan: "Search populations, cores",
      recording: "Search populations" }[part];
    this.unlist();
    this.active.panel();
    this.active.stage.redraw();
  }
  /** The panel of the whole file; sections of the view follow. */
  overview(...sections) {
    const { title, facts, notes } = this.document;
    this.fill(Kit.el("h2", { class: "bidi" }, Kit.short(title, 160)),
      facts.length ? Kit.el("section", {}, Kit.facts(facts)) : null,
        notes.length ? Kit.section("Notes", null,
        notes.map((note) => Kit.el("p", { class: "note said bidi" }, Kit.short(note, 600)))) : null, ...sections);
  }
  /** The panel of one thing; `back` leads to the whole. */
  detail(name, under, back, ...sections) {
    this.fill(Kit.el("button", { type: "button", class: "link back",
      on: { click: () => { back(); this.by("panel").focus(); } } }, "← Overview"),
      Kit.el("h2", { class: "bidi" }, Kit.short(name, 160)), Kit.el("p", { class: "sub" }, ...under), ...sections);
  }
  fill(...children) {
    const panel = this.by("panel"), inside = panel.contains(document.activeElement);
    panel.replaceChildren(...children.filter(Boolean));
    panel.scrollTop = 0;
    if (inside) panel.focus({ preventScroll: true });
  }

  // -- search --------------------------------------------------------------------------------------------------------

  finder() {
    const input = this.by("search");
    input.addEventListener("input", () => this.find(input.value));
    input.addEventListener("focus", () => { if (input.value) this.find(input.value); });
    input.addEventListener("blur", () => setTimeout(() => this.unlist(), 120));
    input.addEventListener("keydown", (event) => {
      const moves = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (moves && this.found.length) { this.mark((this.at + moves + this.found.length) % this.found.length);
        event.preventDefault(); }
      else if (event.key === "Enter" && this.found.length) this.jump(Math.max(0, this.at));
      else if (event.key === "Escape") { input.value = ""; this.unlist(); this.toStage(); event.stopPropagation(); }
    });
  }
  find(text) {
    const said = text.trim().toLowerCase(), list = this.by("found");
    if (!said || !this.active) { this.unlist(); return; }
    const all = this.active.search(said);
    this.found = all.slice(0, 60);
    list.replaceChildren(...this.found.map(({ main, more }, k) =>
      Kit.el("li", { role: "option", id: `found-${k}`, "aria-selected": "false",
      on: { pointerdown: (event) => { event.preventDefault(); this.jump(k); } } },
      Kit.el("span", {}, Kit.short(main, 120)), Kit.el("span", {}, Kit.short(more, 60)))));
    const more = all.length - this.found.length;
    if (!all.length || more) list.append(
      Kit.el("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" },
      all.length ? `and ${Kit.number(more)} more` : "nothing found"));
    list.hidden = false;
    this.by("search").setAttribute("aria-expanded", "true");
    Kit.say(`${Kit.number(all.length)} found`);
    this.mark(this.found.length ? 0 : -1);
  }
  mark(k) {
    this.at = k;
    [...this.by("found").children].forEach((each, j) =>
      { each.setAttribute("aria-selected", String(j === k)); if (j === k) each.scrollIntoView({ block: "nearest" }); });
    if (k < 0) this.by("search").removeAttribute("aria-activedescendant");
    else this.by("search").setAttribute("aria-activedescendant", `found-${k}`);
  }
  jump(k) {
    const { act } = this.found[k];
    this.unlist();
    act();
    this.toStage();
  }
  unlist() {
    this.found = [];
    this.by("found").hidden = true;
    this.by("search").setAttribute("aria-expanded", "false");
    this.by("search").removeAttribute("aria-activedescendant");
  }
  toStage() { if (this.active) this.active.stage.canvas.focus({ preventScroll: true }); }

  help() {
    const dialog = this.by("keys");
    this.by("help").addEventListener("click", () => dialog.showModal());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  // -- keys and colours ----------------------------------------------------------------------------------------------

  key(event) {
    const finds = (event.ctrlKey || event.metaKey) && !event.altKey && event.key === "f";
    if (finds && this.active && event.target !== this.by("search")) { event.preventDefault(); this.by("search").select();
      return; }
    if (event.altKey || event.metaKey || event.ctrlKey || this.by("keys").open) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox",
      { target } = event;
    if (event.key === "/" && !typing && this.active) { event.preventDefault(); this.by("search").focus();
      this.by("search").select(); return; }
    if (event.key === "?" && !typing) { this.by("keys").showModal(); return; }
    if (event.key === "Escape" && !typing && this.active && this.active.selected !== null) { this.active.select(null);
      return; }
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && target.getAttribute && target.getAttribute("role") === "tab") {
      const k = this.views.findIndex((each) => each.tab === target),
        next = this.views[(k + step + this.views.length) % this.views.length];
      this.turn(next.part);
      next.tab.focus();
      event.preventDefault();
    } else if (!typing && target === document.body && this.active
      && ["+", "=", "-", "0"].includes(event.key)) this.active.stage.key(event);
  }
  theme() {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
    const again = () => {
      Kit.forget();
      for (const each of this.views) if (each.view) { if (each.view.recolour) each.view.recolour();
        each.view.stage.redraw(); }
      for (const canvas of this.by("panel").querySelectorAll("canvas")) if (canvas.redraw
        && canvas.clientWidth) canvas.redraw();
    };
    this.by("theme").addEventListener("click", () => {
      const now = root.dataset.theme || (dark.matches ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      again();
    });
    dark.addEventListener("change", again);
  }
}
const nirViewer = new Viewer();
window.nirViewer = nirViewer;
nirViewer.carried();
