// Search results in the order in which people need them: what to do, then what it is, then names, then why.
const ORDER = [
  [/^how-to\//, 40],
  [/^(learn|gallery)\//, 35],
  [/^(operations|engines|clouds|spark|persons|formats|quoting|uncertainty|report|planner|synthetic|hierarchies|long-axes|coming-from)$/, 40],
  [/^(faq|choosing|guide|concepts|glossary|specification)$/, 30],
  [/^api\//, 0],
  [/^(decisions|mathematics)\//, -60],
  [/^(changes|findings|decisions|architecture|contributing|notation|trust)$/, -80],
];

var Scorer = {
  score: ([docname, , , , score]) => score + (ORDER.find(([pages]) => pages.test(docname)) || [null, 0])[1],
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
