"""A reward by a model behind an API: how helpful each answer is. No text is asked twice, and the cost has a cap."""

import fcntl
import hashlib
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai

MODEL = "gpt-4o-mini"
INPUT_PRICE, OUTPUT_PRICE = 0.15e-6, 0.60e-6  # dollars a token
MAX_REPLY_TOKENS = 8
MAX_COST_DOLLARS = float(os.environ.get("JUDGE_MAX_COST_DOLLARS", "1.00"))
GRADES = Path(__file__).with_name("grades.jsonl")
CLIENT = openai.OpenAI()  # reads OPENAI_API_KEY, and OPENAI_BASE_URL for another server
PROMPT = """A customer asks where order {order} is. The shop knows that it comes on {day}. The answer to the customer:
<answer>
{answer}
</answer>
How helpful and kind is it, from 0 to 1? Reply with the number alone."""


def helpfulness(episode, node):
    """The judge's grade of each candidate of the node, from 0 to 1."""
    facts = episode.problem.payload
    texts = [PROMPT.format(**facts, answer=candidate.text) for candidate in node.candidates]
    with GRADES.open("ab+", buffering=0) as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)  # until the file is closed: only one process asks, others then find its grades
        replies, spent = read_kept(kept)
        missing = list({digest(text): text for text in texts if digest(text) not in replies}.values())
        if spent + (most := sum(map(max_dollars, missing))) > MAX_COST_DOLLARS:
            raise RuntimeError(
                f"{spent:.6f} of {MAX_COST_DOLLARS} dollars are spent, and {len(missing)} more answers may cost {most:.6f}; "
                f"raise JUDGE_MAX_COST_DOLLARS and run the command again: {GRADES.name} keeps {len(replies)} grades"
            )
        with ThreadPoolExecutor(8) as threads:
            replies |= threads.map(lambda text: (digest(text), ask(kept, text)), missing)
    return [grade(replies[digest(text)]) for text in texts]


def ask(kept, text):
    """The judge's reply. It counts at its highest cost until its usage is known, also if the process is killed."""
    keep(kept, {"asked": digest(text), "dollars": max_dollars(text)})
    message = {"role": "user", "content": text}
    answer = CLIENT.chat.completions.create(
        model=MODEL, messages=[message], max_completion_tokens=MAX_REPLY_TOKENS, temperature=0
    )
    dollars = answer.usage.prompt_tokens * INPUT_PRICE + answer.usage.completion_tokens * OUTPUT_PRICE
    reply = (answer.choices[0].message.content or "").strip()
    keep(kept, {"answered": digest(text), "reply": reply, "dollars": dollars - max_dollars(text)})
    return reply


def read_kept(kept):
    """The replies by digest, and the dollars spent."""
    kept.seek(0)
    rows = [json.loads(line) for line in kept.read().splitlines()]
    return {row["answered"]: row["reply"] for row in rows if "answered" in row}, sum(row["dollars"] for row in rows)


def keep(kept, row):
    kept.write(json.dumps(row).encode() + b"\n")  # one write at the end of the file, from any thread


def grade(reply):
    if not re.fullmatch(r"0|0?\.\d+|1(\.0+)?", reply):
        raise ValueError(
            f"the judge replied {reply!r}, not a number from 0 to 1; delete the line in {GRADES.name} to ask again"
        )
    return float(reply)


def digest(text):
    return hashlib.sha256(f"{MODEL}\n{text}".encode()).hexdigest()


def max_dollars(text):
    """No token is shorter than a byte; 16 more wrap the message."""
    return (len(text.encode()) + 16) * INPUT_PRICE + MAX_REPLY_TOKENS * OUTPUT_PRICE
