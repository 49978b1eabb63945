//! The lowest `.target` and `.version` of modules, found by asking ptxas.

use std::io;

use ptxkit_ptx as ptx;
use ptxkit_ptx::isa::target::{Suffix, Target};
use ptxkit_ptx::version::{lowered, versions};

use crate::archive::{self, Entry, Verdict};
use crate::parallel::parallel;
use crate::toolkit::Toolkit;

/// Every so many modules of the corpus: each costs ptxas a dozen runs.
const STEP: usize = 3;

pub fn record(toolkit: &Toolkit) -> io::Result<()> {
    let entries = archive::entries(&archive::read("corpus"));
    let sample: Vec<&Entry> = entries.iter().step_by(STEP).collect();
    let lines = parallel(&sample, |entry| floor(toolkit, entry));
    let lines: Vec<String> = lines.into_iter().collect::<io::Result<_>>()?;
    println!("floors: {} modules", lines.len());
    archive::write("floors", &lines.concat())
}

/// `NAME VERSION TARGET`
fn floor(toolkit: &Toolkit, entry: &Entry) -> io::Result<String> {
    let module = ptx::read(&entry.text).module;
    let said = |what: &str| io::Error::other(format!("{} has no {what}", entry.name));
    let (newest, _) = module.version.ok_or_else(|| said(".version"))?;
    let word = *module.target.first().ok_or_else(|| said(".target"))?;
    let own = Target::from_text(word.text).ok_or_else(|| said("known .target"))?;
    let span = word.span(&entry.text);
    let accepts = |version, target: Target| -> io::Result<bool> {
        let mut text = entry.text.clone();
        text.replace_range(span.start as usize..span.end as usize, &target.to_string());
        let text = lowered(&text, version).unwrap_or(text);
        Ok(toolkit.judge(text.as_bytes())? == Verdict::Accepted)
    };
    let plain = Target::all().filter(|t| t.suffix == Suffix::None && t.number <= own.number);
    let family = Target::all().filter(|t| {
        t.suffix == Suffix::Family && t.family() == own.family() && t.number <= own.number
    });
    let mut target = lowest(plain.collect(), |target| accepts(newest, target))?;
    if target.is_none() {
        target = lowest(family.collect(), |target| accepts(newest, target))?;
    }
    let target = target.unwrap_or(own);
    let known: Vec<_> = versions().filter(|version| *version <= newest).collect();
    let version = lowest(known, |version| accepts(version, target))?
        .ok_or_else(|| said("accepted version"))?;
    Ok(format!("{} {version} {target}\n", entry.name))
}

/// The first of ascending rungs that will do, if the last will.
fn lowest<T: Copy>(
    rungs: Vec<T>,
    will_do: impl Fn(T) -> io::Result<bool>,
) -> io::Result<Option<T>> {
    let Some(last) = rungs.last() else {
        return Ok(None);
    };
    if !will_do(*last)? {
        return Ok(None);
    }
    let (mut low, mut high) = (0, rungs.len() - 1);
    while low < high {
        let middle = (low + high) / 2;
        if will_do(rungs[middle])? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Some(rungs[high]))
}
