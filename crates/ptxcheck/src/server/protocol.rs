//! The messages of the Language Server Protocol 3.17 that this server reads and writes.
//!
//! Types and fields have the names of the specification. Only the fields that the server
//! reads or writes are here: the types of the whole protocol take longer to compile than
//! the rest of the server.

use lsp_server::RequestId;
use serde::{Deserialize, Serialize};

/// A line, from 0, and a column in UTF-16 code units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Position {
    pub line: u32,
    pub character: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Range {
    pub start: Position,
    pub end: Position,
}

// What a client sends.

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DidOpenTextDocumentParams {
    pub text_document: TextDocumentItem,
}

#[derive(Deserialize)]
pub struct TextDocumentItem {
    pub uri: String,
    pub version: i32,
    pub text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DidChangeTextDocumentParams {
    pub text_document: VersionedTextDocumentIdentifier,
    pub content_changes: Vec<TextDocumentContentChangeEvent>,
}

#[derive(Deserialize, Serialize)]
pub struct VersionedTextDocumentIdentifier {
    pub uri: String,
    pub version: i32,
}

/// Without a range, `text` is the whole document.
#[derive(Deserialize)]
pub struct TextDocumentContentChangeEvent {
    pub range: Option<Range>,
    pub text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DidCloseTextDocumentParams {
    pub text_document: TextDocumentIdentifier,
}

#[derive(Deserialize)]
pub struct TextDocumentIdentifier {
    pub uri: String,
}

#[derive(Deserialize)]
pub struct CancelParams {
    pub id: RequestId,
}

/// Of hover, completion, definition, document highlight and prepare rename.
#[derive(Deserialize)]
pub struct TextDocumentPositionParams {
    pub position: Position,
}

#[derive(Deserialize)]
pub struct ReferenceParams {
    pub position: Position,
    pub context: ReferenceContext,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceContext {
    pub include_declaration: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenameParams {
    pub position: Position,
    pub new_name: String,
}

#[derive(Deserialize)]
pub struct CodeActionParams {
    pub range: Range,
    pub context: CodeActionContext,
}

#[derive(Deserialize)]
pub struct CodeActionContext {
    pub only: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub struct InlayHintParams {
    pub range: Range,
}

// What the server sends.

#[derive(Serialize)]
pub struct PublishDiagnosticsParams {
    pub uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Serialize)]
pub struct Diagnostic {
    pub range: Range,
    pub severity: DiagnosticSeverity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub source: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub tags: &'static [DiagnosticTag],
}

#[derive(Clone, Copy, Serialize)]
pub struct DiagnosticSeverity(u8);

impl DiagnosticSeverity {
    pub const ERROR: DiagnosticSeverity = DiagnosticSeverity(1);
    pub const WARNING: DiagnosticSeverity = DiagnosticSeverity(2);
    pub const INFORMATION: DiagnosticSeverity = DiagnosticSeverity(3);
}

#[derive(Clone, Copy, Serialize)]
pub struct DiagnosticTag(u8);

impl DiagnosticTag {
    pub const DEPRECATED: DiagnosticTag = DiagnosticTag(2);
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextEdit {
    pub range: Range,
    pub new_text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceEdit {
    pub document_changes: [TextDocumentEdit; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextDocumentEdit {
    pub text_document: VersionedTextDocumentIdentifier,
    pub edits: Vec<TextEdit>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeAction {
    pub title: String,
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    pub edit: WorkspaceEdit,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_preferred: bool,
}

#[derive(Serialize)]
pub struct Hover {
    pub contents: MarkupContent,
    pub range: Range,
}

#[derive(Serialize)]
pub struct MarkupContent {
    pub kind: &'static str,
    pub value: String,
}

#[derive(Serialize)]
pub struct Location {
    pub uri: String,
    pub range: Range,
}

#[derive(Serialize)]
pub struct DocumentHighlight {
    pub range: Range,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionItem {
    pub label: String,
    pub kind: CompletionItemKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_text: Option<String>,
    pub text_edit: TextEdit,
}

#[derive(Clone, Copy, Serialize)]
pub struct CompletionItemKind(u8);

impl CompletionItemKind {
    pub const FUNCTION: CompletionItemKind = CompletionItemKind(3);
    pub const VARIABLE: CompletionItemKind = CompletionItemKind(6);
    pub const VALUE: CompletionItemKind = CompletionItemKind(12);
    pub const KEYWORD: CompletionItemKind = CompletionItemKind(14);
    pub const REFERENCE: CompletionItemKind = CompletionItemKind(18);
    pub const CONSTANT: CompletionItemKind = CompletionItemKind(21);
    pub const STRUCT: CompletionItemKind = CompletionItemKind(22);
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentSymbol {
    pub name: String,
    pub detail: String,
    pub kind: SymbolKind,
    pub range: Range,
    pub selection_range: Range,
    pub children: Vec<DocumentSymbol>,
}

#[derive(Clone, Copy, Serialize)]
pub struct SymbolKind(u8);

impl SymbolKind {
    pub const FUNCTION: SymbolKind = SymbolKind(12);
    pub const VARIABLE: SymbolKind = SymbolKind(13);
    pub const CONSTANT: SymbolKind = SymbolKind(14);
    pub const KEY: SymbolKind = SymbolKind(20);
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoldingRange {
    pub start_line: u32,
    pub end_line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InlayHint {
    pub position: Position,
    pub label: String,
    pub kind: InlayHintKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tooltip: Option<String>,
    pub padding_left: bool,
}

#[derive(Clone, Copy, Serialize)]
pub struct InlayHintKind(u8);

impl InlayHintKind {
    pub const TYPE: InlayHintKind = InlayHintKind(1);
}
