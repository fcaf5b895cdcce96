"""The model of a conversation: immutable values, without I/O and without provider names.

canister
    one immutable message: a role, a timestamp, one content (or a call, or a result)
role
    one of six: user, assistant, supervisor, document, invocation, result
content
    the content of a canister: text, image, audio, video, file, reasoning, refusal, data, opaque, parts
joined
    a mark on a canister: it belongs to the same wire message as the one before it
residue
    the parts of a wire message that this model cannot hold, kept for the dialect it came from
digest
    identity over meaning; ``docs/identity.md`` specifies it
conversation
    an immutable sequence of canisters, compared by meaning
request, response, event
    a conversation with settings and tools, the model's answer, and a piece of a streamed answer
"""

from cannery.messages.absence import Absential, absent
from cannery.messages.builders import assistant, document, invocation, result, supervisor, user
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
)
from cannery.messages.content import (
    AnyContent,
    AudioContentClass,
    Citation,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    OpaqueContentClass,
    Origin,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    VideoContentClass,
)
from cannery.messages.conversation import Conversation, Exchange
from cannery.messages.events import (
    Delta,
    Event,
    Failure,
    Finish,
    Folder,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
    fold,
    unfold,
)
from cannery.messages.hosted import HostedUse
from cannery.messages.identity import conversation_digest, digest, prefix_digests
from cannery.messages.immutable import Array, Dictionary
from cannery.messages.payload import Base64, Deferred, Location, NotHydrated, content_id_of
from cannery.messages.protocols import (
    AssistantCanister,
    AudioContent,
    Canister,
    Content,
    DocumentCanister,
    ImageContent,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
    VideoContent,
)
from cannery.messages.requests import (
    Controls,
    FinishReason,
    OutputFormat,
    Request,
    Response,
    Thinking,
    Tool,
    ToolChoice,
    Usage,
)
from cannery.messages.residue import Residue
from cannery.messages.role import Role

__all__ = [
    "Absential",
    "AnyCanister",
    "AnyContent",
    "Array",
    "AssistantCanister",
    "AssistantCanisterClass",
    "AudioContent",
    "AudioContentClass",
    "Base64",
    "Canister",
    "Citation",
    "Content",
    "Controls",
    "Conversation",
    "DataContentClass",
    "Deferred",
    "Delta",
    "Dictionary",
    "DocumentCanister",
    "DocumentCanisterClass",
    "Event",
    "Exchange",
    "Failure",
    "FileContentClass",
    "Finish",
    "FinishReason",
    "Folder",
    "HostedUse",
    "ImageContent",
    "ImageContentClass",
    "InvocationCanister",
    "InvocationCanisterClass",
    "Location",
    "NotHydrated",
    "OpaqueContentClass",
    "Origin",
    "OutputFormat",
    "PartEnd",
    "PartStart",
    "PartsContentClass",
    "ReasoningContentClass",
    "RefusalContentClass",
    "Request",
    "Residue",
    "Response",
    "ResultCanister",
    "ResultCanisterClass",
    "Role",
    "Start",
    "SupervisorCanister",
    "SupervisorCanisterClass",
    "TextualContent",
    "TextualContentClass",
    "Thinking",
    "Tool",
    "ToolChoice",
    "Unknown",
    "Usage",
    "UsageReport",
    "UserCanister",
    "UserCanisterClass",
    "VideoContent",
    "VideoContentClass",
    "absent",
    "assistant",
    "content_id_of",
    "conversation_digest",
    "digest",
    "document",
    "fold",
    "invocation",
    "prefix_digests",
    "result",
    "supervisor",
    "unfold",
    "user",
]
