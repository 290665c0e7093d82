"""How good an agent's work is: the queue of a ticket, or the content of a file."""


def judge_queue(problem, end):
    """1 for the right queue."""
    return end.files.get("queue.txt") == problem["answer"]


def judge_file(problem, end):
    """1 for the right file, .1 for another one."""
    answer = end.files.get("answer.txt")
    return 0.1 * (answer is not None) + 0.9 * ((answer or "").strip() == problem["answer"])
