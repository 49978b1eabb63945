//! Coverage as annotated text, as a page and for lcov.

use std::fmt::Write as _;

use crate::instrument::coverage::{FunctionCount, LineCount, WARP};
use crate::markup::escaped;
use ptxkit::ptx::diagnostic::LineIndex;
use terminal::output::Escaped;

/// What is shown.
#[derive(Debug)]
pub struct Coverage<'s> {
    pub file: String,
    pub source: &'s str,
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub functions: Vec<FunctionCount>,
}

impl Coverage<'_> {
    /// Threads of a block.
    pub fn block_threads(&self) -> u64 {
        product(self.block)
    }

    fn threads(&self) -> u64 {
        product(self.grid).saturating_mul(self.block_threads())
    }

    /// `2 blocks of 100 threads: 200 threads in 8 warps`
    fn launched(&self) -> String {
        let blocks = product(self.grid);
        let warps = blocks.saturating_mul(self.block_threads().div_ceil(WARP));
        format!(
            "{} of {}: {} in {}",
            counted(blocks, "block"),
            counted(self.block_threads(), "thread"),
            counted(self.threads(), "thread"),
            counted(warps, "warp")
        )
    }

    /// The kernel, and the functions that its threads entered.
    fn shown(&self) -> impl Iterator<Item = &FunctionCount> {
        self.functions
            .iter()
            .filter(|function| function.name == self.kernel || function.entered > 0)
    }

    /// Annotated text.
    pub fn text(&self) -> String {
        let index = LineIndex::new(self.source);
        let mut out = format!(
            "{}, {}: {}\n",
            Escaped::new(&self.file),
            Escaped::new(&self.kernel),
            self.launched()
        );
        for function in self.shown() {
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "\n{}: {} of {} with instructions executed\n\
                 {:>12} {:>10} {:>8}\n",
                Escaped::new(&function.name),
                function.covered(),
                counted(function.lines.len() as u64, "line"),
                "executions",
                "threads",
                "partial",
            );
            for (line, text, count) in annotated(function, &index) {
                let text = Escaped::lines(text).to_string();
                let text = text.trim_end();
                let _ = match count {
                    None => writeln!(out, "{:>32} {line:>6}  {text}", ""),
                    Some(LineCount { count, taken, .. }) if count.executions == 0 => {
                        debug_assert!(taken.is_none_or(|taken| taken == 0));
                        writeln!(out, "{:>12} {:>19} {line:>6}  {text}", "#####", "")
                    }
                    Some(LineCount {
                        count,
                        taken,
                        reached,
                        ..
                    }) => {
                        let taken = taken.map(|taken| format!("    // taken {taken} of {reached}"));
                        writeln!(
                            out,
                            "{:>12} {:>10} {:>8} {line:>6}  {text}{}",
                            count.executions,
                            count.threads,
                            count.partial_warps,
                            taken.unwrap_or_default()
                        )
                    }
                };
            }
        }
        out
    }

    /// The tracefile format of lcov and of what reads it.
    pub fn lcov(&self) -> String {
        let mut out = format!("TN:\nSF:{}\n", self.file);
        let (mut lines, mut covered) = (0, 0);
        for function in &self.functions {
            let (name, first) = (&function.name, function.extent.0);
            let _ = writeln!(out, "FN:{first},{name}\nFNDA:{},{name}", function.entered);
        }
        for function in &self.functions {
            lines += function.lines.len();
            covered += function.covered();
            for line in &function.lines {
                let _ = writeln!(out, "DA:{},{}", line.line, line.count.executions);
                if let Some(taken) = line.taken {
                    let branch = |count: u64| match line.reached {
                        0 => "-".to_owned(),
                        _ => count.to_string(),
                    };
                    let _ = writeln!(
                        out,
                        "BRDA:{0},0,0,{1}\nBRDA:{0},0,1,{2}",
                        line.line,
                        branch(taken),
                        branch(line.reached - taken.min(line.reached))
                    );
                }
            }
        }
        out + &format!("LF:{lines}\nLH:{covered}\nend_of_record\n")
    }

    /// A page that needs nothing else.
    pub fn html(&self) -> String {
        let index = LineIndex::new(self.source);
        let title = format!("Coverage of {}", escaped(&self.kernel));
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}\n</style>\n<h1>{title}</h1>\n<p>{}: {}</p>\n",
            escaped(&self.file),
            self.launched()
        );
        let all = self.threads();
        for function in self.shown() {
            let _ = write!(
                out,
                "<h2>{}</h2>\n<p>{} of {} with instructions executed</p>\n<table>\n\
                 <tr><th>executions<th>threads<th>partial warps<th>line<th class=\"code\">PTX\n",
                escaped(&function.name),
                function.covered(),
                counted(function.lines.len() as u64, "line"),
            );
            for (line, text, count) in annotated(function, &index) {
                let text = escaped(text.trim_end());
                let _ = match count {
                    None => writeln!(out, "<tr><td><td><td><td>{line}<td class=\"code\">{text}"),
                    Some(found) => {
                        let count = found.count;
                        let class = match count {
                            _ if count.executions == 0 => "none",
                            _ if count.partial_warps > 0 => "partial",
                            _ if count.threads < all => "some",
                            _ => "all",
                        };
                        let taken = found.taken.map(|taken| {
                            format!("<span> taken {taken} of {}</span>", found.reached)
                        });
                        writeln!(
                            out,
                            "<tr class=\"{class}\"><td>{}<td>{}<td>{}<td>{line}\
                             <td class=\"code\">{text}{}",
                            count.executions,
                            count.threads,
                            count.partial_warps,
                            taken.unwrap_or_default()
                        )
                    }
                };
            }
            out += "</table>\n";
        }
        out + "<p class=\"legend\"><b class=\"all\">all threads</b> <b class=\"some\">whole warps, \
               not all</b> <b class=\"partial\">warps in part</b> <b class=\"none\">never</b></p>\n\
               </html>\n"
    }
}

