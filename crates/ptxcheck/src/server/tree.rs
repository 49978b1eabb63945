//! A document with its tree: what answers are found in.

use std::cell::OnceCell;

use super::checker::Checker;
use super::document::Document;
use super::protocol::{TextDocumentEdit, TextEdit, VersionedTextDocumentIdentifier, WorkspaceEdit};
use super::text::Text;
use ptx::ast::{Function, Item, Module};
use ptx::version::Needed;

/// A document and its tree.
pub struct Tree<'t> {
    pub document: &'t Document,
    pub text: &'t Text,
    pub source: &'t str,
    pub module: &'t Module<'t>,
    pub checker: &'t Checker,
    pub floors: &'t Floors,
}

impl<'t> Tree<'t> {
    /// The function that a byte lies in.
    pub fn function(&self, offset: u32) -> Option<&'t Function<'t>> {
        let functions = self.module.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        });
        let mut around = functions
            .filter(|function| (function.span.start..=function.span.end).contains(&offset));
        around.next()
    }

    /// Edits of this version of the document.
    pub fn edit(&self, edits: Vec<TextEdit>) -> WorkspaceEdit {
        let text_document = VersionedTextDocumentIdentifier {
            uri: self.document.uri.clone(),
            version: self.document.version,
        };
        WorkspaceEdit {
            document_changes: [TextDocumentEdit {
                text_document,
                edits,
            }],
        }
    }
}

/// Why a request has no answer, in words for the user.
pub struct Refusal(pub String);

/// The floors of a document, found when they are first asked for.
pub type Floors = OnceCell<Option<Needed>>;
