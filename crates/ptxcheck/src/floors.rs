//! `ptxcheck floors`: the lowest `.version` and `.target`, and what forces them.

use std::path::PathBuf;

use serde::Serialize;

use super::texts::texts_without_errors;
use ptx::diagnostic::{Diagnostic, LineIndex};
use ptx::{read, version};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, Format, json_line, print};

/// The arguments of `ptxcheck floors`.
#[derive(Debug, clap::Args)]
pub struct FloorsArgs {
    /// A file with PTX; `-` is standard input
    file: PathBuf,
    /// The output format
    #[arg(
        long,
        visible_alias = "format",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    output_format: Format,
}

#[derive(Serialize)]
struct Floors {
    file: String,
    /// The file's own.
    says: Head,
    /// The lowest possible; `null` if its `.target` is unknown.
    needs: Option<Head>,
    version_forced_by: Option<Reason>,
    target_forced_by: Option<Reason>,
}

#[derive(Serialize)]
struct Head {
    version: Option<String>,
    target: Option<String>,
}

#[derive(Serialize)]
struct Reason {
    line: u32,
    column: u32,
    message: String,
}

/// Prints the floors; returns the exit status.
///
/// # Errors
/// The file cannot be read.
pub fn run(args: &FloorsArgs) -> Result<u8, Failure> {
    let Some(texts) = texts_without_errors(&args.file)? else {
        return Ok(MISMATCHES);
    };
    let floors: Vec<Floors> = texts
        .iter()
        .map(|text| floors(&text.name, &text.source))
        .collect();
    print(&match args.output_format {
        Format::Json => json_line(&floors),
        Format::Text => floors
            .iter()
            .filter_map(Floors::text)
            .collect::<Vec<_>>()
            .join("\n"),
    });
    match floors.iter().find(|floors| floors.needs.is_none()) {
        Some(Floors { file, .. }) => {
            Failure::new(format!(
                "{}: there is no floor for its `.target`",
                Escaped::new(file)
            ))
            .print();
            Ok(MISMATCHES)
        }
        None => Ok(VERIFIED),
    }
}

fn floors(name: &str, source: &str) -> Floors {
    let reading = read(source);
    let lines = LineIndex::new(source);
    let reason = |wrong: Diagnostic| {
        let place = lines.locate(wrong.span.start);
        Reason {
            line: place.line,
            column: place.column,
            message: wrong.message,
        }
    };
    let module = &reading.module;
    let needed = version::needed(module, source);
    let mut floors = Floors {
        file: name.to_owned(),
        says: Head {
            version: module.version.map(|(version, _)| version.to_string()),
            target: module.target.first().map(|name| name.text.to_owned()),
        },
        needs: None,
        version_forced_by: None,
        target_forced_by: None,
    };
    if let Some(needed) = needed {
        floors.needs = Some(Head {
            version: Some(needed.version.to_string()),
            target: Some(needed.target.to_string()),
        });
        floors.version_forced_by = needed.version_forced_by.map(reason);
        floors.target_forced_by = needed.target_forced_by.map(reason);
    }
    floors
}

impl Floors {
    /// `None` for a text without floors.
    fn text(&self) -> Option<String> {
        let needs = self.needs.as_ref()?;
        let mut out = format!("{}\n", Escaped::new(&self.file));
        for (directive, says, needs, forced_by) in [
            (
                ".version",
                &self.says.version,
                &needs.version,
                &self.version_forced_by,
            ),
            (
                ".target",
                &self.says.target,
                &needs.target,
                &self.target_forced_by,
            ),
        ] {
            let (says, needs) = (
                says.as_deref().unwrap_or("none"),
                needs.as_deref().unwrap_or("none"),
            );
            let why = match forced_by {
                Some(Reason {
                    line,
                    column,
                    message,
                }) => format!("{line}:{column}: {message}"),
                None => "there is no lower one".to_owned(),
            };
            out += &format!("  {directive:<9} {needs:<8} (says {says})  {why}\n");
        }
        Some(out)
    }
}
