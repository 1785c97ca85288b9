(() => {
  "use strict";
  const root = document.currentScript.parentElement;
  const data = JSON.parse(
    root.querySelector('script[type="application/json"]').textContent.replace(/&lt;/g, "<"));
  const form = root.querySelector("form");
  const part = name => root.querySelector("." + name);
  const squares = [...root.querySelectorAll(".scrub-gates rect")];
  const [width, height, margin, lowest] = [420, 250, 42, -8];
  const last = data.steps.length - 1;
  const top = 24, bottom = height - margin;
  const x = k => margin + (width - 2 * margin) * k / last;
  const yError = e => {
    const share = (1 - Math.log10(Math.max(e, 10 ** lowest))) / (1 - lowest);
    return top + (bottom - top) * Math.min(Math.max(share, 0), 1);
  };
  const yGates = n => bottom - (bottom - top) * n / squares.length;
  const path = heights => "M" + heights.map((y, k) => x(k).toFixed(1) + " " + y.toFixed(1)).join("L");
  const opened = digits => [...digits].filter(d => d !== "0").length;
  const raised = n => String(n).replace(/./g, c => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] || "⁻");
  const written = e => {
    if (e === 0) return "0";
    const [mantissa, power] = e.toExponential(1).split("e");
    return mantissa + "×10" + raised(Number(power));
  };

  function show() {
    const fields = form.elements;
    const price = fields.price.dataset.values.split(" ")[fields.price.value];
    const run = data.runs[`${fields.function.value} ${fields.model.value} ${price}`];
    const k = Number(fields.step.value);
    fields.priced.value = price;
    fields.price.setAttribute("aria-valuetext", price);
    fields.stepped.value = data.steps[k];
    fields.step.setAttribute("aria-valuetext", "step " + data.steps[k]);
    part("found").textContent = run.formula[k];
    part("true").textContent = data.truth[fields.function.value];
    part("open").textContent = opened(run.gates[k]);
    part("error").textContent = written(run.error[k]);
    part("at").textContent = data.steps[k];
    squares.forEach((square, i) => { square.style.fillOpacity = run.gates[k][i] / 9; });
    part("error-line").setAttribute("d", path(run.error.map(yError)));
    part("gates-line").setAttribute("d", path(run.gates.map(g => yGates(opened(g)))));
    for (const end of ["x1", "x2"]) part("cursor").setAttribute(end, x(k).toFixed(1));
  }

  let timer = null;
  function stop() {
    clearInterval(timer);
    timer = null;
    form.elements.play.textContent = "play";
  }
  form.elements.play.addEventListener("click", () => {
    if (timer) return stop();
    const step = form.elements.step;
    if (Number(step.value) === last) step.value = 0;
    form.elements.play.textContent = "stop";
    timer = setInterval(() => {
      step.value = Number(step.value) + 1;
      show();
      if (Number(step.value) === last) stop();
    }, 120);
  });
  form.addEventListener("input", event => { if (event.target.name === "step") stop(); show(); });
  form.addEventListener("submit", event => event.preventDefault());
  form.hidden = false;
  show();
})();
