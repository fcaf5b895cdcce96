"""What people make by hand around a conversation is checked; what decoders make is not."""

# mypy: disable-error-code="arg-type, call-arg, dict-item, list-item"

import pytest

import cannery
from cannery import Controls, OutputFormat, Request, Response, Thinking, Tool, ToolChoice, Usage
from cannery.errors import MessageError
from cannery.messages import requests
from cannery.messages.checked import CheckedStruct

CLASSES = [
    Tool, ToolChoice, OutputFormat, Thinking, Controls, Request, Usage, Response
]  # fmt: skip


@pytest.mark.parametrize("cls", CLASSES)
def test_every_field_has_a_check(cls):
    assert issubclass(cls, CheckedStruct)
    assert tuple(cls.checks) == cls.__struct_fields__


def test_a_list_becomes_a_conversation():
    request = Request([cannery.user("Hi")], tools=[Tool("f")])

    assert type(request.conversation) is cannery.Conversation
    assert request.tools == (Tool("f"),)
    assert type(Response([cannery.assistant("x")]).canisters) is cannery.Conversation


def test_a_schema_may_be_a_mapping():
    tool = Tool("f", schema={"type": "object", "properties": {}})

    assert tool.schema == '{"type":"object","properties":{}}'
    assert tool.parameters == {"type": "object", "properties": {}}
    assert Tool("f").parameters is cannery.absent


def test_one_text_may_stand_for_several():
    assert Controls(stop="END").stop == ("END",)
    assert ToolChoice("named", "f").names == ("f",)


def test_what_is_given_is_kept_as_it_is():
    conversation = cannery.Conversation([cannery.user("x")])
    controls = Controls(temperature=1, max_tokens=-1)
    request = Request(conversation, "", controls=controls)

    assert request.conversation is conversation
    assert request.controls is controls
    assert type(controls.temperature) is int


@pytest.mark.parametrize(
    "make, where",
    [
        (lambda: Request("Hi"), "Request.conversation"),
        (lambda: Request({"role": "user"}), "Conversation[0]"),
        (lambda: Request(cannery.user("x")), "Request.conversation"),
        (lambda: Request([], model=5), "Request.model"),
        (lambda: Request([], tools=Tool("f")), "Request.tools"),
        (lambda: Request([], tools=[{"name": "f"}]), "Request.tools[0]"),
        (lambda: Request([], tool_choice="auto"), "Request.tool_choice"),
        (lambda: Request([], controls={"temperature": 1}), "Request.controls"),
        (lambda: Request([], stream=1), "Request.stream"),
        (lambda: Request([], residue="x"), "Request.residue"),
        (lambda: Tool(" "), "Tool.name"),
        (lambda: Tool("f\ud800"), "Tool.name"),
        (lambda: Tool("f", None), "Tool.description"),
        (lambda: Tool("f", schema="[]"), "Tool.schema"),
        (lambda: Tool("f", schema={"a": float("inf")}), "Tool.schema.a"),
        (lambda: Tool("f", strict="yes"), "Tool.strict"),
        (lambda: Tool("f", hosted="{"), "Tool.hosted"),
        (lambda: ToolChoice("any"), "ToolChoice.mode"),
        (lambda: ToolChoice(["auto"]), "ToolChoice.mode"),
        (lambda: ToolChoice("named", [1]), "ToolChoice.names[0]"),
        (lambda: ToolChoice("named"), "ToolChoice.names"),
        (lambda: ToolChoice("named", ["f", "g"]), "ToolChoice.names"),
        (lambda: ToolChoice("allowed"), "ToolChoice.names"),
        (lambda: OutputFormat("yaml"), "OutputFormat.kind"),
        (lambda: Controls(temperature="hot"), "Controls.temperature"),
        (lambda: Controls(temperature=True), "Controls.temperature"),
        (lambda: Controls(top_p=float("nan")), "Controls.top_p"),
        (lambda: Controls(max_tokens=1.5), "Controls.max_tokens"),
        (lambda: Controls(seed=False), "Controls.seed"),
        (lambda: Controls(stop=["a", "\udc00"]), "Controls.stop[1]"),
        (lambda: Controls(thinking=5), "Controls.thinking"),
        (lambda: Controls(metadata="5"), "Controls.metadata"),
        (lambda: Usage(True), "Usage.input"),
        (lambda: Response([cannery.assistant("x")], "stop"), "Response.finish"),
        (lambda: Response(None), "Response.canisters"),
        (lambda: Request([]).replace(stream="yes"), "Request.stream"),
        (lambda: Request([]).replace(conversation="Hi"), "Request.conversation"),
    ],
)
def test_wrong_value_is_refused(make, where):
    with pytest.raises(MessageError) as caught:
        make()
    assert caught.value.where == where


@pytest.mark.parametrize(
    "make", [Request, lambda: Request([], colour="red"), lambda: Request([]).replace(colour="red")]
)
def test_wrong_argument_list_is_a_type_error(make):
    with pytest.raises(TypeError):
        make()


def test_replace_checks_only_what_changes():
    odd = requests.new_request(cannery.Conversation(), 5)

    assert odd.replace(stream=True).model == 5
    assert odd.replace(model=cannery.absent).model is cannery.absent
    assert odd.replace(conversation=[cannery.user("x")]).conversation[0].text == "x"


def test_replace_gives_a_new_value():
    request = Request([cannery.user("x")], "m")

    assert request.replace(model="n").model == "n"
    assert request.model == "m"


def test_total_is_input_and_output():
    assert Usage(3, 4, cache_read=2).total == 7
