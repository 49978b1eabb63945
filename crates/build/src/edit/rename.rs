//! Other names for what a module declares.

use ptx::ast::{Name, Span};
use ptx::references;

use super::Edit;
use crate::error::Error;
use crate::state::is_name;

impl<'a> Edit<'a> {
    /// Gives a kernel, function or variable of the module another name, wherever it is
    /// mentioned.
    ///
    /// # Errors
    ///
    /// The module declares no such name, or the new one is no name, or one that it has.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), Error> {
        let missing = || Error::Missing {
            name: name.to_owned(),
        };
        let items = self.module.items.iter();
        let mut names = items.filter_map(|item| match item {
            ptx::ast::Item::Variable(variable) => Some(variable.name),
            ptx::ast::Item::Function(function) => Some(function.name),
            ptx::ast::Item::Directive(_) => None,
        });
        let declared = names.find(|declared| declared.text == name);
        let declared = declared.ok_or_else(missing)?;
        // Each declaration of a function, with a body or without.
        self.rename_where(declared, new, |found| found == name)
    }

    /// Gives what a function declares another name: a parameter, a register, a label. Of
    /// registers such as `.reg .b32 %r<9>` it is the part before the number.
    ///
    /// # Errors
    ///
    /// As for [`rename`](Edit::rename).
    pub fn rename_in(&mut self, function: &str, name: &str, new: &str) -> Result<(), Error> {
        let within = self.function(function)?.span;
        let all = references(&self.module, within);
        let declared = all.iter().map(|found| found.declaration);
        let mut declared = declared.filter(|one| one.text == name);
        let inside = |name: &Name<'_>| {
            let Span { start, .. } = name.span(self.source);
            (within.start..within.end).contains(&start)
        };
        let declared = declared.find(inside);
        let declared = declared.ok_or_else(|| Error::Missing {
            name: name.to_owned(),
        })?;
        self.rename_where(declared, new, |_| false)
    }

    /// Renames the mentions of a declaration, and those of declarations at the top with a name
    /// that `same` accepts.
    fn rename_where(
        &mut self,
        declared: Name<'a>,
        new: &str,
        same: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let bare = new.strip_prefix('%').unwrap_or(new);
        if !is_name(bare) && !bare.strip_prefix('$').is_some_and(is_name) {
            return Err(Error::Name {
                name: new.to_owned(),
            });
        }
        if self.words.contains(new) {
            return Err(Error::Taken {
                name: new.to_owned(),
            });
        }
        let place = declared.span(self.source);
        let all = Span {
            start: 0,
            end: self.source.len() as u32,
        };
        let tops: Vec<Span> = super::functions(&self.module)
            .filter(|function| same(function.name.text))
            .map(|function| function.name.span(self.source))
            .collect();
        for reference in references(&self.module, all) {
            let declaration = reference.declaration.span(self.source);
            if declaration != place && !tops.contains(&declaration) {
                continue;
            }
            // Of `%r5`, declared as `%r<9>`, the number stays.
            let span = reference.name.span(self.source);
            let end = span.start + reference.declaration.text.len() as u32;
            let start = span.start;
            self.changes.rename(Span { start, end }, new);
        }
        Ok(())
    }
}
