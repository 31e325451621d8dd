(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const { root, colour, plain, written, apart, tell, setUpTheme, loadPlotly } = shared;
  const narrow = () => innerWidth < 600;
  const coarse = matchMedia("(pointer: coarse)").matches;
  const faint = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
  const at = (column, place) => (Array.isArray(column) ? (column.length ? column[place] : null) : column);
  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
  };

  // Curves of one comparison show the same steps: a group has one range.
  const groups = new Map();
  for (const [id, figure] of Object.entries(figures)) {
    if (!groups.has(figure.group)) groups.set(figure.group, { ids: [], begun: [], range: null, whole: [0, 1] });
    groups.get(figure.group).ids.push(id);
  }
  for (const group of groups.values()) {
    const ends = group.ids.flatMap((id) => figures[id].steps.length ? [figures[id].steps[0], figures[id].steps.at(-1)] : []);
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    const margin = Math.max((last - first) * 0.015, 0.5);
    group.whole = [first - margin, last + margin];
  }

  const traces = (figure) => {
    const [a, b] = figure.labels;
    const torch = colour("torch"), jax = colour("jax"), few = figure.steps.length < 3;
    const mode = few || figure.where === "evaluation" ? "lines+markers" : "lines";
    const side = (name, y, line, more) => ({
      x: figure.steps, y, name: plain(name), mode, line, type: "scatter", customdata: y.map((value) => written(value, figure.whole)),
      hovertemplate: "%{customdata}", ...more,
    });
    const drawn = [
      side(a, figure.a, { color: faint(torch, 0.55), width: 5 }, { key: a, look: "", marker: { color: torch, size: 8 } }),
      side(b, figure.b, { color: jax, width: 1.6 }, { key: b, look: "thin", marker: { color: jax, size: 4 } }),
    ];
    if (figure.kind !== "losses") return drawn;
    const tested = figure.evaluations, floor = figure.floor;
    for (const [values, name, ink, symbol, look] of [[tested.a, a, torch, "circle-open", "circle"], [tested.b, b, jax, "x-thin-open", "cross"]]) {
      if (!tested.steps.length) break;
      drawn.push({
        x: tested.steps, y: values, name: plain(`${name}, test`), key: `${name}, test split`, look, mode: "markers", type: "scatter",
        marker: { color: ink, symbol, size: symbol === "circle-open" ? 11 : 8, line: { color: ink, width: 1.8 } },
        customdata: values.map((value, place) => `${written(value)} (step ${tested.steps[place]})`), hovertemplate: "%{customdata}",
      });
    }
    const below = { xaxis: "x", yaxis: "y2", type: "scatter", mode: "lines" };
    const drawable = (values) => values.map((value) => (value === null ? null : Math.min(Math.max(value, floor), 1e3)));
    if (figure.band.length) {
      const band = { ...below, x: figure.steps, line: { width: 0, shape: "hv" } };
      drawn.push({ ...band, y: figure.steps.map(() => floor), hoverinfo: "skip", key: "controls, furthest so far" });
      drawn.push({
        ...band, y: drawable(figure.band), name: "controls, so far", key: "controls, furthest so far", look: "band", ink: colour("control"),
        fill: "tonexty", fillcolor: faint(colour("control"), 0.55), customdata: figure.band.map(apart), hovertemplate: "%{customdata}",
      });
    }
    drawn.push({
      ...below, x: figure.steps, y: drawable(figure.differences), name: "difference", key: "relative difference", look: "thin",
      line: { color: jax, width: 1.4 }, customdata: figure.differences.map(apart), hovertemplate: "%{customdata}",
      mode: few ? "lines+markers" : "lines",
    });
    const limits = figure.steps.map((_, place) => at(figure.limits, place));
    if (limits.some((limit) => limit !== null)) {
      drawn.push({
        ...below, x: figure.steps, y: drawable(limits), name: "limit", key: "limit", look: "dash",
        line: { color: colour("limit"), width: 1.4, dash: "dash" }, customdata: limits.map(apart), hovertemplate: "%{customdata}",
      });
    }
    return drawn;
  };

  // The vertical range of the visible steps, so that the end of a curve that fell far can be read.
  const span = (figure, range) => {
    let low = Infinity, high = -Infinity;
    for (const columns of [figure, figure.evaluations]) {
      if (!columns) continue;
      columns.steps.forEach((step, place) => {
        if (step < range[0] || step > range[1]) return;
        for (const value of [columns.a[place], columns.b[place]]) {
          if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
        }
      });
    }
    if (low > high) return undefined;
    const large = Math.max(Math.abs(low), Math.abs(high));  // a nearly constant curve is drawn as a line, not as noise
    const margin = high - low > large * 1e-4 ? (high - low) * 0.06 : large * 0.1 || 1;
    return [low - margin, high + margin];
  };
  const decades = (figure) => {
    let high = figure.floor * 100;
    for (const column of [figure.differences, figure.band, [].concat(figure.limits)]) {
      for (const value of column) if (value !== null) high = Math.max(high, Math.min(value, 1e3));
    }
    return [Math.log10(figure.floor) - 0.3, Math.log10(high) + 0.7];
  };

  const layout = (figure) => {
    const group = groups.get(figure.group), range = group.range || group.whole, ink = colour("ink"), small = narrow();
    const axis = {
      gridcolor: colour("grid"), linecolor: colour("line"), zeroline: false, color: colour("quiet"), automargin: true,
      ticks: "", tickfont: { size: 12 },
    };
    const made = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: colour("paper"), showlegend: false, hovermode: small ? "x" : "x unified",
      hoversubplots: "axis", dragmode: coarse ? false : "zoom", separators: ".", font: { family: "system-ui, sans-serif", color: ink },
      margin: { l: 12, r: 12, t: 12, b: 12 },
      hoverlabel: { bgcolor: faint(colour("paper"), 0.86), bordercolor: colour("line"), font: { color: ink, size: 11, family: "ui-monospace, Menlo, Consolas, monospace" } },
      xaxis: {
        ...axis, range, showspikes: true, spikemode: "across", spikethickness: 1, spikedash: "dot", spikecolor: colour("quiet"),
        spikesnap: "hovered data", title: { text: figure.kind === "losses" ? "step" : "", font: { size: 12 }, standoff: 6 },
        tickformat: ",d", nticks: small || figure.kind !== "losses" ? 5 : 10, unifiedhovertitle: { text: "step %{x:,d}" },
      },
      yaxis: { ...axis, range: span(figure, range), fixedrange: true, nticks: figure.kind === "losses" ? 7 : 5 },
    };
    if (figure.kind !== "losses") return made;
    made.xaxis.anchor = "y2";
    made.yaxis.domain = [small ? 0.48 : 0.46, 1];
    made.annotations = [];
    if (small) {  // a title next to the axis would take a fifth of the width
      for (const [text, y] of [["loss", 1], ["relative difference", 0.41]]) {
        made.annotations.push({ xref: "paper", yref: "paper", x: 0, y, xanchor: "left", yanchor: "bottom", showarrow: false, text, font: { size: 11, color: colour("quiet") } });
      }
      made.margin.t = 20;
    }
    made.yaxis.title = small ? { text: "" } : { text: "loss", font: { size: 12 }, standoff: 8 };
    made.yaxis2 = {
      ...axis, domain: [0, 0.41], type: "log", range: decades(figure), fixedrange: true, exponentformat: "e",
      title: small ? { text: "" } : { text: "relative difference", font: { size: 12 }, standoff: 8 }, nticks: 6,
    };
    if (figure.first !== null) {
      const late = figure.first > (range[0] + range[1]) / 2;
      made.shapes = [{
        type: "line", xref: "x", yref: "paper", x0: figure.first, x1: figure.first, y0: 0, y1: 1, layer: "below",
        line: { color: colour("differ"), width: 1.5 },
      }];
      if (figure.first >= range[0] && figure.first <= range[1]) {
        made.annotations.push({
          xref: "x", yref: "paper", x: figure.first, y: 1, yanchor: "top", xanchor: late ? "right" : "left", showarrow: false,
          text: `they part at step ${figure.first}`, font: { color: colour("differ"), size: 12 }, xshift: late ? -4 : 4,
        });
      }
    }
    return made;
  };

  const hidden = {};
  const draw = (id) => {
    const drawn = traces(figures[id]);
    // On a narrow screen the values are below the figure, where a hover box would hide it.
    if (narrow()) for (const trace of drawn) { delete trace.hovertemplate; trace.hoverinfo = trace.hoverinfo || "none"; }
    for (const trace of drawn) if ((hidden[id] || new Set()).has(trace.key)) trace.visible = false;
    return Plotly.react(id, drawn, layout(figures[id]), { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false });
  };

  const show = (group, range) => {
    if (range) {
      const [first, last] = group.whole, width = Math.min(Math.max(range[1] - range[0], 1), last - first);
      const start = Math.min(Math.max(range[0], first), last - width);
      range = width >= last - first ? null : [start, start + width];
    }
    group.range = range;
    group.begun.forEach(draw);
  };
  const moves = {
    in: ([first, last]) => [first + (last - first) / 4, last - (last - first) / 4],
    out: ([first, last]) => [first - (last - first) / 2, last + (last - first) / 2],
    earlier: ([first, last]) => [first - (last - first) / 2, last - (last - first) / 2],
    later: ([first, last]) => [first + (last - first) / 2, last + (last - first) / 2],
    reset: () => null,
  };
  for (const toolbar of document.querySelectorAll("[data-toolbar]")) {
    const figure = figures[toolbar.dataset.toolbar], group = groups.get(figure.group);
    toolbar.hidden = false;
    for (const button of toolbar.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        if (button.dataset.do === "first") {
          const around = Math.max(10, Math.round((group.whole[1] - group.whole[0]) / 40));
          show(group, [figure.first - around, figure.first + around]);
          read(toolbar.dataset.toolbar, nearest(figure.steps, figure.first));
        } else show(group, moves[button.dataset.do](group.range || group.whole));
      });
    }
  }

  const read = (id, place) => {
    const figure = figures[id], row = document.querySelector(`[data-reading="${id}"]`);
    if (!row || !figure.steps.length) return;
    const slider = row.querySelector("input");
    slider.value = place;
    slider.setAttribute("aria-valuetext", `step ${figure.steps[place]}`);
    const output = row.querySelector("output");
    const said = [
      ["step", figure.steps[place].toLocaleString("en")], [figure.labels[0], written(figure.a[place])],
      [figure.labels[1], written(figure.b[place])], ["difference", apart(figure.differences[place])],
    ];
    if (at(figure.limits, place) !== null) said.push(["limit", apart(at(figure.limits, place))]);
    if (figure.band.length) said.push(["controls", apart(figure.band[place])]);
    tell(output, said);
  };

  const keys = (id) => {
    const row = document.querySelector(`[data-keys="${id}"]`);
    if (!row) return;
    hidden[id] = hidden[id] || new Set();
    const seen = new Set();
    row.replaceChildren();
    for (const trace of traces(figures[id])) {
      if (seen.has(trace.key) || trace.look === undefined) continue;
      seen.add(trace.key);
      const button = document.createElement("button"), sample = document.createElement("i"), marker = trace.marker || {};
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden[id].has(trace.key)));
      sample.className = trace.look;
      sample.setAttribute("aria-hidden", "true");
      const ink = trace.ink || (trace.mode === "markers" ? marker.color : trace.line.color);
      if (trace.look === "band") sample.style.background = trace.ink;
      else if (trace.mode === "markers") { sample.style.color = ink; sample.textContent = trace.look === "circle" ? "○" : "×"; }
      else sample.style.borderColor = ink;
      button.append(sample, trace.key);
      button.addEventListener("click", () => {
        if (!hidden[id].delete(trace.key)) hidden[id].add(trace.key);
        button.setAttribute("aria-pressed", String(!hidden[id].has(trace.key)));
        draw(id);
      });
      row.append(button);
    }
    row.hidden = false;
  };

  const begin = (id) => {
    const element = document.getElementById(id), figure = figures[id], group = groups.get(figure.group);
    group.begun.push(id);
    draw(id);
    keys(id);
    element.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] !== undefined) show(group, [change["xaxis.range[0]"], change["xaxis.range[1]"]]);
    });
    element.on("plotly_doubleclick", () => show(group, null));
    const row = document.querySelector(`[data-reading="${id}"]`);
    if (!row || !figure.steps.length) return;
    const input = row.querySelector("input");
    row.hidden = false;
    input.max = figure.steps.length - 1;
    input.addEventListener("input", () => {
      read(id, Number(input.value));
      Plotly.Fx.hover(element, { xval: figure.steps[Number(input.value)] }, ["xy", "xy2"]);
    });
    element.on("plotly_hover", (event) => {
      if (event.points.length) read(id, nearest(figure.steps, event.points[0].x));
    });
    read(id, figure.first === null ? figure.steps.length - 1 : nearest(figure.steps, figure.first));
  };
  // Draw one figure after the other: the page can be read and used while the rest is drawn.
  const waiting = Object.keys(figures);
  const next = () => {
    if (waiting.length) { begin(waiting.shift()); setTimeout(next); } else root.dataset.drawn = "";
  };
  const redraw = () => { for (const { begun } of groups.values()) for (const id of begun) { draw(id); keys(id); } };

  setUpTheme(redraw);
  let wasNarrow = narrow();
  addEventListener("resize", () => { if (narrow() !== wasNarrow) { wasNarrow = narrow(); redraw(); } });
  loadPlotly().then(next);
})();
