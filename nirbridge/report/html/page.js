"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const data = JSON.parse(at("data").textContent);
  const add = (parent, name, text) => {
    const child = document.createElement(name);
    if (text !== undefined) child.textContent = text;
    parent.append(child);
    return child;
  };
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  // -- light and dark
  const theme = at("theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const showTheme = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
    theme.setAttribute("aria-pressed", String(isDark()));
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  showTheme();

  // -- the graph of the network: boxes are buttons
  const nodes = [...document.querySelectorAll("[data-node]")];
  const showNode = (node) => {
    const panel = at("network-panel");
    nodes.forEach((each) => each.setAttribute("aria-pressed", String(each === node)));
    panel.replaceChildren();
    add(panel, "h3", node.dataset.node);
    const list = add(panel, "dl");
    for (const [label, said] of data.nodes[node.dataset.node] || [["", "not listed: see nirbridge inspect"]]) {
      add(list, "dt", label);
      add(list, "dd", said);
    }
  };
  nodes.forEach((node) => {
    node.addEventListener("click", () => showNode(node));
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      showNode(node);
    });
  });
  const first = nodes.find((node) => node.classList.contains("population"));
  if (first) showNode(first);

  // -- pictures with a cursor: what is under the mouse, or where the arrow keys are
  const pointIn = (svg, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const moveCursor = (cursor, x, y) => {
    cursor.setAttribute("x", x);
    cursor.setAttribute("y", y);
    cursor.setAttribute("visibility", "visible");
  };
  const keepInView = (frame, svg, x, y) => {
    const box = svg.getBoundingClientRect();
    const outer = frame.getBoundingClientRect();
    const left = box.left + x * (box.width / svg.viewBox.baseVal.width) - outer.left;
    if (left < 40 || left > outer.width - 40) frame.scrollLeft += left - outer.width / 2;
  };

  // -- floor plan
  const plan = data.plan;
  if (plan) {
    const frame = at("plan");
    const svg = at("plan-picture");
    const section = at("floorplan");
    const panel = at("plan-panel");
    const routes = at("plan-routes");
    const middle = plan.size / 2;
    let current = null;
    const findCore = (x, y) =>
      plan.cores.find((core) => x >= core.x && x < core.x + plan.size && y >= core.y && y < core.y + plan.size);
    const percent = (used, limit) => {
      const share = (100 * used) / limit;
      return `${share >= 99.5 && share < 100 ? Math.min(share, 99.9).toFixed(1) : share.toFixed(0)} %`;
    };
    const useTable = (core) => {
      const table = add(panel, "table");
      add(table, "caption", "Use of the core");
      const head = add(add(table, "thead"), "tr");
      ["resource", "used", "of its limit"].forEach((text) => (add(head, "th", text).scope = "col"));
      const body = add(table, "tbody");
      plan.resources.forEach((name, k) => {
        const row = add(body, "tr");
        add(row, "th", name).scope = "row";
        add(row, "td", core.u[k].toLocaleString("en")).className = "n";
        add(row, "td", plan.limits[k] ? percent(core.u[k], plan.limits[k]) : "no limit").className = "n";
      });
    };
    const showCore = (core) => {
      current = core;
      moveCursor(at("plan-cursor"), core.x - 1.5, core.y - 1.5);
      panel.replaceChildren();
      add(panel, "h3", `Core ${core.n}`);
      add(panel, "p", core.at);
      if (core.f) add(panel, "p", `Fullest: ${plan.resources[core.f[0]]}, ${core.f[1]} %`);
      const list = add(panel, "ul");
      core.l.forEach(([layer, count]) => add(list, "li", `${layer + 1} ${plan.layers[layer]}: ${count.toLocaleString("en")} neurons`));
      add(panel, "p", core.s).className = "small";
      useTable(core);
      const said = core.r ? `${core.r.length} links carry its spikes; Enter or a click shows them.` : "Its routes are not kept in this page.";
      add(panel, "p", said).className = "note";
    };
    const line = (x0, y0, x1, y1) => {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", "route");
      path.setAttribute("d", `M${x0} ${y0}L${x1} ${y1}`);
      routes.append(path);
    };
    const showRoutes = (core) => {
      routes.replaceChildren();
      (core.r || []).forEach((number) => {
        const [x0, y0, x1, y1] = plan.links[number];
        const reach = [(Math.sign(x1 - x0) * plan.tile[0]) / 2, (Math.sign(y1 - y0) * plan.tile[1]) / 2];
        line(x0 - reach[0], y0 - reach[1], x1 + reach[0], y1 + reach[1]);
      });
    };
    // the nearest core in a direction: distance along it, and twice the distance aside
    const nextCore = ([dx, dy]) => {
      let best = null;
      let least = Infinity;
      for (const core of plan.cores) {
        const [x, y] = [core.x - current.x, core.y - current.y];
        const along = x * dx + y * dy;
        if (along <= 0.5) continue;
        const cost = along + 2 * Math.abs(x * dy + y * dx);
        if (cost < least) [best, least] = [core, cost];
      }
      return best;
    };
    frame.addEventListener("mousemove", (event) => {
      const point = pointIn(svg, event);
      const core = findCore(point.x, point.y);
      if (core && core !== current) showCore(core);
    });
    frame.addEventListener("click", (event) => {
      const point = pointIn(svg, event);
      const core = findCore(point.x, point.y);
      if (core) showCore(core);
      if (core) showRoutes(core);
    });
    frame.addEventListener("keydown", (event) => {
      if (event.key === "Escape") routes.replaceChildren();
      if (event.key === "Enter" && current) showRoutes(current);
      if (!(event.key in arrows)) return;
      event.preventDefault();
      const core = current ? nextCore(arrows[event.key]) : plan.cores[0];
      if (core) showCore(core);
      if (core) keepInView(frame, svg, core.x + middle, core.y + middle);
    });
    document.querySelectorAll("[name=plan-colour]").forEach((radio) => {
      radio.addEventListener("change", () => (section.dataset.colour = radio.value));
      if (radio.checked) section.dataset.colour = radio.value;
    });
    const links = at("plan-show-links");
    links.addEventListener("change", () => (section.dataset.links = links.checked ? "on" : "off"));
    if (plan.cores.length) showCore(plan.cores[plan.first]);
  }

  // -- matrix of traffic
  const matrix = at("matrix") && data.matrix;
  if (matrix) {
    const frame = at("matrix");
    const svg = at("matrix-picture");
    const values = new Map(matrix.cells.map(([row, column, value]) => [row * matrix.to.length + column, value]));
    let [row, column] = [-1, 0];
    const showCell = (newRow, newColumn) => {
      if (newRow < 0 || newColumn < 0 || newRow >= matrix.from.length || newColumn >= matrix.to.length) return;
      [row, column] = [newRow, newColumn];
      const value = values.get(row * matrix.to.length + column) || 0;
      const [x, y] = [matrix.left + column * matrix.side, matrix.top + row * matrix.side];
      moveCursor(at("matrix-cursor"), x - 1, y - 1);
      const names = `${matrix.of} ${matrix.from[row]} to ${matrix.of} ${matrix.to[column]}`;
      at("matrix-status").textContent = `${names}: ${value ? `${value} spikes per time step` : "no spikes"}`;
    };
    frame.addEventListener("mousemove", (event) => {
      const point = pointIn(svg, event);
      showCell(Math.floor((point.y - matrix.top) / matrix.side), Math.floor((point.x - matrix.left) / matrix.side));
    });
    frame.addEventListener("keydown", (event) => {
      if (!(event.key in arrows)) return;
      event.preventDefault();
      const [dx, dy] = row < 0 ? [0, 1] : arrows[event.key];
      showCell(row + dy, column + dx);
      keepInView(frame, svg, matrix.left + column * matrix.side, 0);
    });
  }

  // -- tables that can be sorted
  const numberIn = (text) => parseFloat(text.replace(/[,~()\s]/g, ""));
  const sortBy = (table, heading, index) => {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    table.querySelectorAll("thead th").forEach((each) => each.setAttribute("aria-sort", "none"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const key = (line) => line.cells[index].textContent;
    const compare = (a, b) => {
      const difference = numberIn(key(a)) - numberIn(key(b));
      return Number.isNaN(difference) ? key(a).localeCompare(key(b), "en", { numeric: true }) : difference;
    };
    [...body.rows].sort((a, b) => (up ? compare(a, b) : compare(b, a))).forEach((line) => body.append(line));
  };
  document.querySelectorAll("table[data-sort]").forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((heading, index) => {
      const button = document.createElement("button");
      button.type = "button";
      if (!heading.textContent) return;
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sortBy(table, heading, index));
    });
  });
})();
