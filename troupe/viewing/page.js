"use strict";
// Recorded text reaches the page as text nodes alone, never as markup.
const shown = JSON.parse(document.getElementById("document").textContent);
const byId = (id) => document.getElementById(id);
const state = { filter: "all", query: "", chosen: 0, node: 0, opensPrompts: null, visible: [] };

function make(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined) continue;
    if (name === "onclick") made.onclick = value;
    else if (name === "open") made.open = value;
    else if (name === "disabled") made.disabled = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function drawing(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const number = (value, digits) => value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const keyOf = (episode) => `${episode.problem}/${episode.episode}`;
const signed = (value, digits) => (value > 0 ? "+" : "") + number(value, digits);
const signOf = (value) => value > 0 ? "good" : value < 0 ? "bad" : "soft";
const spans = (className, texts) => make("p", { class: className }, ...texts.filter(Boolean).map((text) => make("span", {}, text)));

const sides = [shown.main, shown.against].filter(Boolean);
const found = sides.map((side) => new Map(side.episodes.map((episode) => [keyOf(episode), episode])));
const searched = new Map();

function searchText(episode) {
  const key = keyOf(episode);
  if (!searched.has(key)) {
    const texts = [key, episode.error || "", JSON.stringify(episode.payload)];
    sides.forEach((side, index) => {
      const here = found[index].get(key);
      for (const node of here ? here.nodes : []) {
        texts.push(node.agent, side.prompts[node.prompt], ...node.candidates.map((candidate) => candidate.text));
      }
    });
    searched.set(key, texts.join("\n").toLowerCase());
  }
  return searched.get(key);
}

function visibleEpisodes() {
  const query = state.query.trim().toLowerCase();
  const kept = shown.main.episodes.filter((episode) =>
    (["all", "longest"].includes(state.filter) || episode.tags.includes(state.filter)) &&
    (query === "" || searchText(episode).includes(query)));
  return state.filter === "longest" ? kept.sort((one, other) => other.num_tokens - one.num_tokens) : kept;
}

function drawHead() {
  const head = byId("head");
  const facts = [shown.preset, shown.environment, ...sides.map((side) =>
    `step ${side.step}: ${plural(side.episodes.length, "episode")}, ` +
    `${side.episodes.filter((episode) => episode.success).length} solved`)];
  for (const side of sides) {
    for (const [policy, version] of Object.entries(side.versions)) facts.push(`${policy} ${version.digest.slice(0, 10)}`);
  }
  const line = make("span", { class: "facts" }, ...facts.filter(Boolean).map((fact) => make("span", {}, fact)));
  head.append(make("h1", {}, shown.run_id), line);
  for (const side of sides) {
    if (side.population) head.append(drawSeatings(side));
    for (const note of side.notes) head.append(make("p", { class: "note" }, sides.length > 1 ? `step ${side.step}: ${note}` : note));
  }
}

function drawFilters() {
  const counts = (tag) => shown.main.episodes.filter((episode) => episode.tags.includes(tag)).length;
  byId("filters").replaceChildren(...["all", ...shown.tags, "longest"].map((tag) => {
    const isTag = shown.tags.includes(tag);
    return make("button", {
      "aria-pressed": String(state.filter === tag), disabled: isTag && counts(tag) === 0,
      onclick: () => { state.filter = tag; state.chosen = 0; drawFilters(); drawList(); },
    }, isTag ? `${tag} ${counts(tag)}` : tag);
  }));
}

function drawList() {
  state.visible = visibleEpisodes();
  state.chosen = Math.max(0, Math.min(state.chosen, state.visible.length - 1));
  byId("count").textContent = `${state.visible.length} of ${plural(shown.main.episodes.length, "episode")}`;
  byId("episodes").replaceChildren(...state.visible.map((episode, index) => {
    const special = episode.tags.filter((tag) => !["solved", "unsolved"].includes(tag));
    const status = episode.error !== null ? "failed" : episode.success ? "solved" : "unsolved";
    return make("li", {}, make("button", { title: status, onclick: () => choose(index) },
      make("span", { class: `dot ${status}` }),
      make("span", { class: "name" }, episode.episode ? `${episode.problem} #${episode.episode}` : episode.problem),
      make("span", { class: "size" }, episode.num_tokens.toLocaleString("en")),
      special.length || episode.population ? make("span", { class: "tags" }, [...returnsOf(episode), ...special].join(", ")) : null));
  }));
  choose(state.chosen);
}

// A population: what each player earned, in the order of the agents.
function returnsOf(episode) {
  if (!episode.population || episode.population.seats.some((seat) => seat.return === null)) return [];
  return [episode.population.seats.map((seat) => signed(seat.return, 2)).join(" ")];
}

const whoPlays = (seat) => seat.past_step === null ? seat.member : `${seat.member} as before step ${seat.past_step}`;
const whatItDoes = (seat) => seat.past_step !== null ? "past self" : seat.learns ? "learns" : "does not learn";

const seatOf = (side, episode, agent) => episode.population &&
  episode.population.seats[side.population.agents.indexOf(agent)];

function table(className, heads, rows) {
  return make("table", { class: className },
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", {}, head)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => cell instanceof Node ? cell : make("td", {}, cell))))));
}

function drawSeatings(side) {
  const population = side.population;
  const cell = (seat) => make("td", {}, whoPlays(seat), make("small", { class: "soft" },
    ` ${whatItDoes(seat)}`), make("div", {}, `${number(seat.mean_return, 3)} → ${number(seat.mean_mixed, 3)}`));
  const shards = table("seats", ["", ...population.agents], population.shards.map((shard) =>
    [`shard ${shard.shard} (${plural(shard.num_episodes, "episode")})`, ...shard.seats.map(cell)]));
  const shares = population.shares === null ? [] : [
    make("p", { class: "under" }, `What each agent learned from (${population.mode}): its share of every agent's return. Rows learn, columns earn.`),
    table("seats", ["", ...population.agents], population.agents.map((agent, a) =>
      [agent, ...population.shares[a].map((share) => number(share, 3))]))];
  return make("details", { class: "seatings" },
    make("summary", {}, `Who sat where in step ${side.step}: ${population.mode} returns, ${population.strategy} updates`),
    make("p", { class: "under" }, "A shard is a match. Each cell: who played the agent, and the mean return it earned → the mean return it learned from."),
    shards, ...shares, ...drawPayoffs(population.payoffs));
}

// Cells are coloured by the mean return, between the least and the most of the matrix.
function drawPayoffs(payoffs) {
  if (payoffs === null) return [];
  const means = payoffs.rows.flat().filter((cell) => cell !== null).map(([mean]) => mean);
  const least = Math.min(...means), span = Math.max(...means) - least;
  const cell = (found) => {
    if (found === null) return make("td", { class: "soft" }, "–");
    const [mean, numGames] = found;
    return make("td", { class: `payoff of${span > 0 ? Math.round(6 * (mean - least) / span) : 3}` },
      number(mean, 3), make("small", { class: "soft" }, ` ${plural(numGames, "game")}`));
  };
  return [
    make("p", { class: "under" }, "Who earned what beside whom, in all games so far: the mean return of the row's player in games with the column's, " +
      "each seat counting half. Red is the least of the matrix, green the most."),
    make("div", { class: "wide" }, table("seats payoffs", ["", ...payoffs.players],
      payoffs.rows.map((row, a) => [payoffs.players[a], ...row.map(cell)])))];
}

function drawSeats(episode) {
  const { seats, moves } = episode.population;
  const paid = (value, digits) => make("td", { class: signOf(value) }, signed(value, digits));
  const told = "Return: what the agent earned. Learned from: the mix of all returns that the training mode gives it. Below, credit is that mix " +
    "from a move on, less what the learner subtracts, and the advantage is what the update used.";
  const earned = table("seats", ["agent", "played by", "", ...moves.map((move, m) => `move ${m + 1}`), "return", "learned from"],
    seats.map((seat, a) => [seat.agent, whoPlays(seat), make("td", { class: "soft" }, whatItDoes(seat) + (seat.is_away ? ", away from its seat" : "")),
      ...moves.map((move) => move.payoffs === null ? "–" : paid(move.payoffs[a], 2)), paid(seat.return, 3), paid(seat.mixed, 3)]));
  return make("div", {}, make("div", { class: "wide" }, earned), make("p", { class: "under" }, told));
}

function drawMove(side, episode, move, m) {
  const names = move.nodes.map((index) => episode.nodes[index].agent);
  const isJoint = names.length > 1;
  return make("div", { class: isJoint ? "move joint" : "move" },
    make("h3", {}, `Move ${m + 1}`, make("small", {}, `turn ${move.turn} · ${isJoint ? `at once: ${names.join(", ")}` : `${names[0]} alone`}`)),
    ...move.nodes.map((index) => drawNode(side, episode, index, false)));
}

function drawChoices(choices, taken) {
  const rows = choices.rows.map(([said, probability, wasDrawn]) => make("div",
    { class: wasDrawn && said === taken ? "choice taken" : wasDrawn ? "choice" : "choice soft" },
    make("span", { class: "said" }, said), make("meter", { value: probability || 0 }), make("span", {}, probability === null ? "?" : number(probability, 3))));
  const rest = choices.rest === null ? [] :
    [make("p", { class: "under" }, `? together ${number(choices.rest, 3)}: nobody drew these from this prompt in the step`)];
  return make("div", { class: "choices" }, ...rows, ...rest);
}

function choose(index) {
  state.chosen = index;
  state.node = 0;
  const rows = [...byId("episodes").querySelectorAll("button")];
  rows.forEach((row, at) => row.setAttribute("aria-current", String(at === index)));
  if (rows[index]) rows[index].scrollIntoView({ block: "nearest" });
  const episode = state.visible[index];
  const main = byId("main");
  if (!episode) {
    main.replaceChildren(make("p", { class: "empty" }, "No episode matches."));
    return;
  }
  history.replaceState(null, "", `#${encodeURIComponent(keyOf(episode))}`);
  main.replaceChildren(make("div", { class: sides.length > 1 ? "sides two" : "sides" },
    ...sides.map((side, at) => drawSide(side, found[at].get(keyOf(episode)), episode))));
  main.scrollTop = 0;
}

function drawSide(side, episode, wanted) {
  if (!episode) {
    return make("section", {}, make("h2", {}, wanted.problem), make("p", { class: "empty" }, `Not played in step ${side.step}.`));
  }
  const section = make("section", {});
  section.append(make("h2", {}, episode.problem));
  section.append(spans("meta", [
    `step ${side.step}`, `episode ${episode.episode}`, `shard ${episode.shard}`, plural(episode.nodes.length, "node"),
    plural(episode.num_tokens, "token"),
  ]));
  section.append(make("p", {}, ...episode.tags.map((tag) => make("span", { class: `tag ${tag}` }, tag))));
  if (episode.error !== null) section.append(make("p", { class: "note" }, `Failed: ${episode.error}`));
  const isTree = episode.nodes.some((node) => node.candidates.length > 1);
  if (episode.population) section.append(drawSeats(episode));
  if (episode.nodes.length && (isTree || !episode.population)) section.append(drawTree(episode, section));
  section.append(make("details", { class: "payload" }, make("summary", {}, "The problem"), make("pre", {}, JSON.stringify(episode.payload, null, 2))));
  const below = new Map();
  episode.nodes.forEach((node, index) => {
    const parent = node.parent === null ? "branch" : node.parent.join("/");
    below.set(parent, [...(below.get(parent) || []), index]);
  });
  const cuts = (parent) => episode.cuts.filter((cut) => cut.parent.join("/") === parent)
    .map((cut) => make("p", { class: "note" }, `A line below ${parent === "-1/0" ? "the start" : `candidate ${parent.split("/")[1]}`} failed: ${cut.error}`));
  // What hangs below a candidate, line by line, is folded: the branch taken comes first.
  const linesBelow = (parents) => parents.flatMap((parent) => [...cuts(parent), ...(below.get(parent) || []).flatMap((index) =>
    [drawNode(side, episode, index, true), ...linesBelow(candidatesOf(index))])]);
  const candidatesOf = (index) => episode.nodes[index].candidates.map((candidate, k) => `${index}/${k}`);
  const folded = (parents, title) => {
    const lines = linesBelow(parents);
    if (lines.length) section.append(make("details", { class: "lines" }, make("summary", {}, `${title} (${lines.length})`), ...lines));
  };
  folded(["-1/0"], "Other lines from the start");
  const moves = episode.population ? episode.population.moves : [];
  if (moves.length && !isTree) {
    section.append(...moves.map((move, m) => drawMove(side, episode, move, m)));
    return section;
  }
  for (const index of below.get("branch") || []) {
    section.append(drawNode(side, episode, index, false));
    folded(candidatesOf(index), "Other lines below its candidates");
  }
  return section;
}

function drawNode(side, episode, index, isAside) {
  const node = episode.nodes[index];
  const scored = node.candidates.filter((candidate) => candidate.reward !== null).map((candidate) => candidate.reward);
  const mean = scored.length ? scored.reduce((sum, reward) => sum + reward, 0) / scored.length : null;
  const seat = seatOf(side, episode, node.agent);
  const facts = seat ? [whoPlays(seat), whatItDoes(seat)] : [`turn ${node.turn}`, node.policy];
  if (!seat || node.candidates.length > 1) facts.push(mean === null ? "no reward" : `mean reward ${number(mean, 3)}`);
  if (node.temperature !== null) facts.push(`temperature ${node.temperature}`);
  if (node.parallel_index && !seat) facts.push("in parallel");
  if (node.chosen_randomly) facts.push("branch drawn at random");
  if (node.parent !== null) facts.push(node.parent[0] < 0 ? "from the start" : `below candidate ${node.parent[1]}`);
  if (!node.is_trained_on) facts.push("not trained on");
  const prompt = side.prompts[node.prompt];
  const isShort = prompt.split("\n").length <= 16 && prompt.length <= 1200;
  const drawn = node.choices ? ["probability"] : ["log-prob", "per token", "tokens"];
  const heads = ["", "reward", side.population ? "credit" : null, side.has_advantages ? "advantage" : null, ...drawn].filter((name) => name !== null);
  return make("article", { class: isAside ? "node aside" : "node", "data-node": index },
    make("h3", {}, node.agent, make("small", {}, facts.join(" · "))),
    make("details", { class: "prompt", open: state.opensPrompts === null ? isShort : state.opensPrompts },
      make("summary", {}, `What it saw (${plural(node.num_prompt_tokens, "token")})`), make("pre", {}, prompt)),
    make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", {}, name)), make("th", { class: "answer" }, node.choices ? "what it chose" : "what it wrote"))),
      make("tbody", {}, ...node.candidates.map((candidate, k) => drawCandidate(side, node, candidate, k)))),
    node.choices ? drawChoices(node.choices, node.candidates[node.chosen].text) : null);
}

function drawCandidate(side, node, candidate, k) {
  const isTaken = k === node.chosen && node.parent === null;
  const compared = (value) => make("td", { class: signOf(value) }, signed(value, 2));
  const soft = (text) => make("td", { class: "soft" }, text);
  const drawn = node.choices ? [soft(number(Math.exp(candidate.logprob), 3))]
    : [soft(number(candidate.logprob, 2)), soft(number(candidate.mean_logprob, 2)), soft(String(candidate.num_tokens))];
  const outcome = [candidate.solves ? "solves" : null, candidate.done ? "ends the episode" : null,
    candidate.finish_reason === "length" ? "cut off at its longest" : null,
    ...Object.entries(candidate.components).filter(([, value]) => value).map(([name, value]) => `${name} ${value}`)].filter(Boolean);
  return make("tr", { class: isTaken ? "taken" : null, "data-candidate": k },
    make("td", {}, node.candidates.length === 1 ? "taken" : isTaken ? `${k} taken` : String(k)),
    make("td", { class: candidate.solves ? "good" : null }, number(candidate.reward, 3)),
    side.population ? compared(candidate.credit) : null,
    side.has_advantages ? compared(candidate.advantage) : null,
    ...drawn,
    make("td", { class: "answer" }, make("pre", {}, candidate.text === "" ? "(nothing)" : candidate.text),
      candidate.malformed === null ? null : make("p", { class: "under bad" }, `malformed: ${candidate.malformed}`),
      candidate.unscorable === null ? null : make("p", { class: "under bad" }, `not scorable: ${candidate.unscorable}`),
      outcome.length ? make("p", { class: "under" }, outcome.join(" · ")) : null,
      ...drawPrograms(candidate.programs.map((index) => side.programs[index]))));
}

function drawPrograms(programs) {
  if (!programs.length) return [];
  const statuses = programs.map((program) => program.status);
  const counts = [...new Set(statuses)].map((status) => `${statuses.filter((each) => each === status).length} ${status}`);
  return [make("details", { class: "programs" }, make("summary", {}, `ran ${plural(programs.length, "program")}: ${counts.join(", ")}`),
    ...programs.flatMap((program) => [make("p", { class: program.status === "ok" ? "under" : "under bad" }, program.ended),
      ...program.parts.flatMap(([name, text]) => [make("p", { class: "under" }, name), make("pre", {}, text)])]))];
}

// Columns are nodes, dots their candidates, the line is the branch taken. Lines of other branches hang below it.
function drawTree(episode, section) {
  const columns = [], lanes = [];
  const numBelow = [];
  let depth = 0, previous = null;
  const tallest = Math.max(...episode.nodes.map((node) => node.candidates.length));
  episode.nodes.forEach((node, index) => {
    if (node.parent === null) {
      columns[index] = depth; lanes[index] = 0; depth += 1;
    } else {
      columns[index] = node.parent[0] < 0 ? 0 : columns[node.parent[0]] + 1;
      lanes[index] = numBelow[columns[index]] = (numBelow[columns[index]] || 0) + 1;
    }
  });
  const wide = Math.max(26, Math.min(86, 900 / (Math.max(...columns) + 1))), row = 14, lineRow = 9;
  const x = (index) => 12 + columns[index] * wide;
  const y = (index, k) => 26 + (lanes[index] ? tallest * row + 2 + (lanes[index] - 1) * lineRow : k * row);
  const place = (index, k) => lanes[index] ? [x(index) + k * 9, y(index, 0)] : [x(index), y(index, k)];
  const lines = [], dots = [], names = [];
  episode.nodes.forEach((node, index) => {
    const from = node.parent === null ? previous : node.parent[0] < 0 ? null : place(...node.parent);
    if (from) {
      node.candidates.forEach((candidate, k) => {
        const isTaken = node.parent === null && k === node.chosen;
        if (node.parent !== null && k > 0) return;
        const [toX, toY] = place(index, k);
        lines[isTaken ? "push" : "unshift"](drawing("line", { x1: from[0], y1: from[1], x2: toX, y2: toY, class: isTaken ? "taken" : "" }));
      });
    }
    node.candidates.forEach((candidate, k) => {
      const isTaken = node.parent === null && k === node.chosen;
      const kinds = [isTaken ? "taken" : "", candidate.solves ? "solves" : "", candidate.malformed !== null ? "malformed" : "", candidate.unscorable !== null ? "unscorable" : ""];
      const [cx, cy] = place(index, k);
      const dot = drawing("circle", { cx, cy, r: isTaken ? 5 : node.parent === null ? 4 : 2.8, class: kinds.filter(Boolean).join(" ") },
        drawing("title", {}, `${node.agent}, turn ${node.turn}, candidate ${k}: reward ${number(candidate.reward, 3)}`));
      dot.onclick = () => show(section, index, k);
      dots.push(dot);
    });
    if (node.parent === null) {
      if (wide >= 50) names.push(drawing("text", { x: x(index) - 5, y: 10 }, `${node.agent.replace(/_?agent$/, "")} ${node.turn}`));
      previous = place(index, node.chosen);
    }
  });
  const height = 26 + tallest * row + Math.max(0, ...numBelow.filter(Boolean)) * lineRow;
  const width = 40 + Math.max(...columns) * wide + 40;
  return drawing("svg", { class: "tree", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "The tree of candidates" }, ...lines, ...dots, ...names);
}

function show(section, index, k) {
  const node = section.querySelector(`[data-node="${index}"]`);
  document.querySelectorAll(".current").forEach((each) => each.classList.remove("current"));
  node.classList.add("current");
  if (node.closest("details.lines")) node.closest("details.lines").open = true;
  const row = node.querySelector(`[data-candidate="${k}"]`);
  if (row) row.classList.add("current");
  (row || node).scrollIntoView({ block: "nearest" });
}

function step(by) {
  const section = document.querySelector("main section");
  const nodes = section ? [...section.querySelectorAll(".node")].filter((node) => node.offsetParent !== null) : [];
  if (!nodes.length) return;
  const at = nodes.findIndex((node) => node.classList.contains("current"));
  const next = nodes[at < 0 ? (by > 0 ? 0 : nodes.length - 1) : Math.max(0, Math.min(nodes.length - 1, at + by))];
  document.querySelectorAll(".current").forEach((each) => each.classList.remove("current"));
  document.querySelectorAll(`main [data-node="${next.dataset.node}"]`).forEach((each) => each.classList.add("current"));
  next.scrollIntoView({ block: "start" });
}

function togglePrompts() {
  const prompts = [...document.querySelectorAll("main details.prompt")];
  state.opensPrompts = !prompts.every((each) => each.open);
  prompts.forEach((each) => { each.open = state.opensPrompts; });
}

const actions = {
  j: () => choose(Math.min(state.chosen + 1, state.visible.length - 1)), k: () => choose(Math.max(state.chosen - 1, 0)),
  l: () => step(1), h: () => step(-1), o: togglePrompts, "/": () => byId("search").focus(),
};
Object.assign(actions, { ArrowDown: actions.j, ArrowUp: actions.k, ArrowRight: actions.l, ArrowLeft: actions.h });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.activeElement === byId("search")) {
    if (event.key === "Escape" || event.key === "Enter") byId("search").blur();
    return;
  }
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});
byId("search").addEventListener("input", () => { state.query = byId("search").value; state.chosen = 0; drawList(); });

drawHead();
drawFilters();
const wanted = location.hash.slice(1);
state.chosen = Math.max(0, shown.main.episodes.findIndex((episode) => encodeURIComponent(keyOf(episode)) === wanted));
drawList();
