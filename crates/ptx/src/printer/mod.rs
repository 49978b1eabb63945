//! The printer: syntax tree → text. Parsing the text again gives the same tree except for spans.
//!
//! [`print()`] uses only the tree. [`format()`] also uses the source, and preserves comments, blank
//! lines and the notation of numbers.

pub mod comments;
mod declaration;
mod layout;
mod operand;
mod statement;

use super::ast::Module;
use super::diagnostic::Diagnostic;
use super::parse::read;
use layout::Layout;

/// Prints a module, one statement on each line.
///
/// ```
/// let source = ".version 8.0\n.target sm_80\n.entry k ( )\n{ ret ; }";
/// let text = ptxkit_ptx::printer::print(&ptxkit_ptx::read(source).module);
/// assert_eq!(text, ".version 8.0\n.target sm_80\n\n.entry k()\n{\n\tret;\n}\n");
/// ```
pub fn print(module: &Module<'_>) -> String {
    let mut layout = Layout::new(None);
    layout.module(module);
    layout.finish()
}

/// Formats a source text, with its comments.
///
/// The output has one statement or parameter on each line, a tab for each enclosing block,
/// labels without indentation, and no consecutive blank lines. Formatting is idempotent.
///
/// # Errors
///
/// The syntax errors that [`read`] reports. Errors that only [`check`](super::check) reports do
/// not matter.
///
/// ```
/// use ptxkit_ptx::printer::format;
///
/// let source = ".version 8.0\n.target sm_80\n.entry k(){ ret; /* done */ }";
/// assert_eq!(
///     format(source).unwrap(),
///     ".version 8.0\n.target sm_80\n\n.entry k()\n{\n\tret; /* done */\n}\n",
/// );
/// ```
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    let reading = read(source);
    if !reading.diagnostics.is_empty() {
        return Err(reading.diagnostics);
    }
    let mut layout = Layout::new(Some(source));
    layout.module(&reading.module);
    Ok(layout.finish())
}
