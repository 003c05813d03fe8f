"use strict";
// A button on each block of code copies it; of a session at a terminal only what is typed.

(() => {
  const prompt = "$ ";

  const typed = (text) => {
    const lines = text.split("\n");
    const commands = lines.filter((line) => line.startsWith(prompt)).map((line) => line.slice(prompt.length));
    return commands.length ? commands.join("\n") + "\n" : text;
  };

  // Browsers have no clipboard for pages that came without TLS from another machine.
  const copyBySelection = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error("the browser copies nothing"));
  };

  const copy = (text) => (navigator.clipboard ? navigator.clipboard.writeText(text) : copyBySelection(text));

  for (const language of ["sh", "python", "properties", "console"]) {
    for (const block of document.querySelectorAll(`.highlight-${language} .highlight`)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy-button";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy this block");
      button.addEventListener("click", async () => {
        let told = "Copied";
        try {
          await copy(typed(block.querySelector("pre").textContent));
        } catch {
          told = "Not copied";
        }
        button.textContent = told;
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
      block.append(button);
    }
  }
})();
