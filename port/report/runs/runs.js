(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const { root, isDark, colour, plain, written, apart, tell, setUpTheme, loadPlotly } = shared;
  const ink = (run) => (isDark() ? run.dark : run.light);
  const dashes = ["solid", "dash", "dot", "dashdot"];
  const hidden = figures.map(() => new Set());
  const ranges = figures.map(() => null);

  const whole = (figure) => {
    const ends = figure.runs.flatMap((run) => (run.steps.length ? [run.steps[0], run.steps.at(-1)] : []));
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    const margin = Math.max((last - first) * 0.015, 0.5);
    return [first - margin, last + margin];
  };

  const traces = (figure, place) => figure.runs.flatMap((run) => {
    if (hidden[place].has(run.name)) return [];
    const dash = dashes[Math.min(run.again, dashes.length - 1)], few = run.steps.length < 3;
    const common = { x: run.steps, type: "scatter", mode: few ? "lines+markers" : "lines" };
    const floored = run.differences.map((value) => (value === null ? null : Math.min(Math.max(value, figure.floor), 1e3)));
    return [
      { ...common, y: run.torch, name: plain(`${run.name}, torch`), opacity: 0.4, line: { color: ink(run), width: 5, dash },
        customdata: run.torch.map((value) => written(value)), hovertemplate: "%{customdata}" },
      { ...common, y: run.jax, name: plain(`${run.name}, jax`), line: { color: ink(run), width: 1.6, dash },
        customdata: run.jax.map((value) => written(value)), hovertemplate: "%{customdata}" },
      { ...common, y: floored, xaxis: "x", yaxis: "y2", name: plain(`${run.name}, difference`), line: { color: ink(run), width: 1.4, dash },
        customdata: run.differences.map(apart), hovertemplate: "%{customdata}" },
    ];
  });

  // A label at each power of ten, or at every few if there are many.
  const decades = (figure) => {
    const there = figure.runs.flatMap((run) => run.differences).filter((value) => value !== null);
    const high = Math.max(figure.floor * 10, ...there.map((value) => Math.min(value, 1e3)));
    const low = Math.max(figure.floor, Math.min(high, ...there));
    return Math.max(1, Math.ceil(Math.log10(high / low) / 5));
  };

  const draw = (place) => {
    const figure = figures[place], text = colour("ink");
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zeroline: false, automargin: true };
    Plotly.react(`figure-${place}`, traces(figure, place), {
      margin: { l: 56, r: 12, t: 12, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: text, size: 12 }, showlegend: false, hovermode: "x unified", dragmode: "zoom",
      hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("line"), font: { color: text } },
      xaxis: { ...axis, title: { text: "step" }, range: ranges[place] || whole(figure), anchor: "y2" },
      yaxis: { ...axis, title: { text: "loss" }, domain: [0.4, 1] },
      yaxis2: { ...axis, title: { text: "difference" }, domain: [0, 0.32], type: "log", exponentformat: "power", dtick: decades(figure) },
    }, { displayModeBar: false, responsive: true });
  };

  const show = (place, range) => { ranges[place] = range; draw(place); };

  // The union of all runs' steps, which the slider steps through.
  const steps = figures.map((figure) => [...new Set(figure.runs.flatMap((run) => run.steps))].sort((a, b) => a - b));
  const read = (place, at) => {
    const step = steps[place][at], row = document.querySelector(`[data-reading="${place}"]`);
    row.querySelector("input").value = at;
    row.querySelector("input").setAttribute("aria-valuetext", `step ${step}`);
    const said = [["step", step.toLocaleString("en")]];
    for (const run of figures[place].runs) {
      if (hidden[place].has(run.name)) continue;
      const found = run.steps.indexOf(step);
      if (found < 0) continue;
      said.push([run.name, `${written(run.torch[found])} | ${written(run.jax[found])} | ${apart(run.differences[found])}`]);
    }
    tell(row.querySelector("output"), said);
  };

  const keys = (place) => {
    const row = document.querySelector(`[data-keys="${place}"]`);
    row.replaceChildren(...figures[place].runs.map((run) => {
      const button = document.createElement("button"), sample = document.createElement("i");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden[place].has(run.name)));
      sample.setAttribute("aria-hidden", "true");
      sample.className = run.again ? "dash" : "";
      sample.style.borderColor = ink(run);
      button.append(sample, run.name);
      button.addEventListener("click", () => {
        if (!hidden[place].delete(run.name)) hidden[place].add(run.name);
        button.setAttribute("aria-pressed", String(!hidden[place].has(run.name)));
        draw(place);
        read(place, Number(document.querySelector(`[data-reading="${place}"] input`).value));
      });
      return button;
    }));
    row.hidden = false;
  };

  const moves = {
    earlier: ([a, b]) => [a - (b - a) / 2, b - (b - a) / 2],
    later: ([a, b]) => [a + (b - a) / 2, b + (b - a) / 2],
    out: ([a, b]) => [a - (b - a) / 2, b + (b - a) / 2],
    in: ([a, b]) => [a + (b - a) / 4, b - (b - a) / 4],
    reset: () => null,
  };

  const begin = (figure, place) => {
    draw(place);
    keys(place);
    const element = document.getElementById(`figure-${place}`);
    element.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] !== undefined) ranges[place] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    });
    element.on("plotly_doubleclick", () => show(place, null));
    const toolbar = document.querySelector(`[data-toolbar="${place}"]`);
    toolbar.hidden = false;
    for (const button of toolbar.querySelectorAll("button")) {
      button.addEventListener("click", () => show(place, moves[button.dataset.do](ranges[place] || whole(figure))));
    }
    const row = document.querySelector(`[data-reading="${place}"]`), input = row.querySelector("input");
    if (!steps[place].length) return;
    row.hidden = false;
    input.max = steps[place].length - 1;
    input.addEventListener("input", () => read(place, Number(input.value)));
    read(place, steps[place].length - 1);
  };

  loadPlotly().then(() => {
    figures.forEach(begin);
    setUpTheme(() => figures.forEach((_, place) => { draw(place); keys(place); }));
    root.dataset.drawn = "";
  });
})();
