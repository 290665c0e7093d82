"""Answers that reason first in a search: queries, notes, sub-questions and final answers."""

from tests.components.environments.reasoned.row import MALFORMED, Row

SEARCHER, REASONER = "searcher", "reasoner"

SEARCH = (
    Row(SEARCHER, "The question asks for a river, so I look for the capital first.\n\n? capital of Freedonia",
        "? capital of Freedonia"),
    Row(SEARCHER, "<think>? or #1?</think>\n? capital of Freedonia", "? capital of Freedonia"),
    Row(SEARCHER, "**Search Query:** capital of Freedonia\n\nThis should find it.", "? capital of Freedonia"),
    Row(SEARCHER, "Ann's house is asked for.\nQuery: ann home", "? ann home"),
    Row(SEARCHER, "- ? capital of Freedonia\n- ? river of Freedonia", "? capital of Freedonia\n? river of Freedonia"),
    Row(SEARCHER, "? the capital\nToo vague, so rather:\n? capital of Freedonia", "? capital of Freedonia"),
    Row(SEARCHER, "```\n? capital of Freedonia\n```", "? capital of Freedonia"),
    Row(SEARCHER, "Ich suche zuerst die Stadt.\n1. `? Hauptstadt von Freedonia`", "? Hauptstadt von Freedonia"),
    Row(SEARCHER, "I would search for the capital of Freedonia.", MALFORMED),
    Row(SEARCHER, "<think>? capital of Freedonia", MALFORMED),
    Row(SEARCHER, "the passages are about the capital\n</think>\nSearch query: mayor of Fredville", "? mayor of Fredville"),
    Row(REASONER, "The passages name Ann.\n\n= Ann", "= Ann"),
    Row(REASONER, "### Reasoning\nThe boss of Kozu is Nali.\n### Answer\n= Nali", "= Nali"),
    Row(REASONER, "= Rome\nNo, wait: that is the capital of Italy.\n= Oslo", "= Oslo"),
    Row(REASONER, "**Final answer:** Oslo\n\nI hope this helps!", "= Oslo"),
    Row(REASONER, "答案：奥斯陆", "= 奥斯陆"),
    Row(REASONER, "The answer is not in the passages yet.\n? river through Fredville", "? river through Fredville"),
    Row(REASONER, "### Next\n? river through Fredville\n? mayor of Fredville",
        "? river through Fredville\n? mayor of Fredville"),
    Row(REASONER, "The capital is known now.\n\n### river through Fredville", "? river through Fredville"),
    Row(REASONER, "It is probably Oslo, but I am not sure.", MALFORMED),
    Row(REASONER, "<think>= Rome</think>", MALFORMED),
    Row(REASONER, "> **= Ann**", "= Ann"),
    Row(REASONER, "= Rome\n= Oslo", MALFORMED),
    Row(REASONER, "Answer:\nPuma", "= Puma"),
    Row(REASONER, "The passages agree. The answer is Puma.", "= Puma"),
    Row(REASONER, "It is \\boxed{Puma}, as the second passage says.", "= Puma"),
    Row(REASONER, "The answer is not in the passages yet.", MALFORMED),
    Row(REASONER, "### Final answer\n\n**Puma**", "= Puma"),
    Row(REASONER, r"\[\boxed{\text{Puma}}\]", "= Puma"),
    Row(REASONER, r"\boxed{Puma}\text{ or }\boxed{Oslo}", MALFORMED),
)  # fmt: skip
