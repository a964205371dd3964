"use strict";
(function () {
  function give(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.appendChild(link);
    link.click();
    link.remove();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  }
  function drawing(svg) {
    return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  }
  function givePng(name, svg) {
    const url = URL.createObjectURL(drawing(svg));
    const image = new Image();
    image.onload = function () {
      const scale = 2, canvas = document.createElement("canvas");
      canvas.width = svg.viewBox.baseVal.width * scale;
      canvas.height = svg.viewBox.baseVal.height * scale;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(url);
      canvas.toBlob(function (blob) { give(name, blob); }, "image/png");
    };
    image.src = url;
  }
  document.querySelectorAll("figure").forEach(function (figure) {
    const svg = figure.querySelector("svg");
    figure.querySelector(".save").hidden = false;
    figure.querySelectorAll("button").forEach(function (button) {
      const sort = button.dataset.save, name = figure.id + "." + sort;
      button.addEventListener("click", function () {
        if (sort === "svg") { give(name, drawing(svg)); } else { givePng(name, svg); }
      });
    });
  });
})();
