// Plots: drawn when they come near the screen, in the colours of the theme; redrawn when another one is chosen.
"use strict";

const plots = (() => {
  const drawn = new Map(); // place -> the figure that is shown there
  let loading = null;

  async function unpack(id) {
    const packed = document.getElementById(id);
    const bytes = Uint8Array.from(atob(packed.textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  // Plotly is packed inside the page, or lies beside it as a file.
  function load() {
    loading ??= (async () => {
      if (window.Plotly) return window.Plotly;
      const script = document.createElement("script");
      const place = document.getElementById("plotly-packed");
      if (place) {
        script.textContent = await unpack("plotly-packed");
        document.head.append(script);
      } else {
        script.src = document.getElementById("plotly-file").dataset.src;
        await new Promise((resolve, reject) => {
          script.onload = resolve;
          script.onerror = reject;
          document.head.append(script);
        });
      }
      return window.Plotly;
    })();
    return loading;
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // light-dark() is resolved where it is used: read it back from a real property.
  function color(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  function themed(figure, width) {
    const [text, line, muted] = ["--text", "--line", "--muted"].map(color);
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line };
    const narrow = width < 560;
    const layout = {
      ...figure.layout,
      xaxis: { ...figure.layout.xaxis, ...axis },
      yaxis: { ...figure.layout.yaxis, ...axis },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: text, family: css("font-family") || "system-ui, sans-serif", size: narrow ? 11 : 12.5 },
      margin: { l: 10, r: 10, t: 12, b: 10, pad: 2 },
      legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, ...figure.layout.legend },
      hoverlabel: { namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: text },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    };
    if (figure.layout.yaxis.type === "category") {
      layout.yaxis.autorange = "reversed";
      if (narrow) layout.yaxis.tickfont = { size: 9.5 };
      // Below a tall chart the legend would be a screen away from the rows: above it is seen first.
      layout.legend = { ...layout.legend, yref: "paper", y: 1.02, yanchor: "bottom" };
      layout.margin.t = 48;
    }
    layout.annotations = (figure.layout.annotations || []).map((each) => ({ ...each, font: { color: muted } }));
    return layout;
  }

  const settings = {
    responsive: true,
    displayModeBar: matchMedia("(pointer: coarse)").matches ? false : "hover",
    displaylogo: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], // none that talks to a server
    toImageButtonOptions: { format: "svg" },
  };

  async function draw(place, figure) {
    drawn.set(place, figure);
    place.style.height = figure.layout.height + "px";
    place.setAttribute("aria-label", figure.alt);
    let library;
    try {
      library = await load();
    } catch {
      place.textContent = "This browser cannot draw the plots (one from 2023 or later can); the tables hold the same figures.";
      return;
    }
    if (drawn.get(place) !== figure) return; // another one was chosen meanwhile
    place.querySelector(".waiting")?.remove();
    await library.react(place, structuredClone(figure.data), themed(figure, place.clientWidth), settings);
    place.dataset.drawn = "true";
  }

  function redraw() {
    for (const [place, figure] of drawn) if (place.isConnected) draw(place, figure);
  }
  document.addEventListener("themechange", redraw);

  function setUpPanels() {
    const holder = document.getElementById("charts");
    if (!holder) return;
    const charts = JSON.parse(holder.textContent);
    const pending = new Map();
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        observer.unobserve(entry.target);
        pending.get(entry.target)?.();
        pending.delete(entry.target);
      }
    }, { rootMargin: "600px 0px" });
    for (const place of document.querySelectorAll(".plot[data-panel]")) {
      const options = charts[place.dataset.panel];
      const select = place.parentElement.querySelector("select");
      const key = "show." + place.dataset.panel;
      const names = Object.keys(options);
      const chosen = () => (names.includes(state.get(key)) ? state.get(key) : names[0]);
      const show = () => {
        if (select) select.value = chosen();
        draw(place, options[chosen()]);
      };
      place.style.height = options[chosen()].layout.height + "px";
      if (select) {
        select.value = chosen();
        select.addEventListener("change", () => { state.set(key, select.value === names[0] ? null : select.value); show(); });
      }
      document.addEventListener("statechange", () => { if (drawn.has(place)) show(); });
      pending.set(place, show);
      observer.observe(place);
    }
    // Reading Plotly's script takes a second: better while nothing happens than while somebody scrolls.
    (window.requestIdleCallback || setTimeout)(() => load().catch(() => {}));
    addEventListener("beforeprint", () => {
      theme.force("light");
      for (const show of pending.values()) show();
      pending.clear();
    });
    addEventListener("afterprint", () => theme.force(null));
  }

  return { draw, load, setUpPanels };
})();

addEventListener("DOMContentLoaded", plots.setUpPanels);
