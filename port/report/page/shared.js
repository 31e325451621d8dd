"use strict";
// Shared by the page of one run and the page of several.
const shared = (() => {
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  // Text from records and folder names goes into plotly's labels, which interpret <b>, <a href=…> and %{…}.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "% {");

  // A number as the record has it: the shortest digits that give the same number, written as Python writes them.
  const written = (value, whole) => {
    if (value === null || value === undefined) return "–";
    if (whole) return String(value);
    const exponent = value === 0 ? 0 : Number(value.toExponential().split("e")[1]);
    if (exponent < -4 || exponent >= 16) return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
    return Number.isInteger(value) ? `${value}.0` : String(value);
  };
  const apart = (value) =>
    value === null || value === undefined ? "–" : value === 0 ? "0" : value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");

  // The names and numbers below a figure, at one step.
  const tell = (output, said) => {
    output.replaceChildren(...said.map(([name, value]) => {
      const part = document.createElement("span"), label = document.createElement("b");
      label.textContent = `${name} `;
      part.append(label, value);
      return part;
    }));
  };

  // The button for light and dark; redraw is called when the colours change.
  const setUpTheme = (redraw) => {
    const theme = document.getElementById("theme");
    try { if (localStorage.getItem("port-theme")) root.dataset.theme = localStorage.getItem("port-theme"); } catch { /* a browser may forbid it */ }
    const name = () => {
      theme.textContent = isDark() ? "light" : "dark";
      theme.setAttribute("aria-label", `switch to ${isDark() ? "light" : "dark"} colours`);
    };
    const recolour = () => { name(); redraw(); };
    theme.hidden = false;
    name();
    theme.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("port-theme", root.dataset.theme); } catch { /* likewise */ }
      recolour();
    });
    prefersDark.addEventListener("change", recolour);
  };

  // Run plotly.js, which the page holds compressed; its policy has the hash of what comes out.
  const loadPlotly = async () => {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
  };
  return { root, isDark, colour, plain, written, apart, tell, setUpTheme, loadPlotly };
})();