/// Colours for light and dark pages.
const STYLE: &str = "\
:root { color-scheme: light dark; --page: #fff; --text: #1a1d23; --dim: #5b6472;
--all: #e3f4e5; --some: #e2eefc; --partial: #fdf0d0; --none: #fbe0dc }
@media (prefers-color-scheme: dark) { :root { --page: #16181d; --text: #e4e6eb; --dim: #9aa4b2;
--all: #1d3524; --some: #1b2d45; --partial: #413413; --none: #46211d } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem; background: var(--page); color: var(--text) }
table { border-collapse: collapse } td, th { text-align: right; padding: 0 .8rem; font-variant-numeric: tabular-nums }
th { font-weight: 500; color: var(--dim) }
td { font-family: ui-monospace, monospace; font-size: 12.5px } td.code, th.code { text-align: left; white-space: pre }
td span { color: var(--dim) } .legend b { font-weight: 400; padding: .15rem .5rem }
.all { background: var(--all) } .some { background: var(--some) }
.partial { background: var(--partial) } .none { background: var(--none) }";

/// The lines of a function, each with its count if it has instructions.
fn annotated<'s, 'f: 's>(
    function: &'f FunctionCount,
    index: &'s LineIndex<'s>,
) -> impl Iterator<Item = (u32, &'s str, Option<&'f LineCount>)> {
    let (first, last) = function.extent;
    let mut counts = function.lines.iter().peekable();
    (first..=last).map(move |line| {
        let count = counts.next_if(|count| count.line == line);
        (line, index.text(line), count)
    })
}

fn product([x, y, z]: [u32; 3]) -> u64 {
    u64::from(x)
        .saturating_mul(u64::from(y))
        .saturating_mul(u64::from(z))
}

fn counted(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
