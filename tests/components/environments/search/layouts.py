"""Rows in the column layouts of the data sets' usual copies, two questions each."""

from typing import Any

Row = dict[str, Any]

_CONTEXT_TITLES = ["Moby", "Ann Toval", "Rado"]
_CONTEXT_SENTENCES = [
    ["Moby is a book.", " Its author is Ann Toval."],
    ["Ann Toval was born in Kesson."],
    ["Rado is a town.", " Nothing else."],
]


def hotpotqa(number: int = 0) -> Row:
    """`hotpotqa/hotpot_qa`, distractor."""
    return {
        "id": f"h{number}",
        "question": f"Where was the author of Moby born, number {number}?",
        "answer": "Kesson",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": {"title": ["Ann Toval", "Moby", "Moby"], "sent_id": [0, 0, 1]},
        "context": {"title": _CONTEXT_TITLES, "sentences": _CONTEXT_SENTENCES},
    }


def hotpotqa_file(number: int = 0) -> Row:
    """The authors' own JSON."""
    row = hotpotqa(number)
    return {
        "_id": row["id"],
        "question": row["question"],
        "answer": row["answer"],
        "supporting_facts": [["Ann Toval", 0], ["Moby", 0], ["Moby", 1]],
        "context": [[title, body] for title, body in zip(_CONTEXT_TITLES, _CONTEXT_SENTENCES, strict=True)],
    }


def two_wiki(number: int = 0) -> Row:
    """`framolfese/2WikiMultihopQA`."""
    return {
        **hotpotqa(number),
        "type": "compositional",
        "evidences": [["Moby", "author", "Ann Toval"], ["Ann Toval", "place of birth", "Kesson"]],
    }


def flashrag_two_wiki(number: int = 0) -> Row:
    """`RUC-NLPIR/FlashRAG_datasets`, 2wikimultihopqa."""
    row = hotpotqa(number)
    return {
        "id": "dev_0",
        "question": row["question"],
        "golden_answers": ["Kesson", "Kesson Town"],
        "metadata": {
            "type": "compositional",
            "supporting_facts": row["supporting_facts"],
            "context": {"title": _CONTEXT_TITLES, "content": _CONTEXT_SENTENCES},
        },
    }


def nq(number: int = 0) -> Row:
    """`RUC-NLPIR/FlashRAG_datasets`, nq."""
    return {
        "id": f"train_{number}",
        "question": f"who wrote moby {number}",
        "golden_answers": ["Ann Toval", "A. Toval"],
    }


def musique(number: int = 0) -> Row:
    """`dgslibisey/MuSiQue`."""
    return {
        "id": f"2hop__{number}",
        "paragraphs": [
            {"idx": 0, "title": "Moby", "paragraph_text": "Another Moby, a ship.", "is_supporting": False},
            {"idx": 1, "title": "Moby", "paragraph_text": "Moby is a book by Ann Toval.", "is_supporting": True},
            {"idx": 2, "title": "Ann Toval", "paragraph_text": "She was born in Kesson.", "is_supporting": True},
        ],
        "question": f"Where was the writer of Moby born, number {number}?",
        "question_decomposition": [
            {"id": 1, "question": "Moby >> author", "answer": "Ann Toval", "paragraph_support_idx": 1},
            {"id": 2, "question": "#1 >> place of birth", "answer": "Kesson", "paragraph_support_idx": 2},
        ],
        "answer": "Kesson",
        "answer_aliases": ["Kesson Town"],
        "answerable": True,
    }


def bamboogle(number: int = 0) -> Row:
    """`chiayewken/bamboogle`."""
    return {"Question": f"Who was born where Ann Toval was, number {number}?", "Answer": "Bob Viso"}
