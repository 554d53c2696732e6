const box = document.querySelector(".search");
if (box) {
  const tables = [...document.querySelectorAll(".tables > details")].map((one) => [one, one.textContent.toLowerCase()]);
  box.hidden = false;
  box.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [one, text] of tables) {
      one.hidden = !words.every((word) => text.includes(word));
      count += one.hidden ? 0 : 1;
    }
    box.querySelector("output").textContent = words.length ? `${count} / ${tables.length}` : "";
  });
}
