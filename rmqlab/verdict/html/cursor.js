// One cursor through all charts: they share one time axis. The page is complete without it.
(() => {
  const plots = [...document.querySelectorAll("svg.plot")].map((svg) => {
    const line = document.createElementNS(svg.namespaceURI, "line");
    line.setAttribute("class", "cursor");
    const text = document.createElementNS(svg.namespaceURI, "text");
    text.setAttribute("class", "cursor-time");
    svg.append(line, text);
    return { svg, line, text };
  });
  const show = (x) => {
    for (const { svg, line, text } of plots) {
      const { left, right, seconds } = svg.dataset;
      const share = (x - left) / (right - left);
      const hidden = share < 0 || share > 1;
      line.style.display = text.style.display = hidden ? "none" : "";
      const height = svg.viewBox.baseVal.height;
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: height - 26 })) line.setAttribute(name, value);
      text.setAttribute("x", x + (share > 0.9 ? -6 : 6));
      text.setAttribute("y", height - 32);
      text.setAttribute("text-anchor", share > 0.9 ? "end" : "start");
      text.textContent = `${(share * seconds).toFixed(1)} s`;
    }
  };
  for (const { svg } of plots) {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      show(((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width);
    });
    svg.addEventListener("pointerleave", () => show(-1));
  }
})();
