//! Reads a module in parts, each on a thread.

use super::input::Tokens;
use super::mnemonic::Mnemonics;
use super::module::module;
use crate::ast::{Item, MnemonicId, Module, Statement};
use crate::diagnostic::Report;
use crate::threads::on_threads;
use crate::token::LexicalErrors;

/// The module of a text that is cut into `count` parts before kernels; `None` if there is
/// anything wrong with it.
///
/// Each part is read as if an item began there. The first one does begin with an item. Of the
/// next that is known once the part before it was read to its end without an error, and so
/// on: comments, strings and bodies that are cut are errors.
pub fn in_parts(source: &str, count: usize) -> Option<Module<'_>> {
    let starts = starts(source, count);
    let ends = starts.iter().skip(1).copied().chain([source.len()]);
    let parts: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
    let parts = on_threads(parts, |(start, end)| part(source.get(..end)?, start));
    let mut parts = parts.into_iter().collect::<Option<Vec<Module<'_>>>>()?;
    let ids = one_list(&mut parts);
    let numbered = on_threads(parts.into_iter().zip(ids).collect(), |(mut part, ids)| {
        number(&mut part, &ids);
        part
    });
    let mut parts = numbered.into_iter();
    let mut module = parts.next()?;
    for mut part in parts {
        module.items.append(&mut part.items);
    }
    Some(module)
}

/// The offsets at which parts of about equal length begin, the first at 0.
fn starts(source: &str, count: usize) -> Vec<usize> {
    let mut starts = vec![0];
    for part in 1..count {
        let from = (source.len() / count * part).max(*starts.last().unwrap_or(&0) + 1);
        let Some(start) = next_kernel(source, from) else {
            break;
        };
        starts.push(start);
    }
    starts
}

/// The start of the next line that begins with a kernel.
fn next_kernel(source: &str, from: usize) -> Option<usize> {
    let mut from = source.floor_char_boundary(from.min(source.len()));
    loop {
        let entry = from + source.get(from..)?.find(".entry")?;
        let line = source.get(..entry)?.rfind('\n')? + 1;
        let before = source.get(line..entry)?;
        if line >= from && matches!(before.trim_ascii(), "" | ".visible" | ".weak") {
            return Some(line);
        }
        from = entry + 1;
    }
}

/// A part, which must be right.
fn part(source: &str, start: usize) -> Option<Module<'_>> {
    let errors = LexicalErrors::default();
    let mut report = Report::with_limit(1);
    let tokens = Tokens::starting_at(source, start as u32, &errors);
    let module = module(tokens, &mut report);
    report.append(errors.into_report());
    // The head of a module is in its first part.
    let has_head =
        module.version.is_some() || !module.target.is_empty() || module.address_size.is_some();
    (report.into_vec().is_empty() && (start == 0 || !has_head)).then_some(module)
}

/// Makes one list of the mnemonics of all parts, in the first. Returns the new ids of each
/// part's own.
fn one_list(parts: &mut [Module<'_>]) -> Vec<Vec<MnemonicId>> {
    let mut all = Mnemonics::default();
    let mut ids = Vec::with_capacity(parts.len());
    for part in parts.iter_mut() {
        let own = std::mem::take(&mut part.mnemonics).into_iter();
        ids.push(own.map(|mnemonic| all.share(mnemonic)).collect());
    }
    if let Some(first) = parts.first_mut() {
        first.mnemonics = all.into_list();
    }
    ids
}

/// Gives the instructions of a part the ids of the whole.
fn number(part: &mut Module<'_>, ids: &[MnemonicId]) {
    if ids.iter().enumerate().all(|(old, id)| id.index() == old) {
        return;
    }
    for item in &mut part.items {
        let Item::Function(function) = item else {
            continue;
        };
        let statements = function
            .body
            .iter_mut()
            .flat_map(|body| &mut body.statements);
        for statement in statements {
            if let Statement::Instruction(instruction) = statement
                && let Some(id) = ids.get(instruction.mnemonic.index())
            {
                instruction.mnemonic = *id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::read;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    /// Modules of several kernels, with something between two of them.
    fn with_between(between: &str) -> String {
        let kernel =
            |name: u32, words: &str| format!(".visible .entry k{name}()\n{{\n{words}\tret;\n}}\n");
        let (first, second) = ("\tbar.sync \t0;\n", "\t.reg .b32 a;\n\tmov.b32 \ta, 1;\n");
        format!(
            "{HEAD}{}{}{between}{}{}",
            kernel(1, &first.repeat(25)),
            kernel(2, &second.repeat(9)),
            kernel(3, &second.repeat(9)),
            kernel(4, &first.repeat(25)),
        )
    }

    /// In how many parts a text can be read, of several numbers.
    fn read_in_parts(source: &str) -> usize {
        let whole = read(source);
        let counts = (2..9).filter(|count| match in_parts(source, *count) {
            Some(module) => {
                assert_eq!(module, whole.module, "{count} parts of {source}");
                assert_eq!(whole.diagnostics, [], "{count} parts of {source}");
                true
            }
            None => false,
        });
        counts.count()
    }

    #[test]
    fn parts_make_the_whole() {
        for between in [
            "",
            "// .entry\n",
            "/* a\ncomment */\n",
            ".global .u32 a, b;\n",
            ".func f()\n",
            ".pragma \"nounroll\";\n",
        ] {
            assert_eq!(read_in_parts(&with_between(between)), 7, "{between}");
        }
        assert_eq!(starts(&with_between(""), 3).len(), 3);
    }

    /// What looks like the line of a kernel, and is none or no place to cut.
    #[test]
    fn what_is_cut_in_two_is_read_whole() {
        for between in [
            "/*\n.entry k() { ret; }\n*/\n".repeat(20),
            ".visible // this\n".to_owned(),
            ".global .u32 a\n".to_owned(),
        ] {
            assert!(read_in_parts(&with_between(&between)) < 7, "{between}");
        }
        // Wrong wherever it is.
        for between in [".version 8.0\n", ".target sm_80\n", "}\n", "{\n", "\""] {
            assert_eq!(read_in_parts(&with_between(between)), 0, "{between}");
        }
        assert_eq!(starts("\u{e9}.entry", 3), [0]);
        assert_eq!(starts("", 3), [0]);
    }

    /// Whatever is wrong, the parts make the whole or are none.
    #[test]
    fn damaged_texts_are_read_alike() {
        let words = [
            "{",
            "}",
            "\"",
            ";",
            "/*",
            "*/",
            "//",
            "#",
            "@@DWARF",
            "\u{e9}",
            ".visible ",
            ".func f()\n",
            "\n.entry k() {",
            "\n.entry k() { ret; }\n",
            ".version 8.0\n",
            "/*\n.entry",
            "\n.pragma \"\n.entry a\";",
            ".weak\n",
            "",
            "",
        ];
        let whole = with_between(".global .u32 a;\n");
        let mut random = 1_u64;
        let mut below = |end: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) as usize % end
        };
        let mut in_many = 0;
        for _ in 0..500 {
            let mut damaged = whole.clone();
            for round in 0..=below(3) {
                let mut at = damaged.floor_char_boundary(below(damaged.len()));
                // Between two items many words leave the text right.
                if round == 0 {
                    at += damaged[at..].find("\n.visible").map_or(0, |end| end + 1);
                }
                damaged.insert_str(at, words[below(words.len())]);
            }
            in_many += read_in_parts(&damaged);
        }
        assert!(in_many > 50, "{in_many}");
    }
}
