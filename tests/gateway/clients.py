"""What a client program does, with the official Python SDKs; also run as a script, with other versions of them.

Each scenario gives plain values, so that one expectation holds for all SDKs and their generations.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
KEY = "client-key"
Scenario = Callable[[Any, str], Any]


def _image_url() -> str:
    return "data:image/png;base64," + base64.b64encode(PIXEL).decode()


class Chat:
    """openai, Chat Completions."""

    client: Any
    errors: Any
    tools: Any = (
        {
            "type": "function",
            "function": {"name": "get_weather", "description": "w", "parameters": SCHEMA},
        },
    )

    def __init__(self, url: str) -> None:
        import openai

        self.errors, self.breaks = openai.APIStatusError, openai.APIError
        self.client = openai.OpenAI(base_url=f"{url}/openai/v1", api_key=KEY, max_retries=0)

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        return self.client.chat.completions.create(model=model, messages=messages, **more)

    def close(self) -> None:
        """Close what the SDK leaves open."""

    def plain(self, model: str) -> Any:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        answer = self.create(model, messages)
        return {
            "text": answer.choices[0].message.content,
            "output": answer.usage.completion_tokens > 0,
        }

    def streamed(self, model: str) -> Any:
        messages = [{"role": "user", "content": "one two three"}]
        options = {"include_usage": True}
        chunks = list(self.create(model, messages, stream=True, stream_options=options))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        return {"text": text, "output": chunks[-1].usage.completion_tokens > 0}

    def tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        answer = self.create(model, messages, tools=list(self.tools))
        message = answer.choices[0].message
        call = message.tool_calls[0]
        messages += [
            message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "4 degrees"},
        ]
        final = self.create(model, messages, tools=list(self.tools))
        return {
            "name": call.function.name,
            "arguments": json.loads(call.function.arguments),
            "text": final.choices[0].message.content,
        }

    def asked(self, text: str) -> Any:
        """A conversation of one question."""
        return [{"role": "user", "content": text}]

    def chunks(self, model: str, messages: Any, **more: Any) -> list[Any]:
        """The pieces of a streamed answer."""
        return list(self.create(model, messages, stream=True, **more))

    def _deltas(self, model: str, messages: list[Any], more: dict[str, Any]) -> list[Any]:
        chunks = self.chunks(model, messages, **more)
        return [chunk.choices[0].delta for chunk in chunks if chunk.choices]

    def streamed_tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        more = {"tools": list(self.tools)}
        deltas = self._deltas(model, messages, more)
        pieces = [piece for delta in deltas for piece in delta.tool_calls or ()]
        name, identifier = pieces[0].function.name, pieces[0].id
        arguments = "".join(piece.function.arguments or "" for piece in pieces)
        call = {"name": name, "arguments": arguments}
        calls = [{"id": identifier, "type": "function", "function": call}]
        messages += [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": identifier, "content": "4 degrees"},
        ]
        deltas = self._deltas(model, messages, more)
        text = "".join(delta.content or "" for delta in deltas)
        return {"name": name, "arguments": json.loads(arguments), "text": text}

    def image(self, model: str) -> Any:
        parts = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": _image_url()}},
        ]
        answer = self.create(model, [{"role": "user", "content": parts}])
        return {"text": answer.choices[0].message.content}

    def error(self, model: str) -> Any:
        try:
            self.plain(model)
        except self.errors as error:
            return self.told(error)
        return None

    # What the SDK raises of a stream that tells of an error, unless it hands on an event.
    breaks: Any = ()

    def broken(self, model: str) -> Any:
        """The error at the end of a stream that breaks off."""
        try:
            events = self.chunks(model, self.asked("one two three"))
        except self.breaks as error:
            return str(error)
        return self.failure(events)

    def failure(self, events: list[Any]) -> Any:
        """The error that an event tells of, if one does."""
        return None

    def told(self, error: Any) -> Any:
        """An error of the SDK as plain values."""
        body = error.body if isinstance(error.body, dict) else {}
        inner = body.get("error", body)
        retry = error.response.headers.get("retry-after")
        found = {"status": error.status_code, "message": inner.get("message"), "retry": retry}
        return {**found, "kind": inner.get("type")}


class Responses(Chat):
    """openai, Responses."""

    tools = (
        {
            "type": "function",
            "name": "get_weather",
            "description": "w",
            "parameters": SCHEMA,
            "strict": False,
        },
    )

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        return self.client.responses.create(model=model, input=messages, **more)

    def plain(self, model: str) -> Any:
        answer = self.create(model, [{"role": "user", "content": "Hi"}], instructions="Be brief.")
        return {"text": answer.output_text, "output": answer.usage.output_tokens > 0}

    def streamed(self, model: str) -> Any:
        events = list(
            self.create(model, [{"role": "user", "content": "one two three"}], stream=True)
        )
        text = "".join(
            event.delta for event in events if event.type == "response.output_text.delta"
        )
        assert events[-1].type == "response.completed"
        assert events[-1].response.output_text == text
        return {"text": text, "output": events[-1].response.usage.output_tokens > 0}

    def tool(self, model: str) -> Any:
        items: list[Any] = [{"role": "user", "content": "call get_weather"}]
        answer = self.create(model, items, tools=list(self.tools))
        call = next(item for item in answer.output if item.type == "function_call")
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        items.append(
            {"type": "function_call_output", "call_id": call.call_id, "output": "4 degrees"}
        )
        final = self.create(model, items, tools=list(self.tools))
        return {
            "name": call.name,
            "arguments": json.loads(call.arguments),
            "text": final.output_text,
        }

    def failure(self, events: list[Any]) -> Any:
        last = events[-1]
        return last.response.error.message if last.type == "response.failed" else None

    def streamed_tool(self, model: str) -> Any:
        items: list[Any] = [{"role": "user", "content": "call get_weather"}]
        more = {"tools": list(self.tools)}
        output = self.chunks(model, items, **more)[-1].response.output
        call = next(item for item in output if item.type == "function_call")
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "4 degrees"}
        items += [*(item.model_dump(exclude_none=True) for item in output), result]
        final = self.chunks(model, items, **more)[-1].response
        arguments = json.loads(call.arguments)
        return {"name": call.name, "arguments": arguments, "text": final.output_text}

    def image(self, model: str) -> Any:
        parts = [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": _image_url(), "detail": "auto"},
        ]
        answer = self.create(model, [{"role": "user", "content": parts}])
        return {"text": answer.output_text}


class AzureChat(Chat):
    """openai, a deployment of Azure."""

    def __init__(self, url: str) -> None:
        import openai

        self.errors, self.breaks = openai.APIStatusError, openai.APIError
        self.client = openai.AzureOpenAI(
            azure_endpoint=url, api_key=KEY, api_version="2024-10-21", max_retries=0
        )


class AzureResponses(AzureChat, Responses):
    """openai, the Responses API of Azure."""


class Messages(Chat):
    """anthropic."""

    tools = ({"name": "get_weather", "description": "w", "input_schema": SCHEMA},)

    def __init__(self, url: str) -> None:
        import anthropic

        self.errors = self.breaks = anthropic.APIStatusError
        self.client = anthropic.Anthropic(base_url=f"{url}/anthropic", api_key=KEY, max_retries=0)

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        return self.client.messages.create(model=model, max_tokens=100, messages=messages, **more)

    def plain(self, model: str) -> Any:
        answer = self.create(model, [{"role": "user", "content": "Hi"}], system="Be brief.")
        return {"text": answer.content[0].text, "output": answer.usage.output_tokens > 0}

    def streamed(self, model: str) -> Any:
        messages = [{"role": "user", "content": "one two three"}]
        with self.client.messages.stream(model=model, max_tokens=100, messages=messages) as stream:
            text = "".join(stream.text_stream)
            usage = stream.get_final_message().usage
        return {"text": text, "output": usage.output_tokens > 0}

    def tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        answer = self.create(model, messages, tools=list(self.tools))
        call = next(block for block in answer.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "4 degrees"}
        messages += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [result]},
        ]
        final = self.create(model, messages, tools=list(self.tools))
        return {"name": call.name, "arguments": call.input, "text": final.content[0].text}

    def streamed_tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        more = {"model": model, "max_tokens": 100, "tools": list(self.tools)}
        with self.client.messages.stream(messages=messages, **more) as stream:
            said = stream.get_final_message().content
        call = next(block for block in said if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "4 degrees"}
        messages += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": [result]},
        ]
        with self.client.messages.stream(messages=messages, **more) as stream:
            text = "".join(stream.text_stream)
        return {"name": call.name, "arguments": call.input, "text": text}

    def image(self, model: str) -> Any:
        source = {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(PIXEL).decode(),
        }
        parts = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}]
        answer = self.create(model, [{"role": "user", "content": parts}])
        return {"text": answer.content[0].text}


class BedrockMessages(Messages):
    """anthropic, Claude by InvokeModel, signed."""

    def __init__(self, url: str) -> None:
        import anthropic

        self.errors = self.breaks = anthropic.APIStatusError
        self.client = anthropic.AnthropicBedrock(
            base_url=url,
            aws_region="us-east-1",
            aws_access_key="any",
            aws_secret_key=KEY,
            max_retries=0,
        )


class VertexMessages(Messages):
    """anthropic, Claude on Vertex AI."""

    def __init__(self, url: str) -> None:
        import anthropic

        self.errors = self.breaks = anthropic.APIStatusError
        self.client = anthropic.AnthropicVertex(
            base_url=f"{url}/v1",
            region="us-east5",
            project_id="p",
            access_token=KEY,
            max_retries=0,
        )


class Gemini(Chat):
    """google-genai."""

    def __init__(self, url: str) -> None:
        from google import genai
        from google.genai import errors, types

        self.errors = self.breaks = errors.APIError
        self.types = types
        options = types.HttpOptions(base_url=f"{url}/gemini")
        self.client = genai.Client(api_key=KEY, http_options=options)

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        config = self.types.GenerateContentConfig(**more) if more else None
        return self.client.models.generate_content(model=model, contents=messages, config=config)

    def asked(self, text: str) -> Any:
        return [self._user(self.types.Part(text=text))]

    def _user(self, *parts: Any) -> Any:
        return self.types.Content(role="user", parts=list(parts))

    def plain(self, model: str) -> Any:
        hello = self._user(self.types.Part(text="Hi"))
        answer = self.create(model, [hello], system_instruction="Be brief.")
        return {"text": answer.text, "output": answer.usage_metadata.candidates_token_count > 0}

    def streamed(self, model: str) -> Any:
        asked = self._user(self.types.Part(text="one two three"))
        chunks = list(self.client.models.generate_content_stream(model=model, contents=[asked]))
        text = "".join(chunk.text or "" for chunk in chunks)
        usage = chunks[-1].usage_metadata
        return {"text": text, "output": usage.candidates_token_count > 0}

    def tool(self, model: str) -> Any:
        return self._called(lambda *given: [self.create(model, *given[:1], **given[1])])

    def streamed_tool(self, model: str) -> Any:
        return self._called(lambda *given: self.chunks(model, *given[:1], **given[1]))

    def chunks(self, model: str, messages: list[Any], **more: Any) -> list[Any]:
        config = self.types.GenerateContentConfig(**more)
        stream = self.client.models.generate_content_stream
        return list(stream(model=model, contents=messages, config=config))

    def _called(self, ask: Callable[[list[Any], dict[str, Any]], list[Any]]) -> Any:
        """A call and what is said to its result, with answers as lists of pieces."""
        types = self.types
        declared = types.FunctionDeclaration(
            name="get_weather", description="w", parameters_json_schema=SCHEMA
        )
        more = {"tools": [types.Tool(function_declarations=[declared])]}
        asked = self._user(types.Part(text="call get_weather"))
        pieces = [piece.candidates[0].content for piece in ask([asked], more)]
        parts = [part for piece in pieces if piece for part in piece.parts or ()]
        call = next(part.function_call for part in parts if part.function_call)
        result = types.FunctionResponse(
            id=call.id, name=call.name, response={"result": "4 degrees"}
        )
        said = types.Content(role="model", parts=parts)
        contents = [asked, said, self._user(types.Part(function_response=result))]
        text = "".join(piece.text or "" for piece in ask(contents, more))
        return {"name": call.name, "arguments": call.args, "text": text}

    def image(self, model: str) -> Any:
        parts = [
            self.types.Part(text="What is this?"),
            self.types.Part.from_bytes(data=PIXEL, mime_type="image/png"),
        ]
        return {"text": self.create(model, [self._user(*parts)]).text}

    def told(self, error: Any) -> Any:
        retry = error.response.headers.get("retry-after")
        found = {"status": error.code, "message": error.message, "retry": retry}
        return {**found, "kind": error.status}


class VertexGemini(Gemini):
    """google-genai, Vertex AI."""

    def __init__(self, url: str) -> None:
        from google import genai
        from google.genai import errors, types
        from google.oauth2.credentials import Credentials

        self.errors = self.breaks = errors.APIError
        self.types = types
        options = types.HttpOptions(base_url=url)
        self.client = genai.Client(
            vertexai=True,
            project="p",
            location="us-central1",
            credentials=Credentials(KEY),
            http_options=options,
        )


class Interactions(Chat):
    """google-genai, client.interactions."""

    def __init__(self, url: str) -> None:
        from google import genai
        from google.genai import types
        from google.genai._interactions.core.error import APIStatusError

        self.errors = APIStatusError
        # Without this the SDK asks again after an error.
        retries = types.HttpRetryOptions(attempts=1)
        options = types.HttpOptions(base_url=f"{url}/gemini", retry_options=retries)
        self.client = genai.Client(api_key=KEY, http_options=options)

    def asked(self, text: str) -> Any:
        return text

    def failure(self, events: list[Any]) -> Any:
        last = events[-1]
        return last.error.message if last.event_type == "error" else None

    def create(self, model: str, messages: Any, **more: Any) -> Any:
        return self.client.interactions.create(model=model, input=messages, **more)

    def plain(self, model: str) -> Any:
        answer = self.create(model, "Hi", system_instruction="Be brief.")
        return {"text": answer.output_text, "output": answer.usage.total_output_tokens > 0}

    def streamed(self, model: str) -> Any:
        events = list(self.create(model, "one two three", stream=True))
        deltas = [event.delta for event in events if event.event_type == "step.delta"]
        text = "".join(delta.text for delta in deltas if delta.type == "text")
        usage = events[-1].interaction.usage
        return {"text": text, "output": usage.total_output_tokens > 0}

    def tool(self, model: str) -> Any:
        """The history of the second request is what the service keeps."""
        declared = {"type": "function", "name": "get_weather", "description": "w"}
        tools = [{**declared, "parameters": SCHEMA}]
        answer = self.create(model, "call get_weather", tools=tools)
        call = next(step for step in answer.steps if step.type == "function_call")
        result = {"type": "function_result", "call_id": call.id, "result": "4 degrees"}
        more = {"previous_interaction_id": answer.id, "tools": tools}
        final = self.create(model, [{**result, "name": call.name}], **more)
        return {"name": call.name, "arguments": call.arguments, "text": final.output_text}

    def streamed_tool(self, model: str) -> Any:
        """The history of the second request is in it."""
        declared = {"type": "function", "name": "get_weather", "description": "w"}
        more = {"tools": [{**declared, "parameters": SCHEMA}], "store": False}
        words = {"type": "text", "text": "call get_weather"}
        asked = {"type": "user_input", "content": [words]}
        events = self.chunks(model, [asked], **more)
        step = next(
            event.step
            for event in events
            if event.event_type == "step.start" and event.step.type == "function_call"
        )
        deltas = [event.delta for event in events if event.event_type == "step.delta"]
        spelled = "".join(each.arguments for each in deltas if each.type == "arguments_delta")
        call = {"type": "function_call", "id": step.id, "name": step.name}
        result = {"type": "function_result", "call_id": step.id, "result": "4 degrees"}
        arguments = json.loads(spelled)
        history = [asked, {**call, "arguments": arguments}, {**result, "name": step.name}]
        events = self.chunks(model, history, **more)
        deltas = [event.delta for event in events if event.event_type == "step.delta"]
        text = "".join(each.text for each in deltas if each.type == "text")
        return {"name": step.name, "arguments": arguments, "text": text}

    def image(self, model: str) -> Any:
        data = base64.b64encode(PIXEL).decode()
        shown = {"type": "image", "data": data, "mime_type": "image/png"}
        answer = self.create(model, [{"type": "text", "text": "What is this?"}, shown])
        return {"text": answer.output_text}

    def told(self, error: Any) -> Any:
        retry = error.response.headers.get("retry-after")
        inner = error.body["error"]
        found = {"status": error.status_code, "message": inner["message"], "retry": retry}
        return {**found, "kind": inner.get("code")}


class Mistral(Chat):
    """mistralai."""

    def __init__(self, url: str) -> None:
        from mistralai.client import Mistral as Client
        from mistralai.client.errors import MistralError, SDKError

        self.errors, self.breaks = SDKError, MistralError
        self.client = Client(api_key=KEY, server_url=url)

    def close(self) -> None:
        self.client.__exit__(None, None, None)

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        return self.client.chat.complete(model=model, messages=messages, **more)

    def chunks(self, model: str, messages: list[Any], **more: Any) -> list[Any]:
        with self.client.chat.stream(model=model, messages=messages, **more) as stream:
            return [event.data for event in stream]

    def streamed(self, model: str) -> Any:
        chunks = self.chunks(model, [{"role": "user", "content": "one two three"}])
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        return {"text": text, "output": chunks[-1].usage.completion_tokens > 0}

    def told(self, error: Any) -> Any:
        body = json.loads(error.body)
        message, retry = body.get("message", body.get("detail")), error.headers.get("retry-after")
        found = {"status": error.status_code, "message": message, "retry": retry}
        return {**found, "kind": body.get("type")}


class Ollama(Chat):
    """ollama."""

    def __init__(self, url: str) -> None:
        import ollama

        self.errors = self.breaks = ollama.ResponseError
        self.client = ollama.Client(url)

    def close(self) -> None:
        self.client.close()

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        return self.client.chat(model, messages, **more)

    def plain(self, model: str) -> Any:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        answer = self.create(model, messages)
        return {"text": answer.message.content, "output": answer.eval_count > 0}

    def streamed(self, model: str) -> Any:
        messages = [{"role": "user", "content": "one two three"}]
        chunks = list(self.create(model, messages, stream=True))
        text = "".join(chunk.message.content or "" for chunk in chunks)
        return {"text": text, "output": chunks[-1].eval_count > 0}

    def tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        answer = self.create(model, messages, tools=list(self.tools))
        call = answer.message.tool_calls[0].function
        told = {"role": "tool", "tool_name": call.name, "content": "4 degrees"}
        final = self.create(model, [*messages, answer.message, told], tools=list(self.tools))
        arguments = dict(call.arguments)
        return {"name": call.name, "arguments": arguments, "text": final.message.content}

    def streamed_tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        more = {"tools": list(self.tools)}
        said = [line.message for line in self.chunks(model, messages, **more)]
        calls = [call for message in said for call in message.tool_calls or ()]
        call = calls[0].function
        messages += [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_name": call.name, "content": "4 degrees"},
        ]
        lines = self.chunks(model, messages, **more)
        text = "".join(line.message.content or "" for line in lines)
        return {"name": call.name, "arguments": dict(call.arguments), "text": text}

    def image(self, model: str) -> Any:
        asked = {"role": "user", "content": "What is this?", "images": [PIXEL]}
        return {"text": self.create(model, [asked]).message.content}

    def told(self, error: Any) -> Any:
        """The SDK keeps no headers of an error."""
        return {"status": error.status_code, "message": str(error)}


class Cohere(Chat):
    """cohere."""

    def __init__(self, url: str) -> None:
        import cohere
        import httpx
        from cohere.core.api_error import ApiError

        self.errors = ApiError
        self.http = httpx.Client()
        self.client = cohere.ClientV2(KEY, base_url=f"{url}/cohere", httpx_client=self.http)

    def close(self) -> None:
        self.http.close()

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        options = {"max_retries": 0}
        return self.client.chat(model=model, messages=messages, request_options=options, **more)

    def plain(self, model: str) -> Any:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        answer = self.create(model, messages)
        return {
            "text": answer.message.content[0].text,
            "output": answer.usage.tokens.output_tokens > 0,
        }

    def streamed(self, model: str) -> Any:
        messages = [{"role": "user", "content": "one two three"}]
        events = list(self.client.chat_stream(model=model, messages=messages))
        words = [event.delta.message.content for event in events if event.type == "content-delta"]
        assert [events[0].type, events[-1].type] == ["message-start", "message-end"]
        usage = events[-1].delta.usage
        text = "".join(each.text for each in words)
        return {"text": text, "output": usage.tokens.output_tokens > 0}

    def tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        answer = self.create(model, messages, tools=list(self.tools))
        call = answer.message.tool_calls[0]
        document = {"type": "document", "document": {"data": {"temperature": "4 degrees"}}}
        told = {"role": "tool", "tool_call_id": call.id, "content": [document]}
        final = self.create(model, [*messages, answer.message, told], tools=list(self.tools))
        return {
            "name": call.function.name,
            "arguments": json.loads(call.function.arguments),
            "text": final.message.content[0].text,
        }

    def failure(self, events: list[Any]) -> Any:
        return events[-1].delta.error if events[-1].type == "message-end" else None

    def chunks(self, model: str, messages: list[Any], **more: Any) -> list[Any]:
        return list(self.client.chat_stream(model=model, messages=messages, **more))

    def streamed_tool(self, model: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": "call get_weather"}]
        more = {"tools": list(self.tools)}
        events = self.chunks(model, messages, **more)
        start, *later = [event for event in events if event.type.startswith("tool-call-")]
        call = start.delta.message.tool_calls
        spelled = call.function.arguments + "".join(
            event.delta.message.tool_calls.function.arguments
            for event in later
            if event.type == "tool-call-delta"
        )
        function = {"name": call.function.name, "arguments": spelled}
        calls = [{"id": call.id, "type": "function", "function": function}]
        messages += [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": call.id, "content": "4 degrees"},
        ]
        events = self.chunks(model, messages, **more)
        words = [event.delta.message.content for event in events if event.type == "content-delta"]
        text = "".join(each.text for each in words)
        return {"name": call.function.name, "arguments": json.loads(spelled), "text": text}

    def image(self, model: str) -> Any:
        parts = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": _image_url()}},
        ]
        answer = self.create(model, [{"role": "user", "content": parts}])
        return {"text": answer.message.content[0].text}

    def told(self, error: Any) -> Any:
        body, retry = error.body, error.headers.get("retry-after")
        message = body["message"] if isinstance(body, dict) else body.message
        return {"status": error.status_code, "message": message, "retry": retry}


class Bedrock(Chat):
    """boto3."""

    tools: Any = (
        {
            "toolSpec": {
                "name": "get_weather",
                "description": "w",
                "inputSchema": {"json": SCHEMA},
            }
        },
    )

    def __init__(self, url: str) -> None:
        import boto3
        import botocore.config
        import botocore.exceptions

        self.errors = self.breaks = botocore.exceptions.ClientError
        self.client = boto3.client(
            "bedrock-runtime",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="client",
            aws_secret_access_key=KEY,
            config=botocore.config.Config(retries={"total_max_attempts": 1}),
        )

    def create(self, model: str, messages: list[Any], **more: Any) -> Any:
        return self.client.converse(modelId=model, messages=messages, **more)

    def plain(self, model: str) -> Any:
        answer = self.create(model, [_said("Hi")], system=[{"text": "Be brief."}])
        text = answer["output"]["message"]["content"][0]["text"]
        return {"text": text, "output": answer["usage"]["outputTokens"] > 0}

    def streamed(self, model: str) -> Any:
        events = self.chunks(model, [_said("one two three")])
        assert "messageStop" in events[-2]
        usage = events[-1]["metadata"]["usage"]
        text = "".join(delta["text"] for delta in _deltas(events, "text"))
        return {"text": text, "output": usage["outputTokens"] > 0}

    def asked(self, text: str) -> Any:
        return [_said(text)]

    def chunks(self, model: str, messages: list[Any], **more: Any) -> list[Any]:
        stream = self.client.converse_stream(modelId=model, messages=messages, **more)["stream"]
        # One that raises keeps its connection open.
        with closing(stream):
            return list(stream)

    def tool(self, model: str) -> Any:
        messages = [_said("call get_weather")]
        config = {"tools": list(self.tools)}
        answer = self.create(model, messages, toolConfig=config)["output"]["message"]
        call = next(block["toolUse"] for block in answer["content"] if "toolUse" in block)
        result = {"toolUseId": call["toolUseId"], "content": [{"text": "4 degrees"}]}
        messages += [answer, {"role": "user", "content": [{"toolResult": result}]}]
        final = self.create(model, messages, toolConfig=config)["output"]["message"]
        return {
            "name": call["name"],
            "arguments": call["input"],
            "text": final["content"][0]["text"],
        }

    def image(self, model: str) -> Any:
        image = {"format": "png", "source": {"bytes": PIXEL}}
        asked = {"role": "user", "content": [{"text": "What is this?"}, {"image": image}]}
        return {"text": self.create(model, [asked])["output"]["message"]["content"][0]["text"]}

    def streamed_tool(self, model: str) -> Any:
        messages = [_said("call get_weather")]
        more = {"toolConfig": {"tools": list(self.tools)}}
        events = self.chunks(model, messages, **more)
        start = next(
            event["contentBlockStart"]["start"] for event in events if "contentBlockStart" in event
        )
        call = start["toolUse"]
        spelled = "".join(delta["toolUse"]["input"] for delta in _deltas(events, "toolUse"))
        arguments = json.loads(spelled)
        result = {"toolUseId": call["toolUseId"], "content": [{"text": "4 degrees"}]}
        messages += [
            {"role": "assistant", "content": [{"toolUse": {**call, "input": arguments}}]},
            {"role": "user", "content": [{"toolResult": result}]},
        ]
        events = self.chunks(model, messages, **more)
        text = "".join(delta["text"] for delta in _deltas(events, "text"))
        return {"name": call["name"], "arguments": arguments, "text": text}

    def told(self, error: Any) -> Any:
        found, around = error.response["Error"], error.response["ResponseMetadata"]
        told = {"status": around["HTTPStatusCode"], "message": found["Message"]}
        return {**told, "retry": around["HTTPHeaders"].get("retry-after"), "kind": found["Code"]}


def _deltas(events: list[Any], kind: str) -> list[Any]:
    """What one kind of delta says."""
    deltas = [
        event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event
    ]
    return [delta for delta in deltas if kind in delta]


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


CLIENTS: dict[str, type[Chat]] = {
    "chat": Chat,
    "chat_azure": AzureChat,
    "responses": Responses,
    "responses_azure": AzureResponses,
    "messages": Messages,
    "messages_bedrock": BedrockMessages,
    "messages_vertex": VertexMessages,
    "gemini": Gemini,
    "gemini_vertex": VertexGemini,
    "interactions": Interactions,
    "mistral": Mistral,
    "cohere": Cohere,
    "ollama": Ollama,
    "bedrock": Bedrock,
}
# What is done, and the last word of the model that it is done with, which tells the upstream how to behave.
SCENARIOS = (
    ("plain", "model"),
    ("streamed", "model"),
    ("tool", "model"),
    ("streamed_tool", "model"),
    ("image", "model"),
    *(("error", status) for status in ("400", "401", "429", "500")),
    ("broken", "cut"),
)


def run(made: Chat, jobs: list[tuple[str, str]]) -> list[Any]:
    """Do each job (a scenario and a model) with one client."""
    return [getattr(made, scenario)(model) for scenario, model in jobs]


if __name__ == "__main__":
    json.dump(run(CLIENTS[sys.argv[1]](sys.argv[2]), json.loads(sys.argv[3])), sys.stdout)
