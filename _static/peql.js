// Every slider of a plotly figure becomes a range input below it: it moves by mouse, touch and
// keyboard alike. The figures take the colours of the page, light or dark.
document.addEventListener("DOMContentLoaded", () => {
  const figures = [...document.querySelectorAll(".js-plotly-plot")].filter(f => f.layout);
  for (const figure of figures) {
    const slider = (figure.layout.sliders || [])[0];
    if (!slider) continue;
    const label = document.createElement("label");
    const shown = document.createElement("output");
    const input = document.createElement("input");
    label.className = "t-slider";
    Object.assign(input, { type: "range", min: 0, max: slider.steps.length - 1 });
    input.value = slider.active || 0;
    const prefix = (slider.currentvalue && slider.currentvalue.prefix) || "";
    const tell = () => {
      shown.textContent = prefix + slider.steps[input.value].label;
      input.setAttribute("aria-valuetext", shown.textContent);
    };
    input.addEventListener("input", () => {
      const step = slider.steps[input.value];
      window.Plotly[step.method](figure, ...step.args);
      tell();
    });
    tell();
    label.append(shown, input);
    figure.parentElement.after(label); // plotly gives the parent a height; outside it nothing is cut
    window.Plotly.relayout(figure, { "sliders[0].visible": false, "margin.b": 50 });
  }
  const colour = () => {
    const dark = document.documentElement.dataset.theme === "dark";
    const [text, grid] = dark ? ["#ced6dd", "#48566b"] : ["#2a3f5f", "#ebf0f8"];
    for (const figure of figures) {
      const change = {
        "font.color": text, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        "xaxis.gridcolor": grid, "yaxis.gridcolor": grid,
        "xaxis.zerolinecolor": grid, "yaxis.zerolinecolor": grid,
      };
      (figure.layout.shapes || []).forEach((_, k) => {
        change[`shapes[${k}].opacity`] = dark ? 0.15 : 1;
      });
      window.Plotly.relayout(figure, change);
    }
  };
  if (!figures.length) return;
  colour();
  new MutationObserver(colour).observe(
    document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
});
