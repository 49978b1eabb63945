//! Tree → text. Reading the text again gives the same tree but for the places.
//!
//! [`print()`] knows the tree alone. [`format()`] has the source at hand as well, and
//! keeps what people would miss: comments, blank lines, and numbers as they were
//! written.

pub mod comments;
mod declaration;
mod layout;
mod operand;
mod statement;

use super::ast::Module;
use super::diagnostic::Diagnostic;
use super::parse::read;
use layout::Layout;

/// The text of a module, one statement a line.
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

/// The canonical form of a text, with its comments.
///
/// The form has one statement a line, a tab for each block that it stands in,
/// labels at the margin, one parameter a line, and at most one blank line in a
/// row. Formatting it again changes nothing.
///
/// # Errors
///
/// What [`read`] finds, if anything: a text that cannot be read cannot be
/// printed. What only [`check`](super::check) would mind is printed as it is.
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
