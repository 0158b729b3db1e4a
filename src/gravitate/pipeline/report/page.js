"use strict";
// Draws every plot. Figures name colours by role, `var(--name)`; the stylesheet knows their values,
// which change with light and dark and when the page is printed.
(function () {
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const narrow = matchMedia("(max-width: 40rem)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const settings = { responsive: true, displaylogo: false, displayModeBar: false };

  function coloured(value, style) {
    if (typeof value === "string") {
      const role = /^var\((--[a-z0-9]+)\)$/.exec(value);
      return role ? style.getPropertyValue(role[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((part) => coloured(part, style));
    if (value === null || typeof value !== "object") return value;
    const found = {};
    for (const key of Object.keys(value)) found[key] = coloured(value[key], style);
    return found;
  }

  function themed(layout, style) {
    const ink = style.getPropertyValue("--ink").trim();
    const panel = style.getPropertyValue("--panel").trim();
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: "system-ui, sans-serif", size: narrow.matches ? 11 : 13, color: ink };
    layout.hoverlabel = Object.assign({}, layout.hoverlabel, {
      bgcolor: panel, bordercolor: ink, font: { color: ink, size: 13 },
    });
    layout.autosize = true;
    return layout;
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    return Promise.all(plots.map((plot) => Plotly.react(
      plot.id, coloured(plot.data, style), themed(coloured(plot.layout, style), style), settings,
    )));
  }

  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    draw();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    draw();
  });
  draw().then(() => document.documentElement.setAttribute("data-drawn", String(plots.length)));
})();
