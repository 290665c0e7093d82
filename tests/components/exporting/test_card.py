"""Model cards: what a machine reads in their head, what a person reads below, and that nothing recorded is obeyed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config import AgentConfig
from components.exporting.card import CardFacts, RecordedNode, card, vllm_command

ROW = {"suite": "test", "sampling": "greedy", "interval": [0.458, 0.546], "n": 500}
FACTS = CardFacts(
    policy="plan",
    kind="model",
    run_id="r7",
    step=20,
    preset="plan-path",
    environment="plan_path",
    advantage="at_grpo",
    policy_loss="clip",
    is_trained=True,
    base="tiny",
    base_folder=None,
    rank=None,
    weights_digest="9f" * 32,
    prompt_format="compact",
    temperature=0.7,
    dtype="float32",
    max_new_tokens={"plan_agent": 12, "judge": None},
    evaluations=[ROW | {"step": 0, "success_rate": 0.502}, ROW | {"step": 20, "success_rate": 0.734}],
    nodes={"plan_agent": RecordedNode(prompt="A.\n.G ", answer="DR", is_exact=True)},
)
ADAPTER = replace(FACTS, kind="adapter", base_folder="_base", rank=8)


def head_of(text: str) -> dict[str, Any]:
    _, head, _ = text.split("---\n", 2)
    return dict(yaml.safe_load(head))


def test_the_head_says_all_that_a_machine_asks_for() -> None:
    head = head_of(card(FACTS))
    assert (head["library_name"], head["pipeline_tag"]) == ("transformers", "text-generation")
    assert "base_model" not in head, "a model that is built here has none on a hub"
    told = head["troupe"]
    assert {name: told[name] for name in ("run", "step", "preset", "environment", "base", "weights_digest")} == {
        "run": "r7", "step": 20, "preset": "plan-path", "environment": "plan_path", "base": "tiny", "weights_digest": "9f" * 32,
    }  # fmt: skip
    assert told["roles"] == ["judge", "plan_agent"]
    assert told["evaluations"][1] == {
        "step": 20, "sampling": "greedy", "success_rate": 0.734, "interval": [0.458, 0.546], "n": 500,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("base", "named"),
    [
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        ("/home/me/model", None),
        ("./model", None),
        ("../a/b", None),
    ],
)
def test_a_base_of_a_hub_is_linked(base: str, named: str | None) -> None:
    head = head_of(card(replace(ADAPTER, base=base)))
    assert (head.get("base_model"), head.get("base_model_relation")) == (named, named and "adapter")
    assert head["library_name"] == "peft"


def test_success_stands_with_its_interval_and_a_missing_evaluation_is_said() -> None:
    text = card(FACTS)
    assert "| 0 | `greedy` | 0.502 | 0.458 to 0.546 | 500 |\n| 20 | `greedy` | 0.734 |" in text
    assert "The last evaluation" not in text
    assert "The last evaluation before these weights was after 20." in card(replace(FACTS, step=23))
    assert "No evaluation is recorded." in card(replace(FACTS, evaluations=()))


def test_limits_and_prompts_are_those_of_training() -> None:
    text = card(FACTS)
    assert "computed in float32 and drawn at temperature 0.7" in text
    assert 'AutoModelForCausalLM.from_pretrained("plan", dtype="float32")' in text
    assert "`judge` the longest answer that the environment reads, `plan_agent` 12." in text
    assert "```\nA.\n.G \n```" in text
    assert "prompt = 'A.\\n.G '\n" in text
    assert "max_new_tokens=12)" in text
    without = card(replace(FACTS, nodes={}))
    assert "No prompt of this run is recorded." in without
    assert "prompt =" not in without
    inexact = card(replace(FACTS, nodes={"plan_agent": RecordedNode(prompt="A", answer="D", is_exact=False)}))
    assert "prompt =" not in inexact
    assert "```\nA\n```" in inexact


def test_the_commands_serve_what_lies_there() -> None:
    assert vllm_command(FACTS) == "vllm serve plan --dtype float32"
    assert vllm_command(ADAPTER) == "vllm serve _base --dtype float32 --enable-lora --lora-modules plan=plan"
    assert "--enable-lora --max-lora-rank 64 --lora-modules" in vllm_command(replace(ADAPTER, rank=33))
    assert vllm_command(FACTS, folder=Path("/my models")) == "vllm serve '/my models/plan' --dtype float32"


def test_what_was_recorded_is_no_markup_and_commands_no_terminal() -> None:
    hostile = RecordedNode(prompt="x\n```\n# Owned <script>\x1b[2J\n````", answer="---\ntroupe: {}\n---", is_exact=True)
    text = card(replace(FACTS, nodes={"plan_agent": hostile}, environment="a|b<i>`:N", base="x\n---\nlicense: mit"))
    assert "\x1b" not in text
    assert "`````\nx\n```\n# Owned <script>\\x1b[2J\n````\n`````" in text
    outside = [line for line in text.split("`````")[0].splitlines() if not line.startswith("  ")]
    assert not any("<i>" in line and "\\<" not in line for line in outside if line.startswith("One policy"))
    head = head_of(text)
    assert head["troupe"]["base"] == "x\\x0a---\\x0alicense: mit"
    assert "license" not in head


def test_a_long_prompt_is_cut_and_is_not_code() -> None:
    text = card(replace(FACTS, nodes={"plan_agent": RecordedNode(prompt="y" * 9000, answer="z", is_exact=True)}))
    assert "y" * 6000 + "… (9000 characters)" in text
    assert "prompt =" not in text


OWN = replace(
    FACTS,
    agents={
        "judge": AgentConfig.model_validate({"policy": "plan", "prompt": {"extend": "Be ``` fair.\n# not a title"}}),
        "plan_agent": AgentConfig.model_validate(
            {
                "policy": "plan",
                "prompt": {"replace": "Plan."},
                "temperature": 1.3,
                "max_thinking_tokens": 200,
                "stop": ["END", "\n"],
            }
        ),
    },
    chat_template_arguments={"enable_thinking": False},
)


def test_settings_of_agents_are_told_to_people_and_machines() -> None:
    text = card(OWN)
    assert "drawn at temperature 0.7 (`plan_agent` 1.3) from the whole distribution" in text
    assert "`plan_agent` 12 after thinking of at most 200." in text
    assert "ends at 'END' or '\\\\n'" in text
    assert "The chat template was given enable\\_thinking=False." in text
    assert "The instructions of `judge` were the environment's and after them these:\n\n````\nBe ``` fair." in text
    assert "The instructions of `plan_agent` were these, in place of the environment's:\n\n```\nPlan.\n```" in text
    assert "max_new_tokens=212, stop_strings=['END', '\\n'], tokenizer=tokenizer)" in text
    told = head_of(text)["troupe"]
    assert (told["temperatures"], told["max_thinking_tokens"]) == ({"plan_agent": 1.3}, {"plan_agent": 200})
    assert told["chat_template_arguments"] == {"enable_thinking": False}
    assert told["prompts"]["plan_agent"] == {"replace": "Plan."}


def test_a_card_without_such_settings_says_nothing_of_them() -> None:
    text = card(FACTS)
    assert not [word for word in ("instructions of", "stop_strings", "thinking", "template was given") if word in text]
    assert not {"temperatures", "stop", "prompts", "chat_template_arguments"} & set(head_of(text)["troupe"])
