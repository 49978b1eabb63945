"""`ptxcheck server`, asked by pytest-lsp: a client that is not this project's own.

PTXCHECK names the program.
"""

import os

import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

URI = "file:///nowhere/k.ptx"
TEXT = """\
.version 8.0
.target sm_80
.address_size 64

.visible .entry k()
{
	.reg .b32 %a;
	mov.u32 %a, %tid.x;
	rte;
}
"""


@pytest_lsp.fixture(
    params=["visual-studio-code", "neovim"],
    config=ClientServerConfig(server_command=[os.environ.get("PTXCHECK", "ptxcheck"), "server"]),
)
async def client(request, lsp_client: LanguageClient):
    @lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def _(params: types.RegistrationParams):
        return None

    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities(request.param))
    )
    yield
    await lsp_client.shutdown_session()


def opened(client: LanguageClient, text: str) -> types.TextDocumentIdentifier:
    item = types.TextDocumentItem(uri=URI, language_id="ptx", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    return types.TextDocumentIdentifier(uri=URI)


async def test_diagnostics_and_a_change(client: LanguageClient):
    opened(client, TEXT)
    await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    codes = [found.code for found in client.diagnostics[URI]]
    assert "E0101" in codes
    start, end = types.Position(line=8, character=1), types.Position(line=8, character=4)
    change = types.TextDocumentContentChangePartial(
        range=types.Range(start=start, end=end), text="ret"
    )
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            text_document=types.VersionedTextDocumentIdentifier(uri=URI, version=2),
            content_changes=[change],
        )
    )
    await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert "E0101" not in [found.code for found in client.diagnostics[URI]]


async def test_hover_definition_and_rename(client: LanguageClient):
    document = opened(client, TEXT)
    at = types.Position(line=7, character=10)
    hover = await client.text_document_hover_async(
        types.HoverParams(text_document=document, position=at)
    )
    assert ".reg .b32 %a" in hover.contents.value
    found = await client.text_document_definition_async(
        types.DefinitionParams(text_document=document, position=at)
    )
    assert found.range.start == types.Position(line=6, character=11)
    edit = await client.text_document_rename_async(
        types.RenameParams(text_document=document, position=at, new_name="%b")
    )
    assert [change.new_text for change in edit.document_changes[0].edits] == ["%b", "%b"]


async def test_formatting_and_completion(client: LanguageClient):
    document = opened(client, TEXT.replace("\trte;", "ret  ;"))
    options = types.FormattingOptions(tab_size=8, insert_spaces=False)
    edits = await client.text_document_formatting_async(
        types.DocumentFormattingParams(text_document=document, options=options)
    )
    assert [edit.new_text for edit in edits] == ["\tret;\n"]
    at = types.Position(line=7, character=5)
    offered = await client.text_document_completion_async(
        types.CompletionParams(text_document=document, position=at)
    )
    assert "u32" in [item.label for item in offered]
